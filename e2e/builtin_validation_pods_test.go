package e2e

const space = "/api/v1/namespaces/default/"

var podValidations = []validated{
	{space + "pods", `{"spec": {"containers": [{"name": "a", "image": "b"}]}}`, `
		spec=null
		spec.containers=[]
		spec.containers.0.name=null
		spec.containers.0.name="A"
		spec.containers.0.name="a.b"
		spec.containers.0.name="<long>"
		spec.containers.0.image=""
		spec.containers.0.image=" b"
		spec.containers.1={"name": "a", "image": "b"}
		spec.containers.0.name="A" ; spec.containers.0.image="" ; spec.restartPolicy="x"
		spec.containers.0.terminationMessagePolicy="x"
		spec.containers.0.imagePullPolicy="x"
		spec.containers.0.ports=[{"containerPort": 0}]
		spec.containers.0.ports=[{"containerPort": 65536}]
		spec.containers.0.ports=[{"containerPort": 80, "hostPort": 70000}]
		spec.containers.0.ports=[{"containerPort": 80, "protocol": "X"}]
		spec.containers.0.ports=[{"containerPort": 80, "name": "http"}, {"containerPort": 81, "name": "http"}]
		spec.containers.0.ports=[{"containerPort": 80, "name": "This-is-a-long-name"}]
		spec.containers.0.ports=[{"containerPort": 80, "name": "1"}]
		spec.containers.0.ports=[{"containerPort": 80, "name": "a--b"}]
		spec.containers.0.ports=[{"containerPort": 80, "name": "-a"}]
		spec.containers.0.ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]
		spec.containers.0.env=[{"name": ""}]
		spec.containers.0.env=[{"name": "a=b"}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {}}]
		spec.containers.0.env=[{"name": "a", "value": "b", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}, "configMapKeyRef": {"name": "s", "key": "k"}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"secretKeyRef": {"name": "S", "key": ""}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "", "key": "a b"}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "a", "key": ".."}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": ""}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name['a']"}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": ""}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "x"}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1m"}}}]
		spec.containers.0.envFrom=[{}]
		spec.containers.0.envFrom=[{"configMapRef": {"name": "a"}, "secretRef": {"name": "a"}}]
		spec.containers.0.envFrom=[{"configMapRef": {"name": ""}}]
		spec.containers.0.envFrom=[{"secretRef": {"name": "A"}}]
		spec.containers.0.envFrom=[{"prefix": "a=", "secretRef": {"name": "a"}}]
		spec.containers.0.volumeMounts=[{"name": "v", "mountPath": "/a"}]
		spec.containers.0.volumeMounts=[{"name": "", "mountPath": ""}]
		spec.volumes=[{"name": "v", "emptyDir": {}}] ; spec.containers.0.volumeMounts=[{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]
		spec.volumes=[{"name": "v", "emptyDir": {}}] ; spec.containers.0.volumeMounts=[{"name": "v", "mountPath": "/a", "subPath": "/b"}]
		spec.volumes=[{"name": "v", "emptyDir": {}}] ; spec.containers.0.volumeMounts=[{"name": "v", "mountPath": "/a", "subPath": "b/../c"}]
		spec.volumes=[{"name": "v", "emptyDir": {}}] ; spec.containers.0.volumeMounts=[{"name": "v", "mountPath": "/a", "subPath": "b", "subPathExpr": "c"}]
		spec.volumes=[{"name": "v", "emptyDir": {}}] ; spec.containers.0.volumeMounts=[{"name": "v", "mountPath": "/a", "mountPropagation": "x"}]
		spec.volumes=[{"name": "v", "emptyDir": {}}] ; spec.containers.0.volumeMounts=[{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}]
		spec.volumes=[{"name": "v", "emptyDir": {}}] ; spec.containers.0.volumeMounts=[{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"}]
		spec.volumes=[{"name": "v", "emptyDir": {}}] ; spec.containers.0.volumeDevices=[{"name": "v", "devicePath": "/a"}]
		spec.containers.0.volumeDevices=[{"name": "v", "devicePath": ""}]
		spec.containers.0.resources={"limits": {"cpu": "-1"}}
		spec.containers.0.resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}
		spec.containers.0.resources={"limits": {"cpu": "1500m"}, "requests": {"cpu": "1.6"}}
		spec.containers.0.resources={"limits": {"memory": "1Gi"}, "requests": {"memory": "2048Mi"}}
		spec.containers.0.resources={"limits": {"x": "1"}}
		spec.containers.0.resources={"limits": {"pods": "1"}}
		spec.containers.0.resources={"limits": {"example.com/gpu": "1.5"}}
		spec.containers.0.resources={"requests": {"example.com/gpu": "1"}}
		spec.containers.0.resources={"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "1"}}
		spec.containers.0.resources={"limits": {"hugepages-2Mi": "2Mi"}}
		spec.containers.0.resources={"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}
		spec.containers.0.resources={"claims": [{"name": "x"}]}
		spec.containers.0.livenessProbe={}
		spec.containers.0.livenessProbe={"exec": {}, "tcpSocket": {"port": 1}}
		spec.containers.0.livenessProbe={"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}
		spec.containers.0.livenessProbe={"tcpSocket": {"port": 0}}
		spec.containers.0.livenessProbe={"tcpSocket": {"port": "a b"}}
		spec.containers.0.livenessProbe={"grpc": {"port": 70000}}
		spec.containers.0.livenessProbe={"httpGet": {"port": "x", "scheme": "ftp"}}
		spec.containers.0.livenessProbe={"httpGet": {"port": 80, "httpHeaders": [{"name": "a b", "value": "c"}]}}
		spec.containers.0.livenessProbe={"tcpSocket": {"port": 1}, "successThreshold": 2}
		spec.containers.0.livenessProbe={"tcpSocket": {"port": 1}, "initialDelaySeconds": -1}
		spec.containers.0.livenessProbe={"tcpSocket": {"port": 1}, "timeoutSeconds": -1, "periodSeconds": -1, "failureThreshold": -1}
		spec.containers.0.livenessProbe={"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 0}
		spec.containers.0.readinessProbe={"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 1}
		spec.containers.0.startupProbe={"tcpSocket": {"port": 1}, "successThreshold": 2}
		spec.containers.0.lifecycle={"preStop": {}}
		spec.containers.0.lifecycle={"preStop": {"sleep": {"seconds": 31}}}
		spec.containers.0.lifecycle={"postStart": {"exec": {}}}
		spec.containers.0.securityContext={"runAsUser": -1}
		spec.containers.0.securityContext={"runAsGroup": -1, "procMount": "x"}
		spec.containers.0.securityContext={"seccompProfile": {}}
		spec.containers.0.securityContext={"seccompProfile": {"type": "x"}}
		spec.containers.0.securityContext={"seccompProfile": {"type": "Localhost"}}
		spec.containers.0.securityContext={"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}}
		spec.containers.0.securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "/a"}}
		spec.containers.0.securityContext={"allowPrivilegeEscalation": false, "privileged": true}
		spec.containers.0.securityContext={"appArmorProfile": {"type": "x"}}
		spec.containers.0.resizePolicy=[{"resourceName": "x", "restartPolicy": "NotRequired"}]
		spec.containers.0.resizePolicy=[{"resourceName": "cpu", "restartPolicy": "x"}]
		spec.initContainers=[{"name": "a", "image": "b"}]
		spec.initContainers=[{"name": "c", "image": "b"}, {"name": "c", "image": ""}]
		spec.initContainers=[{"name": "c", "image": "b", "livenessProbe": {"tcpSocket": {"port": 1}}}]
		spec.initContainers=[{"name": "c", "image": "b", "readinessProbe": {"tcpSocket": {"port": 1}}, "lifecycle": {}}]
		spec.initContainers=[{"name": "c", "image": "b", "restartPolicy": "x"}]
		spec.ephemeralContainers=[{"name": "c", "image": "b"}]
		spec.restartPolicy="x"
		spec.dnsPolicy="x"
		spec.dnsPolicy="None"
		spec.dnsPolicy="None" ; spec.dnsConfig={}
		spec.dnsConfig={"nameservers": ["x"]}
		spec.dnsConfig={"nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"]}
		spec.dnsConfig={"searches": ["a b"]}
		spec.dnsConfig={"options": [{}]}
		spec.nodeSelector={"a b": "c"}
		spec.nodeSelector={"a": "c d"}
		spec.securityContext={"runAsUser": -1, "fsGroup": -1, "supplementalGroups": [-1]}
		spec.securityContext={"fsGroupChangePolicy": "x"}
		spec.securityContext={"sysctls": [{"name": "", "value": ""}]}
		spec.securityContext={"sysctls": [{"name": "A", "value": ""}]}
		spec.securityContext={"sysctls": [{"name": "kernel.shmmax", "value": ""}, {"name": "kernel.shmmax", "value": ""}]}
		spec.securityContext={"supplementalGroupsPolicy": "x"}
		spec.hostPID=true ; spec.shareProcessNamespace=true
		spec.affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
		spec.affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}
		spec.affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a b", "operator": "x"}]}]}}}
		spec.affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}]}}}
		spec.affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "a", "operator": "Exists"}]}]}}}
		spec.affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]}}
		spec.affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}
		spec.affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "podAffinityTerm": {"topologyKey": "a", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "x"}]}}}]}}
		spec.affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a", "namespaces": ["A"]}]}}
		spec.readinessGates=[{"conditionType": ""}]
		spec.schedulingGates=[{"name": "a"}, {"name": "a"}]
		spec.schedulingGates=[{"name": ""}]
		spec.topologySpreadConstraints=[{}]
		spec.topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1}]
		spec.topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}, {"maxSkew": 2, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]
		spec.topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "x", "matchLabelKeys": ["a"]}]
		spec.hostAliases=[{"ip": "x", "hostnames": ["A"]}]
		spec.nodeName="A"
		spec.activeDeadlineSeconds=0
		spec.hostname="a.b"
		spec.subdomain="A"
		spec.tolerations=[{"operator": "Equal"}]
		spec.tolerations=[{"key": "a", "operator": "x"}]
		spec.tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]
		spec.tolerations=[{"key": "a", "effect": "x"}]
		spec.tolerations=[{"key": "a", "tolerationSeconds": 1}]
		spec.tolerations=[{"key": "a b", "value": "c d"}]
		spec.os={"name": "x"}
		spec.os={"name": "windows"} ; spec.hostPID=true ; spec.securityContext={"fsGroup": 1}
		spec.hostUsers=false ; spec.hostPID=true
		spec.setHostnameAsFQDN=true ; spec.hostnameOverride="a"
		spec.volumes=[{"name": "v"}]
		spec.volumes=[{"name": "", "emptyDir": {}}]
		spec.volumes=[{"name": "A", "emptyDir": {}}]
		spec.volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]
		spec.volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/a"}}]
		spec.volumes=[{"name": "v", "emptyDir": {"sizeLimit": "-1"}}]
		spec.volumes=[{"name": "v", "hostPath": {"path": ""}}]
		spec.volumes=[{"name": "v", "hostPath": {"path": "/a/../b", "type": "x"}}]
		spec.volumes=[{"name": "v", "secret": {}}]
		spec.volumes=[{"name": "v", "secret": {"secretName": "s", "defaultMode": 512}}]
		spec.volumes=[{"name": "v", "secret": {"secretName": "s", "items": [{}]}}]
		spec.volumes=[{"name": "v", "configMap": {"items": [{"key": "a", "path": "/b", "mode": -1}]}}]
		spec.volumes=[{"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "..b"}]}}]
		spec.volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": ""}}]
		spec.volumes=[{"name": "v", "nfs": {"server": "", "path": "a"}}]
		spec.volumes=[{"name": "v", "downwardAPI": {"items": [{"path": "a"}]}}]
		spec.volumes=[{"name": "v", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}}]}}]
		spec.volumes=[{"name": "v", "downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}}]
		spec.volumes=[{"name": "v", "projected": {"sources": [{"secret": {}}]}}]
		spec.volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": "a"}, "configMap": {"name": "a"}}]}}]
		spec.volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 1}}]}}]
		spec.volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": "a", "items": [{"key": "a", "path": "b"}, {"key": "c", "path": "b"}]}}]}}]
		spec.volumes=[{"name": "v", "csi": {"driver": ""}}]
		spec.volumes=[{"name": "v", "ephemeral": {}}]
		spec.volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
		spec.volumes=[{"name": "v", "image": {}}]
		metadata.name="a.b"
		spec.containers.0.env=[{"name": "a", "value": "b"}, {"name": "a", "value": "c"}]
		spec.containers.0.env=[{"name": "a", "value": "b"}, {"name": "a", "value": "$(a)c"}]
		spec.containers.0.ports=[{"containerPort": 80}, {"containerPort": 80}]
		spec.containers.0.ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 80}]
		spec.containers.0.ports=[{"containerPort": 80, "name": "a"}] ; spec.containers.1={"name": "c", "image": "d", "ports": [{"containerPort": 81, "name": "a"}]}
		spec.containers.0.resources={"requests": {"memory": "100m"}}
		spec.nodeSelector={"beta.kubernetes.io/os": "linux"}
		spec.affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "beta.kubernetes.io/arch", "operator": "Exists"}]}]}}}
		spec.affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}}
		spec.topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]
		spec.hostAliases=[{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}]
		spec.imagePullSecrets=[{"name": "a"}, {"name": "a"}, {"name": ""}]
		spec.volumes=[{"name": "v", "gitRepo": {"repository": "a"}}, {"name": "w", "glusterfs": {"endpoints": "a", "path": "b"}}]
		spec.terminationGracePeriodSeconds=-1
		metadata.annotations={"controller.kubernetes.io/pod-deletion-cost": "x"}
		metadata.annotations={"a b": "c"}
		metadata.labels={"a": "b c"}
		metadata.labels={"<long>/a": "b"}
		metadata.finalizers=["x"]
		metadata.name="A"
		metadata.name="<long>"
		metadata.name=null
		metadata.ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "controller": true}, {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "v", "controller": true}]
	`, `
		metadata.labels={"a": "b"}
		spec.containers.0.image="c"
		spec.containers.0.image=""
		spec.containers.0.image=" c"
		spec.containers.0.name="c"
		spec.containers.0.command=["x"]
		spec.containers.1={"name": "c", "image": "d"}
		spec.initContainers=[{"name": "c", "image": "d"}]
		spec.activeDeadlineSeconds=10
		spec.activeDeadlineSeconds=-1
		spec.tolerations=[{"key": "a", "operator": "Exists"}]
		spec.tolerations=[{"key": "a", "operator": "x"}]
		spec.terminationGracePeriodSeconds=10
		spec.restartPolicy="Never"
		spec.nodeSelector={"a": "b"}
		spec.schedulingGates=[{"name": "a"}]
		spec.volumes=[{"name": "v", "emptyDir": {}}]
		spec.hostNetwork=true
	`, `
		status.phase="Running"
		status.conditions=[{"type": "a b", "status": "True"}]
		status.nominatedNodeName="A"
		status.podIPs=[{"ip": "x"}]
		status.podIPs=[{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]
		status.observedGeneration=-1
		status.qosClass="x"
	`},
	{space + "pods", `{"spec": {"activeDeadlineSeconds": 10, "tolerations": [{"key": "a", "operator": "Exists"}], "schedulingGates": [{"name": "g"}], "nodeSelector": {"a": "b"}, "containers": [{"name": "a", "image": "b"}]}}`, "", `
		spec.activeDeadlineSeconds=5
		spec.activeDeadlineSeconds=20
		spec.activeDeadlineSeconds=null
		spec.tolerations.0={"key": "b", "operator": "Exists"}
		spec.tolerations.0={"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
		spec.schedulingGates=[{"name": "h"}]
		spec.schedulingGates=[]
		spec.nodeSelector={"a": "b", "c": "d"}
		spec.nodeSelector={"a": "c"}
		spec.affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}
	`, ""},
	{space + "podtemplates", `{"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}}`, `
		template.spec.containers=[]
		template.metadata.labels={"a b": "c"}
		template.metadata.annotations={"a b": "c"}
	`, `
		template.spec.containers.0.image=""
		template.spec.containers.0.image="c"
	`, ""},
}

