package e2e

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
		spec.externalIPs=["1.2.3.4"]
		spec.externalName="a"
		spec.clusterIP="None" ; spec.externalIPs=["1.2.3.4"]
		spec.trafficDistribution="PreferClose"
		metadata.name="1a"
		metadata.name="a.b"
		spec.ports.0.port=0 ; spec.ports.0.name="A" ; spec.type="x"
	`, `
		spec.ports.0.port=81
		spec.ports.0={"port": 0, "targetPort": 80}
		spec.selector={"a": "b"}
		spec.type="ExternalName"
		spec.ports=[]
		spec.sessionAffinity="x"
	`, `
		status.loadBalancer={"ingress": [{"ip": "1.2.3.4"}]}
	`},
	{space + "services", `{"spec": {"clusterIP": "10.0.0.77", "clusterIPs": ["10.0.0.77"], "ports": [{"port": 80, "targetPort": 80}]}}`, `
		spec.clusterIP="10.0.0.78"
		spec.clusterIPs=["10.0.0.78"]
		spec.clusterIP=null
		spec.clusterIP="None" ; spec.clusterIPs=["None", "10.0.0.78"]
		spec.clusterIPs=["10.0.0.77", "10.0.0.78"]
		spec.clusterIPs=["10.0.0.77", "10.0.0.78", "x"]
		spec.ipFamilies=["IPv6"]
		spec.ipFamilies=["x"]
		spec.ipFamilies=["IPv4", "IPv4"]
	`, `
		spec.clusterIP="10.0.0.78" ; spec.clusterIPs=["10.0.0.78"]
		spec.clusterIP="None" ; spec.clusterIPs=["None"]
	`, ""},
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
		metadata.annotations={"kubernetes.io/ingress.class": "a"}
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
		spec.dataSourceRef={"kind": "", "name": ""}
		spec.dataSourceRef={"kind": "x", "name": "a"}
		spec.dataSourceRef={"kind": "x", "name": "a", "apiGroup": "A"}
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
		spec.limits=[{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]
		spec.limits=[{"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]
		spec.limits=[{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}]
		spec.limits=[{"type": "Pod", "default": {"cpu": "1"}}]
		spec.limits=[{"type": "PersistentVolumeClaim"}]
		spec.limits=[{"type": "Container", "max": {"x": "1"}, "default": {"x": "1"}, "defaultRequest": {"x": "1"}}]
		spec.limits=[{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}]
	`, `
		spec.limits=[{"type": "x"}]
	`, ""},
	{space + "resourcequotas", `{"spec": {"hard": {"pods": "1"}}}`, `
		spec.hard={"x": "1"}
		spec.hard={"pods": "-1"}
		spec.hard={"cpu": "2", "limits.cpu": "1"}
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
