package e2e

// moreValidations are rare cases.
var moreValidations = []validated{
	{space + "pods", `{"spec": {"containers": [{"name": "a", "image": "b"}]}}`, `
		spec.resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}
		spec.resources={"claims": [{"name": "a"}]}
		spec.resources={"limits": {"ephemeral-storage": "1"}}
		spec.resources={"requests": {"cpu": "1"}} ; spec.containers.0.resources={"requests": {"cpu": "2"}}
		spec.resources={"limits": {"cpu": "1"}} ; spec.containers.0.resources={"limits": {"cpu": "2"}}
		spec.resources={"requests": {"memory": "1Gi"}} ; spec.containers.0.resources={"requests": {"memory": "2Gi"}}
		spec.resourceClaims=[{"name": "a"}]
		spec.resourceClaims=[{"name": "A", "resourceClaimName": "b"}]
		spec.resourceClaims=[{"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "c"}]
		spec.resourceClaims=[{"name": "a", "resourceClaimName": "B"}, {"name": "a", "resourceClaimName": "b"}]
		spec.resourceClaims=[{"name": "a", "resourceClaimName": "b"}] ; spec.containers.0.resources={"claims": [{"name": "x"}, {"name": "a"}, {"name": "a"}]}
		spec.containers.0.resources={"claims": [{"name": ""}]}
		spec.containers.0.restartPolicy="x"
		spec.containers.0.restartPolicy="Never"
		spec.containers.0.restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]
		spec.containers.0.restartPolicy="Never" ; spec.containers.0.restartPolicyRules=[{"action": "x"}]
		spec.containers.0.restartPolicy="Never" ; spec.containers.0.restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "x", "values": [1]}}]
		spec.initContainers=[{"name": "c", "image": "d", "restartPolicy": "Always", "livenessProbe": {}}]
		spec.initContainers=[{"name": "c", "image": "d", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]}]
		spec.initContainers=[{"name": "c", "image": "d", "ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]}]
		spec.initContainers=[{"name": "", "image": "d"}]
		spec.containers.0.lifecycle={"stopSignal": "SIGTERM"}
		spec.os={"name": "linux"} ; spec.containers.0.lifecycle={"stopSignal": "x"}
		spec.os={"name": "windows"} ; spec.containers.0.lifecycle={"stopSignal": "SIGHUP"}
		spec.os={"name": "linux"} ; spec.securityContext={"windowsOptions": {}} ; spec.containers.0.securityContext={"windowsOptions": {}}
		spec.os={"name": "windows"} ; spec.containers.0.securityContext={"runAsUser": 1, "privileged": false, "capabilities": {}}
		spec.os={"name": ""}
		spec.securityContext={"windowsOptions": {"hostProcess": true}}
		spec.hostNetwork=true ; spec.securityContext={"windowsOptions": {"hostProcess": true}} ; spec.containers.0.securityContext={"windowsOptions": {"hostProcess": false}}
		spec.securityContext={"windowsOptions": {"gmsaCredentialSpecName": "A", "gmsaCredentialSpec": ""}}
		spec.securityContext={"windowsOptions": {"runAsUserName": ""}}
		spec.securityContext={"windowsOptions": {"runAsUserName": "a\\b\\c"}}
		spec.securityContext={"windowsOptions": {"runAsUserName": "a\\"}}
		spec.securityContext={"windowsOptions": {"runAsUserName": "..."}}
		spec.securityContext={"windowsOptions": {"runAsUserName": "a:b"}}
		spec.securityContext={"appArmorProfile": {"type": "Localhost"}}
		spec.securityContext={"appArmorProfile": {"type": "Localhost", "localhostProfile": ""}}
		spec.securityContext={"appArmorProfile": {"type": "Localhost", "localhostProfile": " a"}}
		spec.securityContext={"appArmorProfile": {"type": "Unconfined", "localhostProfile": "a"}}
		spec.securityContext={"appArmorProfile": {}}
		spec.securityContext={"seLinuxChangePolicy": "x"}
		spec.hostNetwork=true ; spec.securityContext={"sysctls": [{"name": "net.a", "value": "1"}]}
		spec.hostIPC=true ; spec.securityContext={"sysctls": [{"name": "kernel.shmmax", "value": "1"}, {"name": "fs.mqueue.a", "value": "1"}]}
		spec.hostNetwork=true ; spec.containers.0.ports=[{"containerPort": 80, "hostPort": 81}]
		spec.hostNetwork=true ; spec.containers.0.ports=[{"containerPort": 80}]
		spec.hostUsers=true ; spec.containers.0.securityContext={"procMount": "Unmasked"}
		spec.hostUsers=false ; spec.containers.0.securityContext={"procMount": "Unmasked"}
		spec.hostnameOverride="A"
		spec.hostNetwork=true ; spec.hostnameOverride="a"
		spec.hostnameOverride="aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		spec.nodeName="a" ; spec.schedulingGates=[{"name": "a"}]
		spec.serviceAccountName="A"
		spec.overhead={"cpu": "-1"}
		spec.overhead={"x": "1"}
		spec.containers.0.resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}] ; spec.restartPolicy="Never"
		spec.containers.0.resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}, {"resourceName": "cpu", "restartPolicy": "NotRequired"}]
		spec.containers.0.securityContext={"allowPrivilegeEscalation": false, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}
		spec.containers.0.env=[{"name": "a", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "a", "key": "b"}}}]
		spec.containers.0.env=[{"name": "a", "valueFrom": {"fileKeyRef": {"volumeName": "", "path": "", "key": ""}}}]
		spec.volumes=[{"name": "v", "secret": {"secretName": "s"}}] ; spec.containers.0.env=[{"name": "a", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "../a", "key": "b=c"}}}]
		spec.volumes=[{"name": "v", "iscsi": {"targetPortal": "", "iqn": "", "lun": 256}}]
		spec.volumes=[{"name": "v", "iscsi": {"targetPortal": "a", "iqn": "x", "chapAuthSession": true}}]
		spec.volumes=[{"name": "v", "iscsi": {"targetPortal": "a", "iqn": "iqn.2015-02.example.com:test", "initiatorName": "x"}}]
		spec.volumes=[{"name": "v", "iscsi": {"targetPortal": "a", "iqn": "iqn.x"}}]
		spec.volumes=[{"name": "v", "fc": {}}]
		spec.volumes=[{"name": "v", "fc": {"targetWWNs": ["a"]}}]
		spec.volumes=[{"name": "v", "fc": {"targetWWNs": ["a"], "lun": 256, "wwids": ["b"]}}]
		spec.volumes=[{"name": "v", "flexVolume": {"driver": "", "options": {"a.k8s.io/b": "c"}}}]
		spec.volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "", "partition": 256}}]
		spec.volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "", "partition": -1}}]
		spec.volumes=[{"name": "v", "azureDisk": {"diskName": "", "diskURI": "", "cachingMode": "x", "kind": "y"}}]
		spec.volumes=[{"name": "v", "azureDisk": {"diskName": "a", "diskURI": "b", "kind": "Managed"}}]
		spec.volumes=[{"name": "v", "azureFile": {"secretName": "", "shareName": ""}}]
		spec.volumes=[{"name": "v", "flocker": {}}]
		spec.volumes=[{"name": "v", "flocker": {"datasetName": "a/b", "datasetUUID": "c"}}]
		spec.volumes=[{"name": "v", "rbd": {"monitors": [], "image": ""}}]
		spec.volumes=[{"name": "v", "cinder": {"volumeID": "", "secretRef": {}}}]
		spec.volumes=[{"name": "v", "cephfs": {"monitors": []}}]
		spec.volumes=[{"name": "v", "quobyte": {"registry": "", "volume": ""}}]
		spec.volumes=[{"name": "v", "quobyte": {"registry": "a", "volume": "b"}}]
		spec.volumes=[{"name": "v", "storageos": {"volumeName": "A", "volumeNamespace": "B", "secretRef": {}}}]
		spec.volumes=[{"name": "v", "scaleIO": {"gateway": "", "system": "", "volumeName": "", "secretRef": {}}}]
		spec.volumes=[{"name": "v", "vsphereVolume": {"volumePath": ""}}]
		spec.volumes=[{"name": "v", "photonPersistentDisk": {"pdID": ""}}]
		spec.volumes=[{"name": "v", "portworxVolume": {"volumeID": ""}}]
		spec.volumes=[{"name": "v", "gitRepo": {"repository": "", "directory": "/a"}}]
		spec.volumes=[{"name": "v", "csi": {"driver": "A_b", "nodePublishSecretRef": {}}}]
		spec.volumes=[{"name": "v", "csi": {"driver": "a", "nodePublishSecretRef": {"name": "B"}}}]
		spec.volumes=[{"name": "v", "image": {"reference": "a", "pullPolicy": "x"}}]
		spec.volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "a", "labels": {"b c": "d"}}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}}}]
		spec.volumes=[{"name": "v", "projected": {"defaultMode": 512, "sources": [{"downwardAPI": {"items": [{"path": "../a"}]}}]}}]
		spec.volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "/t", "expirationSeconds": 4294967297}}]}}]
		spec.volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": ""}}]}}]
		spec.volumes=[{"name": "v", "projected": {"sources": [{}]}}]
		spec.volumes=[{"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "b"}, {"key": "c", "path": "b/d"}]}}]
		spec.volumes=[{"name": "v", "secret": {"secretName": "s", "items": [{"key": "a", "path": "b/"}, {"key": "c", "path": "b"}]}}]
		spec.volumes=[{"name": "v", "projected": {"sources": [{"configMap": {"name": "c", "items": [{"key": "a", "path": "b/c"}]}}, {"secret": {"name": "s", "items": [{"key": "a", "path": "b"}]}}]}}]
		spec.volumes=[{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"path": "a"}}]}}]
		spec.volumes=[{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"name": "A_b", "path": ""}}]}}]
		spec.volumes=[{"name": "v", "projected": {"sources": [{"podCertificate": {"signerName": "a", "keyType": "x"}}]}}]
		metadata.annotations={"kubernetes.io/config.mirror": "a"}
		metadata.annotations={"seccomp.security.alpha.kubernetes.io/pod": "x"}
		metadata.annotations={"container.apparmor.security.beta.kubernetes.io/a": "x"}
		metadata.annotations={"container.apparmor.security.beta.kubernetes.io/c": "runtime/default"}
		metadata.namespace="other"
		metadata.generation=-1
		metadata.finalizers=["a b/c"]
		metadata.finalizers=["orphan", "foregroundDeletion"]
		metadata.ownerReferences=[{"apiVersion": "", "kind": "", "name": "", "uid": ""}]
		metadata.ownerReferences=[{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "b"}]
		metadata.labels={"a/b/c": "d"}
		metadata.labels={"/a": "d"}
		metadata.labels={"": "d"}
		metadata.labels={"a": "<long>"}
	`, `
		metadata.annotations={"kubernetes.io/config.mirror": "a"}
		metadata.ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": ""}]
		metadata.labels={"a b": "c"}
		metadata.finalizers=["x"]
	`, `
		status.containerStatuses=[{"name": "a", "image": "b", "imageID": "", "ready": true, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}]
		status.hostIP="1.2.3.4" ; status.hostIPs=[{"ip": "1.2.3.5"}]
		status.podIPs=[{"ip": "1.2.3.4"}, {"ip": "::1"}, {"ip": "::2"}]
		status.conditions=[{"type": "Ready", "status": "True", "observedGeneration": -1}]
	`},
	{"/apis/apps/v1/namespaces/default/deployments", `{"spec": {` + workload + `}}`, `
		spec.template.spec.resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}
		spec.template.spec.containers.0.resources={"limits": {"cpu": "-1"}}
		spec.template.spec.containers.0.ports=[{"containerPort": 80, "hostPort": 81}] ; spec.template.spec.hostNetwork=true
		spec.template.spec.volumes=[{"name": "v", "image": {}}]
		spec.template.spec.volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "p"}}] ; spec.template.spec.containers.0.volumeDevices=[{"name": "v", "devicePath": "/a"}, {"name": "v", "devicePath": "/a"}]
		spec.template.spec.volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "p"}}] ; spec.template.spec.containers.0.volumeDevices=[{"name": "v", "devicePath": "/a/../b"}]
		spec.template.spec.volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "p"}}] ; spec.template.spec.containers.0.volumeDevices=[{"name": "v", "devicePath": "/a"}] ; spec.template.spec.containers.0.volumeMounts=[{"name": "v", "mountPath": "/a"}]
		spec.template.metadata.annotations={"controller.kubernetes.io/pod-deletion-cost": "1.5"}
		spec.template.spec.topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": ["a b"], "labelSelector": {"matchLabels": {"a": "b"}}}]
		spec.template.spec.topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": ["a"], "labelSelector": {"matchLabels": {"a": "b"}}}]
		spec.template.spec.affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a", "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"], "labelSelector": {"matchLabels": {"a": "b"}}}]}}
		spec.template.spec.affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a", "matchLabelKeys": ["a"]}]}}
		spec.template.spec.affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["A"]}]}]}}}
		spec.template.spec.affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1", "2"]}]}]}}}
		spec.template.spec.affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}]}}}
		spec.template.spec.affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}}]}}
		spec.template.spec.schedulingGates=[{"name": "a b"}]
		spec.paused=true ; spec.replicas=-1
	`, "", ""},
	{"/api/v1/persistentvolumes", `{"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "csi": {"driver": "a", "volumeHandle": "b"}}}`, `
		spec.csi.controllerExpandSecretRef={"name": "", "namespace": "B"}
		spec.csi.nodeStageSecretRef={"name": "A"}
		spec.volumeAttributesClassName=""
		spec.volumeAttributesClassName="A"
		spec.capacity={"storage": "1Gi", "cpu": "1"}
		spec.capacity={"cpu": "1"}
		spec.accessModes=["ReadWriteOnce", "ReadWriteOncePod"]
		spec.nodeAffinity={"required": {"nodeSelectorTerms": []}}
		spec.csi=null ; spec.iscsi={"targetPortal": "a", "iqn": "iqn.2015-02.example.com:test", "lun": 0, "secretRef": {}}
		spec.csi=null ; spec.glusterfs={"endpoints": "a", "path": "b", "endpointsNamespace": ""}
		spec.csi=null ; spec.azureFile={"secretName": "a", "shareName": "b", "secretNamespace": ""}
		spec.csi=null ; spec.local={"path": "/a/../b"} ; spec.nodeAffinity={"required": {"nodeSelectorTerms": [{}]}}
	`, `
		spec.csi.volumeHandle="c"
		spec.persistentVolumeReclaimPolicy="x"
		spec.csi.controllerExpandSecretRef={"name": "a", "namespace": "b"}
	`, ""},
	{"/apis/batch/v1/namespaces/default/jobs", `{"spec": {"completionMode": "Indexed", "completions": 3, "parallelism": 2, "backoffLimitPerIndex": 1, ` + runOnce + `}}`, `
		spec.completions=200000
		spec.maxFailedIndexes=200000 ; spec.completions=200000
		spec.successPolicy={"rules": [{"succeededIndexes": "x"}]}
		spec.successPolicy={"rules": [{"succeededIndexes": "2-1"}]}
		spec.successPolicy={"rules": [{"succeededIndexes": "0,0"}]}
		spec.successPolicy={"rules": [{"succeededIndexes": "0-1-2"}]}
		spec.successPolicy={"rules": [{"succeededIndexes": "0-1", "succeededCount": 3}]}
		spec.successPolicy={"rules": [{"succeededCount": -1}]}
		metadata.name="aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	`, `
		spec.completions=5
		spec.completions=5 ; spec.parallelism=5
		spec.completions=null
		spec.backoffLimitPerIndex=2
		spec.maxFailedIndexes=5
	`, `
		status.completedIndexes="0-5"
		status.completedIndexes="0" ; status.failedIndexes="0"
		status.failedIndexes="x"
		status.succeeded=1 ; status.conditions=[{"type": "SuccessCriteriaMet", "status": "True"}]
		status.startTime="2026-01-02T03:04:05Z" ; status.conditions=[{"type": "FailureTarget", "status": "True"}, {"type": "Failed", "status": "True"}] ; status.active=1 ; status.terminating=1
		status.uncountedTerminatedPods={"succeeded": ["a", "a", ""]}
	`},
	{"/apis/networking.k8s.io/v1/namespaces/default/ingresses", `{"spec": {"rules": [{"host": "a.b", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "a", "port": {"name": "http"}}}}]}}]}}`, `
		spec.rules.0.http.paths.0.backend={"resource": {"apiGroup": "A", "kind": "a/b", "name": "c%d"}}
		spec.rules.0.http.paths.0.backend={"service": {"name": "1a", "port": {"number": 1}}}
		spec.rules.0.http.paths.0.path=""
		spec.rules.0.http.paths.0.path="/%2f"
		spec.rules.0.http.paths.0.path="/a/./b"
		spec.rules.0.host="*.*.b"
		spec.rules.0.host="*"
	`, `
		spec.rules=null
		spec.rules.0.host="A"
	`, ""},
	{space + "services", `{"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}]}}`, `
		spec.ports.1={"name": "b", "port": 81}
		spec.healthCheckNodePort=70000
		spec.loadBalancerClass="example.com/a" ; spec.loadBalancerSourceRanges=["10.0.0.1/8"]
		spec.externalTrafficPolicy="x"
		spec.loadBalancerIP="x"
	`, `
		spec.loadBalancerClass="example.com/b"
		spec.externalTrafficPolicy="x"
	`, `
		status.loadBalancer={"ingress": [{"ip": "x"}]}
		status.loadBalancer={"ingress": [{"hostname": "a b"}]}
		status.loadBalancer={"ingress": [{"hostname": "1.2.3.4"}]}
		status.loadBalancer={"ingress": [{"ip": "1.2.3.4", "ipMode": "x"}]}
		status.loadBalancer={"ingress": [{"hostname": "a", "ipMode": "VIP"}]}
	`},
	{"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", `{"spec": {"minReplicas": 1, "maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 1}}}]}}`, `
		spec.metrics.0.resource.target.type="x"
		spec.metrics.0.resource.target.type=""
		spec.metrics.0.resource.target={"type": "AverageValue", "averageValue": "-1"}
		spec.metrics.0.type="Pods"
		spec.metrics=[{"type": "External", "external": {"metric": {"name": "a/b"}, "target": {"type": "Value", "value": "1", "averageValue": "1"}}}]
		spec.metrics=[{"type": "Object", "object": {"metric": {"name": "a"}, "describedObject": {"kind": "Service", "name": "b", "apiVersion": "v1"}, "target": {"type": "Value"}}}]
		spec.metrics=[{"type": "ContainerResource", "containerResource": {"name": "", "container": "", "target": {"type": "Utilization"}}}]
		spec.scaleTargetRef={"kind": "ReplicationController", "name": "a", "apiVersion": "v1"}
		spec.scaleTargetRef={"kind": "Deployment", "name": "a", "apiVersion": "v1"}
		spec.behavior={"scaleUp": {"tolerance": "-1"}}
	`, `
		spec.scaleTargetRef.apiVersion="x"
		spec.minReplicas=5
	`, ""},
	{space + "limitranges", `{"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}]}}`, `
		spec.limits.0.maxLimitRequestRatio={"cpu": "3"}
		spec.limits.0.defaultRequest={"cpu": "500m"}
		spec.limits.0.defaultRequest={"cpu": "3"}
		spec.limits.0.default={"cpu": "500m"}
		spec.limits.0.type="a b"
		spec.limits.0.type=""
	`, "", ""},
	{"/api/v1/nodes", `{"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "providerID": "a"}}`, `
		spec.podCIDRs=["10.1.0.0/24", "10.2.0.0/24"]
		spec.taints=[{"key": "a b", "value": "c d", "effect": "NoSchedule"}]
	`, `
		spec.podCIDR="10.2.0.0/24" ; spec.podCIDRs=["10.2.0.0/24"]
		spec.providerID="b"
	`, `
		status.capacity={"pods": "1.5"}
		status.capacity={"cpu": "-1"}
		status.addresses=[{"type": "InternalIP", "address": "1.2.3.4"}, {"type": "InternalIP", "address": "1.2.3.4"}]
	`},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}`, `
		aggregationRule.clusterRoleSelectors=[]
		metadata.name="system:a"
		metadata.name=".."
	`, `
		aggregationRule.clusterRoleSelectors=[]
	`, ""},
	{"/apis/storage.k8s.io/v1/storageclasses", `{"provisioner": "example.com/p", "parameters": {"a": "b"}}`, `
		allowedTopologies=[{"matchLabelExpressions": [{"key": "a", "values": ["b"]}, {"key": "a", "values": ["c"]}]}]
		allowedTopologies=[{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}, {"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}]
		provisioner="Example.com/P"
	`, `
		parameters={"a": "c"}
		mountOptions=["x"]
	`, ""},
}