var workloadValidations = []validated{
	{"/apis/apps/v1/namespaces/default/deployments", `{"spec": {` + workload + `}}`, `
		spec=null
		spec.replicas=-1
		spec.selector=null
		spec.selector={}
		spec.selector={"matchLabels": {"a": "c"}}
		spec.selector={"matchLabels": {"a": "c d"}}
		spec.selector={"matchExpressions": [{"key": "a", "operator": "x"}]}
		spec.selector={"matchExpressions": [{"key": "a", "operator": "In"}]}
		spec.selector={"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}
		spec.selector={"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}
		spec.selector={"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}
		spec.template=null
		spec.template.metadata=null
		spec.template.metadata.labels={"a": "b", "c d": "e"}
		spec.template.spec.containers=[]
		spec.template.spec.containers.0.image="" ; spec.template.spec.containers.0.name="A"
		spec.template.spec.restartPolicy="Never"
		spec.template.spec.restartPolicy="x"
		spec.template.spec.activeDeadlineSeconds=1
		spec.template.spec.volumes=[{"name": "v"}]
		spec.template.spec.priorityClassName="A"
		spec.template.spec.runtimeClassName="A"
		spec.template.spec.preemptionPolicy="x"
		spec.template.spec.ephemeralContainers=[{"name": "c", "image": "d"}]
		spec.strategy={"type": "x"}
		spec.strategy={"type": "Recreate", "rollingUpdate": {}}
		spec.strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}
		spec.strategy={"rollingUpdate": {"maxSurge": -1}}
		spec.strategy={"rollingUpdate": {"maxUnavailable": "x"}}
		spec.strategy={"rollingUpdate": {"maxUnavailable": "101%"}}
		spec.minReadySeconds=-1
		spec.revisionHistoryLimit=-1
		spec.progressDeadlineSeconds=-1
		spec.progressDeadlineSeconds=5 ; spec.minReadySeconds=5
		spec.replicas=-1 ; spec.minReadySeconds=-1 ; spec.template.spec.containers=[]
		metadata.name="a_b"
		spec.template.spec.terminationGracePeriodSeconds=-1
		metadata.name="a.b" ; spec.template.spec.nodeSelector={"beta.kubernetes.io/os": "linux"}
	`, `
		spec.replicas=2
		spec.template.spec.nodeSelector={"beta.kubernetes.io/os": "linux"}
		spec.selector={"matchLabels": {"c": "d"}}
		spec.selector={"matchLabels": {"c": "d"}} ; spec.template.metadata.labels={"c": "d"}
		spec.template.metadata.labels={"c": "d"}
		spec.template.spec.containers.0.image=""
		spec.replicas=-1
	`, `
		status.replicas=-1
		status.replicas=1 ; status.readyReplicas=2
		status.replicas=2 ; status.availableReplicas=2 ; status.readyReplicas=1
		status.updatedReplicas=1
		status.observedGeneration=-1
		status.collisionCount=-1
	`},
	{"/apis/apps/v1/namespaces/default/replicasets", `{"spec": {` + workload + `}}`, `
		spec.replicas=-1
		spec.minReadySeconds=-1
		spec.selector=null
		spec.selector={}
		spec.selector={"matchLabels": {"a": "c"}}
		spec.template.spec.restartPolicy="OnFailure"
		spec.template.spec.activeDeadlineSeconds=1
		spec.template.spec.containers=[]
	`, `
		spec.selector={"matchLabels": {"c": "d"}} ; spec.template.metadata.labels={"c": "d"}
		spec.template.spec.containers.0.image="c"
	`, `
		status.replicas=1 ; status.fullyLabeledReplicas=2
		status.replicas=-1
	`},
	{space + "replicationcontrollers", `{"spec": {"selector": {"a": "b"}, ` + podTemplate + `}}`, `
		spec.replicas=-1
		spec.minReadySeconds=-1
		spec.selector={"a": "c"}
		spec.template=null
		spec.template.spec.restartPolicy="OnFailure"
		spec.template.spec.containers=[]
	`, `
		spec.replicas=-1
		spec.selector={"a": "c"}
	`, `
		status.replicas=-1
		status.replicas=1 ; status.readyReplicas=2
	`},
	{"/apis/apps/v1/namespaces/default/statefulsets", `{"spec": {"serviceName": "a", ` + workload + `}}`, `
		spec.podManagementPolicy="x"
		spec.updateStrategy={"type": "x"}
		spec.updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}}
		spec.updateStrategy={"rollingUpdate": {"partition": -1}}
		spec.persistentVolumeClaimRetentionPolicy={"whenDeleted": "x", "whenScaled": "y"}
		spec.replicas=-1
		spec.minReadySeconds=-1
		spec.ordinals={"start": -1}
		spec.serviceName="A"
		spec.serviceName="a.b"
		spec.selector=null
		spec.selector={}
		spec.selector={"matchLabels": {"a": "c"}}
		spec.template.spec.restartPolicy="Never"
		spec.template.spec.activeDeadlineSeconds=1
		spec.template.spec.containers=[]
		spec.volumeClaimTemplates=[{"metadata": {"name": "v"}}]
		spec.volumeClaimTemplates=[{"metadata": {"name": "v"}, "spec": {"accessModes": ["x"], "resources": {"requests": {"storage": "0"}}}}]
		spec.template.spec.containers.0.volumeMounts=[{"name": "v", "mountPath": "/a"}]
		spec.template.spec.containers.0.volumeMounts=[{"name": "v", "mountPath": "/a"}] ; spec.volumeClaimTemplates=[{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}]
		metadata.name="a.b"
	`, `
		spec.replicas=3
		spec.replicas=-1
		spec.serviceName="b"
		spec.podManagementPolicy="Parallel"
		spec.selector={"matchLabels": {"c": "d"}} ; spec.template.metadata.labels={"c": "d"}
		spec.volumeClaimTemplates=[{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}]
		spec.template.spec.containers.0.image="c"
		spec.minReadySeconds=1 ; spec.revisionHistoryLimit=3 ; spec.ordinals={"start": 1}
	`, `
		status.replicas=-1
		status.replicas=1 ; status.currentReplicas=2
		status.replicas=2 ; status.availableReplicas=2 ; status.readyReplicas=1
	`},
	{"/apis/apps/v1/namespaces/default/daemonsets", `{"spec": {` + workload + `}}`, `
		spec.selector=null
		spec.selector={}
		spec.selector={"matchLabels": {"a": "c"}}
		spec.selector={"matchExpressions": [{"key": "a", "operator": "x"}]}
		spec.template.spec.restartPolicy="Never"
		spec.template.spec.activeDeadlineSeconds=1
		spec.template.spec.containers=[]
		spec.minReadySeconds=-1
		spec.updateStrategy={"type": "x"}
		spec.updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}
		spec.updateStrategy={"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
		spec.updateStrategy={"rollingUpdate": {"maxUnavailable": "101%"}}
		spec.updateStrategy={"rollingUpdate": {"maxUnavailable": "x"}}
		spec.revisionHistoryLimit=-1
	`, `
		spec.selector={"matchLabels": {"c": "d"}} ; spec.template.metadata.labels={"c": "d"}
		spec.template.spec.containers.0.image="c"
		spec.template.spec.containers.0.image=""
	`, `
		status.currentNumberScheduled=-1
		status.numberReady=-1 ; status.numberMisscheduled=-1
	`},
	{"/apis/apps/v1/namespaces/default/controllerrevisions", `{"revision": 1, "data": {"a":"b"}}`, `
		revision=-1
		data=null
	`, `
		data={"a": "c"}
		revision=2
		revision=-1
	`, ""},
	{"/apis/batch/v1/namespaces/default/jobs", `{"spec": {` + runOnce + `}}`, `
		spec.template=null
		spec.template.spec.restartPolicy=null
		spec.template.spec.restartPolicy="Always"
		spec.template.spec.restartPolicy="x"
		spec.template.spec.containers=[]
		spec.parallelism=-1
		spec.completions=-1
		spec.activeDeadlineSeconds=-1
		spec.backoffLimit=-1
		spec.ttlSecondsAfterFinished=-1
		spec.parallelism=-1 ; spec.completions=-1 ; spec.backoffLimit=-1
		spec.completionMode="x"
		spec.completionMode="Indexed"
		spec.completionMode="Indexed" ; spec.completions=1 ; spec.parallelism=100001
		spec.backoffLimitPerIndex=1
		spec.maxFailedIndexes=1
		spec.completionMode="Indexed" ; spec.completions=1 ; spec.maxFailedIndexes=2 ; spec.backoffLimitPerIndex=1
		spec.managedBy="x"
		spec.managedBy=""
		spec.podFailurePolicy={"rules": [{}]}
		spec.podFailurePolicy={"rules": [{"action": "x", "onPodConditions": [{"type": "a", "status": "True"}]}]}
		spec.podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": [{"type": "", "status": ""}]}]}
		spec.podFailurePolicy={"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [0]}}]}
		spec.podFailurePolicy={"rules": [{"action": "Count", "onExitCodes": {"operator": "x", "values": []}}]}
		spec.podFailurePolicy={"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "containerName": "x", "values": [2, 1, 1]}}]}
		spec.podFailurePolicy={"rules": []} ; spec.template.spec.restartPolicy="OnFailure"
		spec.podReplacementPolicy="x"
		spec.successPolicy={"rules": [{"succeededCount": 1}]}
		spec.completionMode="Indexed" ; spec.completions=2 ; spec.successPolicy={"rules": []}
		spec.completionMode="Indexed" ; spec.completions=2 ; spec.successPolicy={"rules": [{}]}
		spec.completionMode="Indexed" ; spec.completions=2 ; spec.successPolicy={"rules": [{"succeededIndexes": "0-5", "succeededCount": 5}]}
		spec.selector={"matchLabels": {"a": "b"}} ; spec.manualSelector=true
		spec.manualSelector=true
		metadata.name="A"
	`, `
		spec.parallelism=2
		spec.parallelism=-1
		spec.completions=5
		spec.completionMode="Indexed"
		spec.suspend=true
		spec.template.spec.containers.0.image="c"
		spec.template.spec.nodeSelector={"a": "b"}
		spec.backoffLimit=2 ; spec.activeDeadlineSeconds=5 ; spec.ttlSecondsAfterFinished=5
		spec.podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": [{"type": "a", "status": "True"}]}]} ; spec.podReplacementPolicy="Failed"
		spec.managedBy="example.com/a"
	`, `
		status.active=-1
		status.failed=-1 ; status.succeeded=-1
		status.completionTime="2026-01-02T03:04:05Z"
		status.conditions=[{"type": "Complete", "status": "True"}]
		status.conditions=[{"type": "Failed", "status": "True"}]
		status.conditions=[{"type": "Complete", "status": "True"}, {"type": "Failed", "status": "True"}]
		status.ready=1
		status.completedIndexes="1"
		status.failedIndexes="1"
		status.active=1
	`},
	{"/apis/batch/v1/namespaces/default/jobs", `{"spec": {"suspend": true, ` + runOnce + `}}`, "", `
		spec.template.spec.nodeSelector={"a": "b"}
		spec.template.spec.tolerations=[{"key": "a", "operator": "Exists"}]
		spec.template.spec.containers.0.image="c"
		spec.template.spec.containers.0.resources={"requests": {"cpu": "1"}}
	`, ""},
	{"/apis/batch/v1/namespaces/default/cronjobs", `{"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {` + runOnce + `}}}}`, `
		spec.schedule=""
		spec.schedule="x"
		spec.schedule="* * * *"
		spec.schedule="60 * * * *"
		spec.schedule="* * 0 * *"
		spec.schedule="* * * xyz *"
		spec.schedule="5-1 * * * *"
		spec.schedule="*/0 * * * *"
		spec.schedule="1-2-3 * * * *"
		spec.schedule="1/2/3 * * * *"
		spec.schedule="-1 * * * *"
		spec.schedule="@x"
		spec.schedule="@every x"
		spec.schedule="@hourly"
		spec.schedule="0,30 1-5/2 ? jan-mar mon"
		spec.schedule="TZ=UTC * * * * *"
		spec.startingDeadlineSeconds=-1
		spec.timeZone=""
		spec.timeZone="x"
		spec.timeZone="Local"
		spec.timeZone="Etc/UTC"
		spec.concurrencyPolicy="x"
		spec.jobTemplate.spec.template.spec.containers=[]
		spec.jobTemplate.spec.template.spec.restartPolicy=null
		spec.jobTemplate.spec.backoffLimit=-1
		spec.jobTemplate.spec.selector={"matchLabels": {"a": "b"}}
		spec.jobTemplate.spec.manualSelector=true
		spec.successfulJobsHistoryLimit=-1
		spec.failedJobsHistoryLimit=-1
		spec.jobTemplate=null
		metadata.name="aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		metadata.name="A"
	`, `
		spec.schedule="x"
		spec.schedule="1 * * * *"
		spec.suspend=true
		spec.jobTemplate.spec.template.spec.containers.0.image="c"
	`, ""},
}
