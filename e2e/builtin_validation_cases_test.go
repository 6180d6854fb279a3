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
	`, `
		spec.replicas=2
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
		spec.podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": [{"type": "a", "status": "True"}]}]}
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

var networkValidations = []validated{
	{space + "services", `{"spec": {"ports": [{"port": 80}]}}`, `
		spec=null
		spec.ports=[]
		spec.ports.0.port=0
		spec.ports.0.port=65536
		spec.ports.0.protocol="x"
		spec.ports.0.targetPort="a b"
		spec.ports.0.targetPort=70000
		spec.ports.0.name="A"
		spec.ports.0.nodePort=30000
		spec.ports.0.appProtocol="a b"
		spec.ports.1={"port": 81}
		spec.ports=[{"name": "a", "port": 80}, {"name": "a", "port": 81}]
		spec.ports=[{"name": "a", "port": 80}, {"name": "b", "port": 80}]
		spec.type="x"
		spec.type="ExternalName"
		spec.type="ExternalName" ; spec.externalName="a b"
		spec.type="ExternalName" ; spec.externalName="a.b"
		spec.type="NodePort" ; spec.clusterIP="None"
		spec.type="LoadBalancer" ; spec.clusterIP="None"
		spec.clusterIP="None" ; spec.ports=null ; spec.selector={"a": "b"}
		spec.clusterIP="x"
		spec.clusterIPs=["10.0.0.1"]
		spec.sessionAffinity="x"
		spec.sessionAffinity="ClientIP" ; spec.sessionAffinityConfig={"clientIP": {"timeoutSeconds": 0}}
		spec.sessionAffinity="ClientIP" ; spec.sessionAffinityConfig={"clientIP": {"timeoutSeconds": 86401}}
		spec.sessionAffinityConfig={"clientIP": {"timeoutSeconds": 1}}
		spec.selector={"a b": "c"}
		spec.externalIPs=["x"]
		spec.externalIPs=["127.0.0.1"]
		spec.externalIPs=["0.0.0.0"]
		spec.loadBalancerSourceRanges=["10.0.0.0/8"]
		spec.type="LoadBalancer" ; spec.loadBalancerSourceRanges=["x"]
		spec.type="LoadBalancer" ; spec.loadBalancerClass="a b"
		spec.loadBalancerClass="a"
		spec.allocateLoadBalancerNodePorts=true
		spec.externalTrafficPolicy="Local"
		spec.type="NodePort" ; spec.externalTrafficPolicy="x"
		spec.internalTrafficPolicy="x"
		spec.trafficDistribution="x"
		spec.healthCheckNodePort=30000
		spec.ipFamilyPolicy="x"
		metadata.name="A"
		metadata.name="1a"
		metadata.name="a.b"
		spec.ports.0.port=0 ; spec.ports.0.name="A" ; spec.type="x"
	`, `
		spec.ports.0.port=81
		spec.ports.0.port=0
		spec.selector={"a": "b"}
		spec.clusterIP="10.0.0.77" ; spec.clusterIPs=["10.0.0.77"]
		spec.type="ExternalName"
		spec.ports=[]
		spec.sessionAffinity="x"
	`, `
		status.loadBalancer={"ingress": [{"ip": "1.2.3.4"}]}
	`},
	{"/apis/networking.k8s.io/v1/namespaces/default/ingresses", `{"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}}`, `
		spec=null
		spec.defaultBackend={}
		spec.defaultBackend={"service": {"name": "", "port": {"number": 80}}}
		spec.defaultBackend={"service": {"name": "A", "port": {"number": 80}}}
		spec.defaultBackend={"service": {"name": "a", "port": {}}}
		spec.defaultBackend={"service": {"name": "a", "port": {"number": 70000}}}
		spec.defaultBackend={"service": {"name": "a", "port": {"number": 80, "name": "b"}}}
		spec.defaultBackend={"service": {"name": "a", "port": {"name": "A b"}}}
		spec.defaultBackend={"resource": {"kind": "a", "name": "b"}, "service": {"name": "a", "port": {"number": 80}}}
		spec.defaultBackend={"resource": {"kind": "", "name": ""}}
		spec.rules=[{"host": "1.2.3.4"}]
		spec.rules=[{"host": "a b"}]
		spec.rules=[{"host": "a.*.b"}]
		spec.rules=[{"host": "*.b"}]
		spec.rules=[{"http": {"paths": []}}]
		spec.rules=[{"http": {"paths": [{"path": "/a", "backend": {"service": {"name": "a", "port": {"number": 80}}}}]}}]
		spec.rules=[{"http": {"paths": [{"path": "a", "pathType": "Prefix", "backend": {"service": {"name": "a", "port": {"number": 80}}}}]}}]
		spec.rules=[{"http": {"paths": [{"path": "/a//b", "pathType": "Exact", "backend": {"service": {"name": "a", "port": {"number": 80}}}}]}}]
		spec.rules=[{"http": {"paths": [{"path": "/a/..", "pathType": "Exact", "backend": {"service": {"name": "a", "port": {"number": 80}}}}]}}]
		spec.rules=[{"http": {"paths": [{"path": "a", "pathType": "ImplementationSpecific", "backend": {"service": {"name": "a", "port": {"number": 80}}}}]}}]
		spec.rules=[{"http": {"paths": [{"path": "/a", "pathType": "x", "backend": {}}]}}]
		spec.tls=[{"hosts": ["a b"], "secretName": "A"}]
		spec.tls=[{"hosts": ["*.a"], "secretName": "a"}]
		spec.ingressClassName="A"
		metadata.annotations={"kubernetes.io/ingress.class": "a"} ; spec.ingressClassName="b"
	`, `
		spec.defaultBackend=null
		spec.ingressClassName="b"
	`, `
		status.loadBalancer={"ingress": [{"ip": "x"}]}
		status.loadBalancer={"ingress": [{"hostname": "1.2.3.4"}]}
	`},
	{"/apis/networking.k8s.io/v1/ingressclasses", `{"spec": {"controller": "example.com/c"}}`, `
		spec=null
		spec.controller="x"
		spec.controller="A/b"
		spec.parameters={"kind": "", "name": ""}
		spec.parameters={"kind": "a", "name": "b", "scope": "x"}
		spec.parameters={"kind": "a", "name": "b", "scope": "Namespace"}
		spec.parameters={"kind": "a", "name": "b", "scope": "Cluster", "namespace": "c"}
	`, `
		spec.controller="example.com/d"
		spec.controller="x"
	`, ""},
	{"/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", `{"spec": {"podSelector": {}}}`, `
		spec.podSelector={"matchLabels": {"a b": "c"}}
		spec.policyTypes=["x"]
		spec.policyTypes=["Ingress", "Egress", "Ingress"]
		spec.ingress=[{"from": [{}]}]
		spec.ingress=[{"from": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}]
		spec.ingress=[{"from": [{"ipBlock": {"cidr": ""}}]}]
		spec.ingress=[{"from": [{"ipBlock": {"cidr": "x"}}]}]
		spec.ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "x", "10.0.0.0/8"]}}]}]
		spec.ingress=[{"ports": [{"protocol": "x"}]}]
		spec.ingress=[{"ports": [{"port": 0}]}]
		spec.ingress=[{"ports": [{"port": "A b"}]}]
		spec.ingress=[{"ports": [{"port": 80, "endPort": 79}]}]
		spec.ingress=[{"ports": [{"port": "a", "endPort": 79}]}]
		spec.egress=[{"ports": [{"endPort": 79}]}]
		spec.egress=[{"to": [{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "x"}]}}]}]
	`, `
		spec.policyTypes=["x"]
		spec.egress=[{"to": [{}]}]
	`, ""},
	{"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{"addressType": "IPv4", "endpoints": []}`, `
		addressType=null
		addressType="x"
		endpoints=[{"addresses": []}]
		endpoints=[{"addresses": ["x"]}]
		endpoints=[{"addresses": ["::1"]}]
		endpoints=[{"addresses": ["127.0.0.1"]}]
		endpoints=[{"addresses": ["1.2.3.4"], "hostname": "A", "nodeName": "B"}]
		ports=[{"name": "A"}]
		ports=[{"name": "a", "port": 1}, {"name": "a", "port": 2}]
		ports=[{"name": "a", "protocol": "x"}]
		addressType="FQDN" ; endpoints=[{"addresses": ["a"]}]
	`, `
		addressType="IPv6"
		endpoints=[{"addresses": ["x"]}]
	`, ""},
	{space + "endpoints", `{}`, `
		subsets=[{}]
		subsets=[{"addresses": [{"ip": "x"}]}]
		subsets=[{"addresses": [{"ip": "127.0.0.1"}]}]
		subsets=[{"addresses": [{"ip": "1.2.3.4", "hostname": "A"}], "ports": [{"port": 0}]}]
		subsets=[{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 1}, {"port": 2, "protocol": "x"}]}]
	`, `
		subsets=[{}]
	`, ""},
}

var otherValidations = []validated{
	{space + "configmaps", `{"data": {"a": "b"}}`, `
		data={"a b": "c"}
		data={"..": "c"}
		data={"..a": "c"}
		data={"": "c"}
		binaryData={"a": "Yg=="}
		binaryData={"a/b": "Yg=="}
		metadata.name="A"
	`, `
		data={"a b": "c"}
		data={"a": "c"}
		immutable=true
	`, ""},
	{space + "configmaps", `{"data": {"a": "b"}, "immutable": true}`, "", `
		data={"a": "c"}
		immutable=false
		immutable=false ; data={"a": "c"} ; binaryData={"c": "Yg=="}
		metadata.labels={"a": "b"}
	`, ""},
	{space + "secrets", `{"data": {"a": "Yg=="}}`, `
		data={"a b": "Yg=="}
		type="kubernetes.io/tls"
		type="kubernetes.io/tls" ; data={"tls.crt": ""}
		type="kubernetes.io/tls" ; data={"tls.crt": "", "tls.key": ""}
		type="kubernetes.io/dockerconfigjson"
		type="kubernetes.io/dockerconfigjson" ; data={".dockerconfigjson": "eA=="}
		type="kubernetes.io/dockerconfigjson" ; data={".dockerconfigjson": "e30="}
		type="kubernetes.io/dockercfg"
		type="kubernetes.io/dockercfg" ; data={".dockercfg": "eA=="}
		type="kubernetes.io/basic-auth"
		type="kubernetes.io/basic-auth" ; data={"username": ""}
		type="kubernetes.io/ssh-auth"
		type="kubernetes.io/ssh-auth" ; data={"ssh-privatekey": ""}
		type="kubernetes.io/service-account-token"
		type="kubernetes.io/service-account-token" ; metadata.annotations={"kubernetes.io/service-account.name": "a"}
		type="kubernetes.io/tls" ; data={"a b": "Yg=="}
	`, `
		type="example.com/a"
		data={"a b": "Yg=="}
		immutable=true
	`, ""},
	{space + "secrets", `{"data": {"a": "Yg=="}, "immutable": true}`, "", `
		data={"a": "Yw=="}
		immutable=false
		type="example.com/a" ; immutable=false
	`, ""},
	{space + "persistentvolumeclaims", `{"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`, `
		spec=null
		spec.accessModes=[]
		spec.accessModes=["x"]
		spec.accessModes=["ReadWriteOnce", "ReadWriteOncePod"]
		spec.resources=null
		spec.resources={"requests": {"storage": "0"}}
		spec.resources={"requests": {"storage": "-1Gi"}}
		spec.selector={"matchLabels": {"a b": "c"}}
		spec.storageClassName="A"
		spec.volumeMode="x"
		spec.dataSource={"kind": "", "name": ""}
		spec.dataSource={"kind": "x", "name": "a"}
		spec.dataSource={"kind": "x", "name": "a", "apiGroup": "A"}
	`, `
		spec.accessModes=["ReadOnlyMany"]
		spec.resources={"requests": {"storage": "2Gi"}}
		spec.resources={"requests": {"storage": "1Mi"}}
		spec.storageClassName="a"
		spec.volumeName="v"
		spec.volumeMode="Block"
		metadata.labels={"a": "b"}
	`, ""},
	{"/api/v1/persistentvolumes", `{"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp/a"}}}`, `
		spec=null
		spec.accessModes=[]
		spec.accessModes=["x"]
		spec.capacity=null
		spec.capacity={"storage": "0"}
		spec.hostPath=null
		spec.hostPath={"path": ""}
		spec.nfs={"server": "a", "path": "/b"}
		spec.persistentVolumeReclaimPolicy="x"
		spec.hostPath=null ; spec.local={"path": "/a"}
		spec.hostPath=null ; spec.csi={"driver": "", "volumeHandle": ""}
		spec.storageClassName="A"
		spec.volumeMode="x"
		spec.nodeAffinity={}
		spec.hostPath={"path": "/"} ; spec.persistentVolumeReclaimPolicy="Recycle"
	`, `
		spec.hostPath={"path": "/b"}
		spec.capacity={"storage": "2Gi"}
		spec.volumeMode="Block"
	`, ""},
	{space + "serviceaccounts", `{}`, `
		metadata.name="A"
		metadata.name="a.b"
	`, `
		automountServiceAccountToken=true
	`, ""},
	{"/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", `{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}`, `
		rules=[{}]
		rules.0.verbs=[]
		rules.0.apiGroups=[]
		rules.0.resources=[]
		rules.0.nonResourceURLs=["/a"]
		rules=[{"verbs": ["get"], "nonResourceURLs": ["/a"]}]
		metadata.name="A:b"
		metadata.name="a%b"
	`, `
		rules=[{}]
		rules=[]
	`, ""},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}`, `
		rules=[{}]
		rules=[{"verbs": ["get"], "nonResourceURLs": ["/a"]}]
		rules.0.nonResourceURLs=["/a"]
		aggregationRule={}
		aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a b": "c"}}]}
	`, `
		rules=[{"verbs": []}]
	`, ""},
	{"/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", `{"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}}`, `
		roleRef=null
		roleRef.apiGroup="x"
		roleRef.kind="x"
		roleRef.name=""
		roleRef.name="a/b"
		subjects=[{}]
		subjects=[{"kind": "x", "name": "a"}]
		subjects=[{"kind": "ServiceAccount", "name": "A"}]
		subjects=[{"kind": "ServiceAccount", "name": "a", "apiGroup": "x"}]
		subjects=[{"kind": "User", "name": "a", "apiGroup": "x"}]
		subjects=[{"kind": "User", "name": "a"}]
	`, `
		roleRef.name="b"
		subjects=[{"kind": "User", "name": "b"}]
		subjects=[{"kind": "x"}]
	`, ""},
	{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"}}`, `
		roleRef.kind="Role"
		subjects=[{"kind": "ServiceAccount", "name": "a"}]
		subjects=[{"kind": "Group", "name": ""}]
	`, `
		roleRef.name="b"
	`, ""},
	{"/apis/policy/v1/namespaces/default/poddisruptionbudgets", `{"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}`, `
		spec.maxUnavailable=1
		spec.minAvailable=-1
		spec.minAvailable="x"
		spec.minAvailable="101%"
		spec.minAvailable=null ; spec.maxUnavailable="200%"
		spec.selector={"matchLabels": {"a b": "c"}}
		spec.unhealthyPodEvictionPolicy="x"
		metadata.name="A"
	`, `
		spec.minAvailable=2
		spec.minAvailable=-2
		spec.maxUnavailable=1
	`, `
		status.disruptionsAllowed=-1
		status.currentHealthy=-1 ; status.desiredHealthy=-1 ; status.expectedPods=-1
	`},
	{"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", `{"spec": {"maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}}`, `
		spec=null
		spec.maxReplicas=0
		spec.maxReplicas=-1
		spec.minReplicas=0
		spec.minReplicas=2
		spec.scaleTargetRef={}
		spec.scaleTargetRef.kind="a/b"
		spec.scaleTargetRef.name="a%b"
		spec.scaleTargetRef.apiVersion="a/b/c"
		spec.metrics=[{}]
		spec.metrics=[{"type": "x"}]
		spec.metrics=[{"type": "Resource"}]
		spec.metrics=[{"type": "Resource", "resource": {"name": "", "target": {}}}]
		spec.metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}}}]
		spec.metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 1, "averageValue": "1"}}}]
		spec.metrics=[{"type": "Pods", "pods": {"metric": {"name": ""}, "target": {"type": "AverageValue"}}}]
		spec.metrics=[{"type": "Pods", "pods": {"metric": {"name": "a"}, "target": {"type": "AverageValue", "averageValue": "0"}}}]
		spec.metrics=[{"type": "Object", "object": {"metric": {"name": "a"}, "describedObject": {}, "target": {"type": "Value", "value": "1"}}}]
		spec.metrics=[{"type": "External", "external": {"metric": {"name": "a"}, "target": {"type": "Value"}}}]
		spec.metrics=[{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "A", "target": {"type": "Utilization", "averageUtilization": 1}}}]
		spec.metrics=[{"type": "Pods", "pods": {"metric": {"name": "a"}, "target": {"type": "AverageValue", "averageValue": "1"}}, "external": {"metric": {"name": "a"}, "target": {"type": "Value", "value": "1"}}}]
		spec.behavior={"scaleUp": {"stabilizationWindowSeconds": -1}}
		spec.behavior={"scaleDown": {"stabilizationWindowSeconds": 3601, "selectPolicy": "x"}}
		spec.behavior={"scaleDown": {"policies": [{"type": "x", "value": 0, "periodSeconds": 0}]}}
		spec.behavior={"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1801}]}}
	`, `
		spec.maxReplicas=0
		spec.maxReplicas=2
	`, `
		status.currentReplicas=-1 ; status.desiredReplicas=-1
	`},
	{"/apis/coordination.k8s.io/v1/namespaces/default/leases", `{"spec": {"holderIdentity": "a"}}`, `
		spec.leaseDurationSeconds=0
		spec.leaseTransitions=-1
		spec.strategy="x"
		spec.preferredHolder="b"
		spec.leaseDurationSeconds=0 ; spec.leaseTransitions=-1
		metadata.name="A"
	`, `
		spec.holderIdentity="b"
		spec.leaseDurationSeconds=0
	`, ""},
	{"/apis/scheduling.k8s.io/v1/priorityclasses", `{"value": 1}`, `
		value=1000000001
		preemptionPolicy="x"
		metadata.name="system-a"
		metadata.name="A"
	`, `
		value=2
		preemptionPolicy="Never"
		description="a"
	`, ""},
	{"/apis/storage.k8s.io/v1/storageclasses", `{"provisioner": "example.com/p"}`, `
		provisioner=null
		provisioner="a b"
		reclaimPolicy="x"
		volumeBindingMode="x"
		parameters={"": "b"}
		allowedTopologies=[{"matchLabelExpressions": [{"key": "a b", "values": []}]}]
		allowedTopologies=[{"matchLabelExpressions": [{"key": "a", "values": ["b", "b"]}]}]
	`, `
		provisioner="example.com/q"
		parameters={"a": "b"}
		reclaimPolicy="Retain"
		volumeBindingMode="WaitForFirstConsumer"
		allowVolumeExpansion=true
	`, ""},
	{"/apis/node.k8s.io/v1/runtimeclasses", `{"handler": "a"}`, `
		handler=null
		handler="A"
		overhead={"podFixed": {"x": "1"}}
		scheduling={"nodeSelector": {"a b": "c"}}
		scheduling={"tolerations": [{"operator": "x"}]}
	`, `
		handler="b"
	`, ""},
	{space + "limitranges", `{"spec": {"limits": []}}`, `
		spec.limits=[{"type": "x"}]
		spec.limits=[{"type": "Container"}, {"type": "Container"}]
		spec.limits=[{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]
		spec.limits=[{"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "1"}}]
		spec.limits=[{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}]
		spec.limits=[{"type": "Pod", "default": {"cpu": "1"}}]
		spec.limits=[{"type": "PersistentVolumeClaim"}]
		spec.limits=[{"type": "Container", "max": {"x": "1"}}]
		spec.limits=[{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}]
	`, `
		spec.limits=[{"type": "x"}]
	`, ""},
	{space + "resourcequotas", `{"spec": {"hard": {"pods": "1"}}}`, `
		spec.hard={"x": "1"}
		spec.hard={"pods": "-1"}
		spec.hard={"pods": "1.5"}
		spec.scopes=["x"]
		spec.scopes=["BestEffort", "NotBestEffort"]
		spec.hard={"cpu": "1"} ; spec.scopes=["BestEffort"]
		spec.scopeSelector={"matchExpressions": [{"scopeName": "BestEffort", "operator": "In"}]}
		spec.scopeSelector={"matchExpressions": [{"scopeName": "x", "operator": "y"}]}
	`, `
		spec.scopes=["BestEffort"]
		spec.hard={"pods": "2"}
		spec.hard={"pods": "-2"}
	`, `
		status.hard={"pods": "-1"}
	`},
	{"/api/v1/namespaces", `{}`, `
		metadata.name="A"
		metadata.name="a.b"
		metadata.name="<long>"
		spec={"finalizers": ["x"]}
		spec={"finalizers": ["a b/c"]}
	`, `
		metadata.labels={"a b": "c"}
	`, `
		status.phase="Terminating"
	`},
	{"/api/v1/nodes", `{}`, `
		metadata.name="A"
		spec.taints=[{"key": "", "effect": ""}]
		spec.taints=[{"key": "a", "effect": "x"}]
		spec.taints=[{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]
		spec.podCIDR="x"
	`, `
		spec.taints=[{"key": "a", "effect": "x"}]
		spec.providerID="a"
		spec.unschedulable=true
	`, ""},
	{space + "events", `{"involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}, "reason": "R", "message": "m", "type": "Normal"}`, `
		involvedObject.namespace="other"
		eventTime="2026-01-02T03:04:05.000006Z"
	`, `
		message="n"
	`, ""},
	{"/apis/events.k8s.io/v1/namespaces/default/events", `{"regarding": {"kind": "Pod", "name": "a", "namespace": "default"}, "reason": "R", "note": "m", "type": "Normal",
		"action": "A", "reportingController": "example.com/c", "reportingInstance": "i", "eventTime": "2026-01-02T03:04:05.000006Z"}`, `
		eventTime=null
		action=""
		reason=""
		reportingController=""
		reportingInstance=""
		type="x"
		series={"count": 1, "lastObservedTime": "2026-01-02T03:04:05.000006Z"}
		deprecatedCount=1
	`, `
		note="n"
		reason="S"
		series={"count": 2, "lastObservedTime": "2026-01-02T03:04:05.000006Z"}
		type="Warning" ; action="B"
	`, ""},
}
