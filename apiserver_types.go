package kopf

import (
	"strings"
	"sync"
)

// This file knows the types that the built-in kinds are made of: their fields, which of these come in lists that are merged by
// keys, and which belong together as a whole. Schemas for the in-memory API server are made of it when they are first
// needed; it is only read then.
// See https://kubernetes.io/docs/reference/kubernetes-api/

// namedType is a type with a name of its own: a structure, or a scalar.
type namedType struct {
	name   string // the last part of the full name
	full   string // as OpenAPI documents name it
	scalar string // the type in OpenAPI, "" of structures
	format string
	atomic bool
	fields []typedField
	schema *schema
}

// typedField is one field of a structure.
type typedField struct {
	name       string
	typ        string // a word of scalarWords, or the name of a type
	ref        *namedType
	list, dict bool // whether there are many of the type, in a list, or by keys, or a list for each key
	required   bool
	byKeys     bool     // a list whose items are told apart by keys, or, without keys, by all they are
	keys       []string // of these items
	merge      bool     // whether strategic merge patches merge the list
	mergeKey   string   // of the items, "" for scalars
	retain     bool     // whether clients write $retainKeys for it
	replace    bool     // whether strategic merge patches replace it as a whole
	mapType    string   // atomic or granular, if it differs from what the type is
	fallback   string   // the default, "" if there is none
}

// builtinRules is what only the schemas of built-in kinds know: how strategic merge patches treat a field.
type builtinRules struct {
	name     string // of the type
	merge    bool   // whether the list is merged, by the key of its items
	mergeKey string // "" for scalars
	replace  bool   // whether the field is replaced as a whole
}

// scalarWords are the scalars, and how they are named in OpenAPI.
var scalarWords = map[string][2]string{
	"": {"string", ""}, "string": {"string", ""}, "bytes": {"string", "byte"}, "bool": {"boolean", ""}, "int": {"integer", "int32"},
	"long": {"integer", "int64"}, "number": {"number", "double"},
}

// namedTypes are all types, by their full names, and by their short ones (with the group, where two have the same).
var namedTypes = sync.OnceValue(func() map[string]*namedType {
	all := make(map[string]*namedType)
	room := ""
	var lines []string
	for line := range strings.Lines(namedTypeTable) {
		if strings.HasPrefix(line, "\t") {
			lines[len(lines)-1] += " " + line
		} else {
			lines = append(lines, line)
		}
	}
	for _, line := range lines {
		words := strings.Fields(line)
		if words[0] == "package" {
			room = words[1]
			continue
		}
		t := &namedType{full: room + "." + strings.TrimSuffix(words[0], "*"), atomic: strings.HasSuffix(words[0], "*")}
		t.name = strings.TrimSuffix(words[0], "*")
		if len(words) > 1 && words[1] == "=" {
			t.scalar, t.format, _ = strings.Cut(words[2], ":")
		} else {
			t.fields = parseFieldsOf(words[1:])
		}
		all[t.full] = t
		if group := strings.Split(room, "."); all[t.name] == nil {
			all[t.name] = t
		} else {
			all[group[len(group)-2]+"."+t.name] = t
		}
	}
	linkTypes(all)
	return all
})

func parseFieldsOf(words []string) []typedField {
	fields := make([]typedField, 0, len(words))
	for _, word := range words {
		var f typedField
		word, f.fallback, _ = strings.Cut(word, "=")
		word, f.mapType = cutMark(word, "*", "atomic", f.mapType)
		word, f.mapType = cutMark(word, "?", "granular", f.mapType)
		if rest, ok := strings.CutSuffix(word, "%"); ok {
			word, f.replace = rest, true
		}
		if rest, ok := strings.CutSuffix(word, "+"); ok {
			word, f.retain = rest, true
		}
		word, f.mergeKey, f.merge = strings.Cut(word, "@")
		if rest, keys, ok := strings.Cut(word, "#"); ok {
			word, f.byKeys = rest, true
			f.keys = strings.FieldsFunc(keys, func(c rune) bool { return c == ',' })
		}
		f.name, f.typ, _ = strings.Cut(word, ":")
		f.name, f.required = strings.CutSuffix(f.name, "!")
		f.typ, f.dict = strings.CutPrefix(f.typ, "{}")
		f.typ, f.list = strings.CutPrefix(f.typ, "[]")
		fields = append(fields, f)
	}
	return fields
}

func cutMark(word, mark, value, otherwise string) (string, string) {
	if rest, ok := strings.CutSuffix(word, mark); ok {
		return rest, value
	}
	return word, otherwise
}

// linkTypes makes a schema of each type. Some types contain themselves, so all schemas exist before any is filled.
func linkTypes(all map[string]*namedType) {
	for _, t := range all {
		t.schema = &schema{typ: "object", properties: make(map[string]*schema, len(t.fields)), builtin: &builtinRules{name: t.name}}
		if t.atomic {
			t.schema.mapType = "atomic"
		}
		if t.scalar != "" {
			*t.schema = scalarSchema(t.name, t.scalar, t.format)
		}
	}
	for full, t := range all {
		if full != t.full {
			continue
		}
		for i := range t.fields {
			f := &t.fields[i]
			if _, scalar := scalarWords[f.typ]; !scalar {
				f.ref = all[f.typ]
			}
			t.schema.properties[f.name] = f.schemaOf()
		}
	}
}

// scalarSchema is the schema of a named type without fields. Quantities are also written as numbers.
func scalarSchema(name, typ, format string) schema {
	switch {
	case name == "Quantity" || typ == "any":
		return schema{preserve: true}
	case format == "int-or-string":
		return schema{intOrString: true}
	}
	return schema{typ: typ, format: format, preserve: typ == "object"}
}

// schemaOf returns the schema of a field. What is required is left out, as the types of kube-apiserver do not know it either.
func (f *typedField) schemaOf() *schema {
	word := scalarWords[f.typ]
	one := &schema{typ: word[0], format: word[1]}
	if f.ref != nil {
		one = f.ref.schema
	}
	s := one
	switch {
	case f.list && f.dict:
		s = &schema{typ: "object", additional: &schema{typ: "array", items: one, listType: "atomic"}}
	case f.list:
		s = &schema{typ: "array", items: one, listType: "atomic"}
	case f.dict:
		s = &schema{typ: "object", additional: one}
	case f.mapType != "" || f.replace || f.retain:
		own := *one
		s = &own
	}
	switch {
	case f.byKeys && len(f.keys) > 0:
		s.listType, s.listKeys = "map", f.keys
	case f.byKeys:
		s.listType = "set"
	}
	if f.mapType != "" {
		s.mapType = f.mapType
	}
	if f.fallback != "" && !f.list && !f.dict && f.ref == nil && word[0] == "string" {
		s.fallback, s.hasFallback = f.fallback, true
	}
	if f.merge || f.replace {
		s.builtin = &builtinRules{name: f.typ, merge: f.merge, mergeKey: f.mergeKey, replace: f.replace}
	}
	return s
}

// typeOfKind returns the type of a built-in kind, nil if it is not known.
func typeOfKind(group, version, kind string) *namedType {
	all := namedTypes()
	room := map[string]string{
		"":                     "io.k8s.api.core",
		"meta.k8s.io":          "io.k8s.apimachinery.pkg.apis.meta",
		"apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
	}[group]
	if room == "" {
		first, _, _ := strings.Cut(group, ".")
		room = "io.k8s.api." + first
	}
	return all[room+"."+version+"."+kind]
}

// namedTypeTable has one type in a line, and lines that begin with a tab continue the one before. A type is followed by its
// fields, each as name:type, where no type means string, [] a list, and {} a map with keys of the users' own. Marks after the type:
// ! (after the name) it is required; #a,b the items of the list are told apart by these keys, or by all they are; @a strategic merge
// patches merge the list, by this key; + clients write $retainKeys; % such patches replace it; =a this is the default;
// * (also of types) it belongs to one manager as a whole; ? it does not, though its type says so.
const namedTypeTable = `package io.k8s.apimachinery.pkg.apis.meta.v1
Condition lastTransitionTime!:Time message! observedGeneration:long reason! status! type!
DeleteOptions apiVersion dryRun:[]string gracePeriodSeconds:long ignoreStoreReadErrorWithClusterBreakingPotential:bool kind
	orphanDependents:bool preconditions:Preconditions propagationPolicy
FieldSelectorRequirement key! operator! values:[]string
FieldsV1 = object
LabelSelector* matchExpressions:[]LabelSelectorRequirement matchLabels:{}string
LabelSelectorRequirement key! operator! values:[]string
ListMeta continue remainingItemCount:long resourceVersion selfLink shardInfo:ShardInfo
ManagedFieldsEntry apiVersion fieldsType fieldsV1:FieldsV1 manager operation subresource time:Time
MicroTime = string:date-time
ObjectMeta annotations:{}string creationTimestamp:Time deletionGracePeriodSeconds:long deletionTimestamp:Time finalizers:[]string#@
	generateName generation:long labels:{}string managedFields:[]ManagedFieldsEntry name namespace ownerReferences:[]OwnerReference#uid@uid
	resourceVersion selfLink uid
OwnerReference* apiVersion! blockOwnerDeletion:bool controller:bool kind! name! uid!
Preconditions resourceVersion uid
ShardInfo selector!
Status apiVersion code:int details:StatusDetails kind message metadata:ListMeta reason status
StatusCause field message reason
StatusDetails causes:[]StatusCause group kind name retryAfterSeconds:int uid
Time = string:date-time
package io.k8s.apimachinery.pkg.api.resource
Quantity = string
package io.k8s.apimachinery.pkg.util.intstr
IntOrString = string:int-or-string
package io.k8s.apimachinery.pkg.runtime
RawExtension = object
package io.k8s.api.core.v1
AWSElasticBlockStoreVolumeSource fsType partition:int readOnly:bool volumeID!
Affinity nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity
AppArmorProfile localhostProfile type!
AttachedVolume devicePath! name!
AzureDiskVolumeSource cachingMode=ReadWrite diskName! diskURI! fsType=ext4 kind=Shared readOnly:bool
AzureFilePersistentVolumeSource readOnly:bool secretName! secretNamespace shareName!
AzureFileVolumeSource readOnly:bool secretName! shareName!
Binding apiVersion kind metadata:ObjectMeta target!:ObjectReference
CSIPersistentVolumeSource controllerExpandSecretRef:SecretReference controllerPublishSecretRef:SecretReference driver! fsType
	nodeExpandSecretRef:SecretReference nodePublishSecretRef:SecretReference nodeStageSecretRef:SecretReference readOnly:bool
	volumeAttributes:{}string volumeHandle!
CSIVolumeSource driver! fsType nodePublishSecretRef:LocalObjectReference readOnly:bool volumeAttributes:{}string
Capabilities add:[]string drop:[]string
CephFSPersistentVolumeSource monitors!:[]string path readOnly:bool secretFile secretRef:SecretReference user
CephFSVolumeSource monitors!:[]string path readOnly:bool secretFile secretRef:LocalObjectReference user
CinderPersistentVolumeSource fsType readOnly:bool secretRef:SecretReference volumeID!
CinderVolumeSource fsType readOnly:bool secretRef:LocalObjectReference volumeID!
ClientIPConfig timeoutSeconds:int
ClusterTrustBundleProjection labelSelector:LabelSelector name optional:bool path! signerName
ConfigMap apiVersion binaryData:{}bytes data:{}string immutable:bool kind metadata:ObjectMeta
ConfigMapEnvSource name optional:bool
ConfigMapKeySelector* key! name optional:bool
ConfigMapNodeConfigSource kubeletConfigKey! name! namespace! resourceVersion uid
ConfigMapProjection items:[]KeyToPath name optional:bool
ConfigMapVolumeSource defaultMode:int items:[]KeyToPath name optional:bool
Container args:[]string command:[]string env:[]EnvVar#name@name envFrom:[]EnvFromSource image imagePullPolicy lifecycle:Lifecycle
	livenessProbe:Probe name! ports:[]ContainerPort#containerPort,protocol@containerPort readinessProbe:Probe
	resizePolicy:[]ContainerResizePolicy resources:ResourceRequirements restartPolicy restartPolicyRules:[]ContainerRestartRule
	securityContext:SecurityContext startupProbe:Probe stdin:bool stdinOnce:bool terminationMessagePath terminationMessagePolicy tty:bool
	volumeDevices:[]VolumeDevice#devicePath@devicePath volumeMounts:[]VolumeMount#mountPath@mountPath workingDir
ContainerExtendedResourceRequest containerName! requestName! resourceName!
ContainerImage names:[]string sizeBytes:long
ContainerPort containerPort!:int hostIP hostPort:int name protocol=TCP
ContainerResizePolicy resourceName! restartPolicy!
ContainerRestartRule action! exitCodes:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes operator! values:[]int#
ContainerState running:ContainerStateRunning terminated:ContainerStateTerminated waiting:ContainerStateWaiting
ContainerStateRunning startedAt:Time
ContainerStateTerminated containerID exitCode!:int finishedAt:Time message reason signal:int startedAt:Time
ContainerStateWaiting message reason
ContainerStatus allocatedResources:{}Quantity allocatedResourcesStatus:[]ResourceStatus#name@name containerID image! imageID!
	lastState:ContainerState name! ready!:bool resources:ResourceRequirements restartCount!:int started:bool state:ContainerState stopSignal
	user:ContainerUser volumeMounts:[]VolumeMountStatus#mountPath@mountPath
ContainerUser linux:LinuxContainerUser
DaemonEndpoint Port!:int
DownwardAPIProjection items:[]DownwardAPIVolumeFile
DownwardAPIVolumeFile fieldRef:ObjectFieldSelector mode:int path! resourceFieldRef:ResourceFieldSelector
DownwardAPIVolumeSource defaultMode:int items:[]DownwardAPIVolumeFile
EmptyDirVolumeSource medium sizeLimit:Quantity
EndpointAddress* hostname ip! nodeName targetRef:ObjectReference
EndpointPort* appProtocol name port!:int protocol
EndpointSubset addresses:[]EndpointAddress notReadyAddresses:[]EndpointAddress ports:[]EndpointPort
Endpoints apiVersion kind metadata:ObjectMeta subsets:[]EndpointSubset
EnvFromSource configMapRef:ConfigMapEnvSource prefix secretRef:SecretEnvSource
EnvVar name! value valueFrom:EnvVarSource
EnvVarSource configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector fileKeyRef:FileKeySelector
	resourceFieldRef:ResourceFieldSelector secretKeyRef:SecretKeySelector
EphemeralContainer args:[]string command:[]string env:[]EnvVar#name@name envFrom:[]EnvFromSource image imagePullPolicy lifecycle:Lifecycle
	livenessProbe:Probe name! ports:[]ContainerPort#containerPort,protocol@containerPort readinessProbe:Probe
	resizePolicy:[]ContainerResizePolicy resources:ResourceRequirements restartPolicy restartPolicyRules:[]ContainerRestartRule
	securityContext:SecurityContext startupProbe:Probe stdin:bool stdinOnce:bool targetContainerName terminationMessagePath
	terminationMessagePolicy tty:bool volumeDevices:[]VolumeDevice#devicePath@devicePath volumeMounts:[]VolumeMount#mountPath@mountPath
	workingDir
EphemeralVolumeSource volumeClaimTemplate:PersistentVolumeClaimTemplate
Event action apiVersion count:int eventTime:MicroTime firstTimestamp:Time involvedObject!:ObjectReference kind lastTimestamp:Time message
	metadata!:ObjectMeta reason related:ObjectReference reportingComponent reportingInstance series:EventSeries source:EventSource type
EventSeries count:int lastObservedTime:MicroTime
EventSource component host
ExecAction command:[]string
FCVolumeSource fsType lun:int readOnly:bool targetWWNs:[]string wwids:[]string
FileKeySelector* key! optional:bool path! volumeName!
FlexPersistentVolumeSource driver! fsType options:{}string readOnly:bool secretRef:SecretReference
FlexVolumeSource driver! fsType options:{}string readOnly:bool secretRef:LocalObjectReference
FlockerVolumeSource datasetName datasetUUID
GCEPersistentDiskVolumeSource fsType partition:int pdName! readOnly:bool
GRPCAction port!:int service
GitRepoVolumeSource directory repository! revision
GlusterfsPersistentVolumeSource endpoints! endpointsNamespace path! readOnly:bool
GlusterfsVolumeSource endpoints! path! readOnly:bool
HTTPGetAction host httpHeaders:[]HTTPHeader path port!:IntOrString scheme
HTTPHeader name! value!
HostAlias hostnames:[]string ip!
HostIP ip!
HostPathVolumeSource path! type
ISCSIPersistentVolumeSource chapAuthDiscovery:bool chapAuthSession:bool fsType initiatorName iqn! iscsiInterface=default lun!:int
	portals:[]string readOnly:bool secretRef:SecretReference targetPortal!
ISCSIVolumeSource chapAuthDiscovery:bool chapAuthSession:bool fsType initiatorName iqn! iscsiInterface=default lun!:int portals:[]string
	readOnly:bool secretRef:LocalObjectReference targetPortal!
ImageVolumeSource pullPolicy reference
ImageVolumeStatus imageRef!
KeyToPath key! mode:int path!
Lifecycle postStart:LifecycleHandler preStop:LifecycleHandler stopSignal
LifecycleHandler exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction
LimitRange apiVersion kind metadata:ObjectMeta spec:LimitRangeSpec
LimitRangeItem default:{}Quantity defaultRequest:{}Quantity max:{}Quantity maxLimitRequestRatio:{}Quantity min:{}Quantity type!
LimitRangeSpec limits!:[]LimitRangeItem
LinuxContainerUser gid!:long supplementalGroups:[]long uid!:long
LoadBalancerIngress hostname ip ipMode ports:[]PortStatus
LoadBalancerStatus ingress:[]LoadBalancerIngress
LocalObjectReference* name
LocalVolumeSource fsType path!
ModifyVolumeStatus status! targetVolumeAttributesClassName
NFSVolumeSource path! readOnly:bool server!
Namespace apiVersion kind metadata:ObjectMeta spec:NamespaceSpec status:NamespaceStatus
NamespaceCondition lastTransitionTime:Time message reason status! type!
NamespaceSpec finalizers:[]string
NamespaceStatus conditions:[]NamespaceCondition#type@type phase
Node apiVersion kind metadata:ObjectMeta spec:NodeSpec status:NodeStatus
NodeAddress address! type!
NodeAffinity preferredDuringSchedulingIgnoredDuringExecution:[]PreferredSchedulingTerm
	requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
NodeAllocatableResourceClaimStatus containers:[]string# resourceClaimName! resources!:{}Quantity
NodeCondition lastHeartbeatTime:Time lastTransitionTime:Time message reason status! type!
NodeConfigSource configMap:ConfigMapNodeConfigSource
NodeConfigStatus active:NodeConfigSource assigned:NodeConfigSource error lastKnownGood:NodeConfigSource
NodeDaemonEndpoints kubeletEndpoint:DaemonEndpoint
NodeFeatures supplementalGroupsPolicy:bool
NodeRuntimeHandler features:NodeRuntimeHandlerFeatures name
NodeRuntimeHandlerFeatures recursiveReadOnlyMounts:bool userNamespaces:bool
NodeSelector* nodeSelectorTerms!:[]NodeSelectorTerm
NodeSelectorRequirement key! operator! values:[]string
NodeSelectorTerm* matchExpressions:[]NodeSelectorRequirement matchFields:[]NodeSelectorRequirement
NodeSpec configSource:NodeConfigSource externalID podCIDR podCIDRs:[]string#@ providerID taints:[]Taint unschedulable:bool
NodeStatus addresses:[]NodeAddress#type@type allocatable:{}Quantity capacity:{}Quantity conditions:[]NodeCondition#type@type
	config:NodeConfigStatus daemonEndpoints:NodeDaemonEndpoints declaredFeatures:[]string features:NodeFeatures images:[]ContainerImage
	nodeInfo:NodeSystemInfo phase runtimeHandlers:[]NodeRuntimeHandler volumesAttached:[]AttachedVolume volumesInUse:[]string
NodeSwapStatus capacity:long
NodeSystemInfo architecture! bootID! containerRuntimeVersion! kernelVersion! kubeProxyVersion! kubeletVersion! machineID! operatingSystem!
	osImage! swap:NodeSwapStatus systemUUID!
ObjectFieldSelector* apiVersion fieldPath!
ObjectReference* apiVersion fieldPath kind name namespace resourceVersion uid
PersistentVolume apiVersion kind metadata:ObjectMeta spec:PersistentVolumeSpec status:PersistentVolumeStatus
PersistentVolumeClaim apiVersion kind metadata:ObjectMeta spec:PersistentVolumeClaimSpec status:PersistentVolumeClaimStatus
PersistentVolumeClaimCondition lastProbeTime:Time lastTransitionTime:Time message reason status! type!
PersistentVolumeClaimSpec accessModes:[]string dataSource:TypedLocalObjectReference dataSourceRef:TypedObjectReference
	resources:VolumeResourceRequirements selector:LabelSelector storageClassName volumeAttributesClassName volumeMode volumeName
PersistentVolumeClaimStatus accessModes:[]string allocatedResourceStatuses:{}string? allocatedResources:{}Quantity capacity:{}Quantity
	conditions:[]PersistentVolumeClaimCondition#type@type currentVolumeAttributesClassName modifyVolumeStatus:ModifyVolumeStatus phase
PersistentVolumeClaimTemplate metadata:ObjectMeta spec!:PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource claimName! readOnly:bool
PersistentVolumeSpec accessModes:[]string awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource
	azureFile:AzureFilePersistentVolumeSource capacity:{}Quantity cephfs:CephFSPersistentVolumeSource cinder:CinderPersistentVolumeSource
	claimRef:ObjectReference? csi:CSIPersistentVolumeSource fc:FCVolumeSource flexVolume:FlexPersistentVolumeSource flocker:FlockerVolumeSource
	gcePersistentDisk:GCEPersistentDiskVolumeSource glusterfs:GlusterfsPersistentVolumeSource hostPath:HostPathVolumeSource
	iscsi:ISCSIPersistentVolumeSource local:LocalVolumeSource mountOptions:[]string nfs:NFSVolumeSource nodeAffinity:VolumeNodeAffinity
	persistentVolumeReclaimPolicy photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource
	quobyte:QuobyteVolumeSource rbd:RBDPersistentVolumeSource scaleIO:ScaleIOPersistentVolumeSource storageClassName
	storageos:StorageOSPersistentVolumeSource volumeAttributesClassName volumeMode vsphereVolume:VsphereVirtualDiskVolumeSource
PersistentVolumeStatus lastPhaseTransitionTime:Time message phase reason
PhotonPersistentDiskVolumeSource fsType pdID!
Pod apiVersion kind metadata:ObjectMeta spec:PodSpec status:PodStatus
PodAffinity preferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm
	requiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm
PodAffinityTerm labelSelector:LabelSelector matchLabelKeys:[]string mismatchLabelKeys:[]string namespaceSelector:LabelSelector
	namespaces:[]string topologyKey!
PodAntiAffinity preferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm
	requiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm
PodCertificateProjection certificateChainPath credentialBundlePath keyPath keyType! maxExpirationSeconds:int signerName!
	userAnnotations:{}string
PodCondition lastProbeTime:Time lastTransitionTime:Time message observedGeneration:long reason status! type!
PodDNSConfig nameservers:[]string options:[]PodDNSConfigOption searches:[]string
PodDNSConfigOption name value
PodExtendedResourceClaimStatus requestMappings!:[]ContainerExtendedResourceRequest resourceClaimName!
PodIP ip!
PodOS name!
PodReadinessGate conditionType!
PodResourceClaim name! resourceClaimName resourceClaimTemplateName
PodResourceClaimStatus name! resourceClaimName
PodSchedulingGate name!
PodSchedulingGroup podGroupName
PodSecurityContext appArmorProfile:AppArmorProfile fsGroup:long fsGroupChangePolicy runAsGroup:long runAsNonRoot:bool runAsUser:long
	seLinuxChangePolicy seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile supplementalGroups:[]long supplementalGroupsPolicy
	sysctls:[]Sysctl windowsOptions:WindowsSecurityContextOptions
PodSpec activeDeadlineSeconds:long affinity:Affinity automountServiceAccountToken:bool containers!:[]Container#name@name
	dnsConfig:PodDNSConfig dnsPolicy enableServiceLinks:bool ephemeralContainers:[]EphemeralContainer#name@name hostAliases:[]HostAlias#ip@ip
	hostIPC:bool hostNetwork:bool hostPID:bool hostUsers:bool hostname hostnameOverride imagePullSecrets:[]LocalObjectReference#name@name
	initContainers:[]Container#name@name nodeName nodeSelector:{}string* os:PodOS overhead:{}Quantity preemptionPolicy priority:int
	priorityClassName readinessGates:[]PodReadinessGate resourceClaims:[]PodResourceClaim#name@name+ resources:ResourceRequirements
	restartPolicy runtimeClassName schedulerName schedulingGates:[]PodSchedulingGate#name@name schedulingGroup:PodSchedulingGroup
	securityContext:PodSecurityContext serviceAccount serviceAccountName setHostnameAsFQDN:bool shareProcessNamespace:bool subdomain
	terminationGracePeriodSeconds:long tolerations:[]Toleration
	topologySpreadConstraints:[]TopologySpreadConstraint#topologyKey,whenUnsatisfiable@topologyKey volumes:[]Volume#name@name+
PodStatus allocatedResources:{}Quantity conditions:[]PodCondition#type@type containerStatuses:[]ContainerStatus
	ephemeralContainerStatuses:[]ContainerStatus extendedResourceClaimStatus:PodExtendedResourceClaimStatus hostIP hostIPs:[]HostIP@ip
	initContainerStatuses:[]ContainerStatus message nodeAllocatableResourceClaimStatuses:[]NodeAllocatableResourceClaimStatus nominatedNodeName
	observedGeneration:long phase podIP podIPs:[]PodIP#ip@ip qosClass reason resize resourceClaimStatuses:[]PodResourceClaimStatus#name@name+
	resources:ResourceRequirements startTime:Time
PodTemplate apiVersion kind metadata:ObjectMeta template:PodTemplateSpec
PodTemplateSpec metadata:ObjectMeta spec:PodSpec
PortStatus error port!:int protocol!
PortworxVolumeSource fsType readOnly:bool volumeID!
PreferredSchedulingTerm preference!:NodeSelectorTerm weight!:int
Probe exec:ExecAction failureThreshold:int grpc:GRPCAction httpGet:HTTPGetAction initialDelaySeconds:int periodSeconds:int
	successThreshold:int tcpSocket:TCPSocketAction terminationGracePeriodSeconds:long timeoutSeconds:int
ProjectedVolumeSource defaultMode:int sources:[]VolumeProjection
QuobyteVolumeSource group readOnly:bool registry! tenant user volume!
RBDPersistentVolumeSource fsType image! keyring=/etc/ceph/keyring monitors!:[]string pool=rbd readOnly:bool secretRef:SecretReference
	user=admin
RBDVolumeSource fsType image! keyring=/etc/ceph/keyring monitors!:[]string pool=rbd readOnly:bool secretRef:LocalObjectReference user=admin
ReplicationController apiVersion kind metadata:ObjectMeta spec:ReplicationControllerSpec status:ReplicationControllerStatus
ReplicationControllerCondition lastTransitionTime:Time message reason status! type!
ReplicationControllerSpec minReadySeconds:int replicas:int=1 selector:{}string* template:PodTemplateSpec
ReplicationControllerStatus availableReplicas:int conditions:[]ReplicationControllerCondition#type@type fullyLabeledReplicas:int
	observedGeneration:long readyReplicas:int replicas!:int
ResourceClaim name! request
ResourceFieldSelector* containerName divisor:Quantity resource!
ResourceHealth health message resourceID!
ResourceQuota apiVersion kind metadata:ObjectMeta spec:ResourceQuotaSpec status:ResourceQuotaStatus
ResourceQuotaSpec hard:{}Quantity scopeSelector:ScopeSelector scopes:[]string
ResourceQuotaStatus hard:{}Quantity used:{}Quantity
ResourceRequirements claims:[]ResourceClaim#name limits:{}Quantity requests:{}Quantity
ResourceStatus name! resources:[]ResourceHealth#resourceID
SELinuxOptions level role type user
ScaleIOPersistentVolumeSource fsType=xfs gateway! protectionDomain readOnly:bool secretRef!:SecretReference sslEnabled:bool
	storageMode=ThinProvisioned storagePool system! volumeName
ScaleIOVolumeSource fsType=xfs gateway! protectionDomain readOnly:bool secretRef!:LocalObjectReference sslEnabled:bool
	storageMode=ThinProvisioned storagePool system! volumeName
ScopeSelector* matchExpressions:[]ScopedResourceSelectorRequirement
ScopedResourceSelectorRequirement operator! scopeName! values:[]string
SeccompProfile localhostProfile type!
Secret apiVersion data:{}bytes immutable:bool kind metadata:ObjectMeta stringData:{}string type
SecretEnvSource name optional:bool
SecretKeySelector* key! name optional:bool
SecretProjection items:[]KeyToPath name optional:bool
SecretReference* name namespace
SecretVolumeSource defaultMode:int items:[]KeyToPath optional:bool secretName
SecurityContext allowPrivilegeEscalation:bool appArmorProfile:AppArmorProfile capabilities:Capabilities privileged:bool procMount
	readOnlyRootFilesystem:bool runAsGroup:long runAsNonRoot:bool runAsUser:long seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile
	windowsOptions:WindowsSecurityContextOptions
Service apiVersion kind metadata:ObjectMeta spec:ServiceSpec status:ServiceStatus
ServiceAccount apiVersion automountServiceAccountToken:bool imagePullSecrets:[]LocalObjectReference kind metadata:ObjectMeta
	secrets:[]ObjectReference#name@name
ServiceAccountTokenProjection audience expirationSeconds:long path!
ServicePort appProtocol name nodePort:int port!:int protocol=TCP targetPort:IntOrString
ServiceSpec allocateLoadBalancerNodePorts:bool clusterIP clusterIPs:[]string externalIPs:[]string externalName externalTrafficPolicy
	healthCheckNodePort:int internalTrafficPolicy ipFamilies:[]string ipFamilyPolicy loadBalancerClass loadBalancerIP
	loadBalancerSourceRanges:[]string ports:[]ServicePort#port,protocol@port publishNotReadyAddresses:bool selector:{}string* sessionAffinity
	sessionAffinityConfig:SessionAffinityConfig trafficDistribution type
ServiceStatus conditions:[]Condition#type@type loadBalancer:LoadBalancerStatus
SessionAffinityConfig clientIP:ClientIPConfig
SleepAction seconds!:long
StorageOSPersistentVolumeSource fsType readOnly:bool secretRef:ObjectReference volumeName volumeNamespace
StorageOSVolumeSource fsType readOnly:bool secretRef:LocalObjectReference volumeName volumeNamespace
Sysctl name! value!
TCPSocketAction host port!:IntOrString
Taint effect! key! timeAdded:Time value
Toleration effect key operator tolerationSeconds:long value
TopologySelectorLabelRequirement key! values!:[]string
TopologySelectorTerm* matchLabelExpressions:[]TopologySelectorLabelRequirement
TopologySpreadConstraint labelSelector:LabelSelector matchLabelKeys:[]string maxSkew!:int minDomains:int nodeAffinityPolicy nodeTaintsPolicy
	topologyKey! whenUnsatisfiable!
TypedLocalObjectReference* apiGroup kind! name!
TypedObjectReference apiGroup kind! name! namespace
Volume awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource azureFile:AzureFileVolumeSource
	cephfs:CephFSVolumeSource cinder:CinderVolumeSource configMap:ConfigMapVolumeSource csi:CSIVolumeSource downwardAPI:DownwardAPIVolumeSource
	emptyDir:EmptyDirVolumeSource ephemeral:EphemeralVolumeSource fc:FCVolumeSource flexVolume:FlexVolumeSource flocker:FlockerVolumeSource
	gcePersistentDisk:GCEPersistentDiskVolumeSource gitRepo:GitRepoVolumeSource glusterfs:GlusterfsVolumeSource hostPath:HostPathVolumeSource
	image:ImageVolumeSource iscsi:ISCSIVolumeSource name! nfs:NFSVolumeSource persistentVolumeClaim:PersistentVolumeClaimVolumeSource
	photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource projected:ProjectedVolumeSource
	quobyte:QuobyteVolumeSource rbd:RBDVolumeSource scaleIO:ScaleIOVolumeSource secret:SecretVolumeSource storageos:StorageOSVolumeSource
	vsphereVolume:VsphereVirtualDiskVolumeSource
VolumeDevice devicePath! name!
VolumeMount mountPath! mountPropagation name! readOnly:bool recursiveReadOnly subPath subPathExpr
VolumeMountStatus mountPath! name! readOnly:bool recursiveReadOnly volumeStatus:VolumeStatus
VolumeNodeAffinity required:NodeSelector
VolumeProjection clusterTrustBundle:ClusterTrustBundleProjection configMap:ConfigMapProjection downwardAPI:DownwardAPIProjection
	podCertificate:PodCertificateProjection secret:SecretProjection serviceAccountToken:ServiceAccountTokenProjection
VolumeResourceRequirements limits:{}Quantity requests:{}Quantity
VolumeStatus image:ImageVolumeStatus
VsphereVirtualDiskVolumeSource fsType storagePolicyID storagePolicyName volumePath!
WeightedPodAffinityTerm podAffinityTerm!:PodAffinityTerm weight!:int
WindowsSecurityContextOptions gmsaCredentialSpec gmsaCredentialSpecName hostProcess:bool runAsUserName
package io.k8s.api.admissionregistration.v1
MatchCondition expression! name!
MutatingWebhook admissionReviewVersions!:[]string clientConfig!:WebhookClientConfig failurePolicy matchConditions:[]MatchCondition#name@name
	matchPolicy name! namespaceSelector:LabelSelector objectSelector:LabelSelector reinvocationPolicy rules:[]RuleWithOperations sideEffects!
	timeoutSeconds:int
MutatingWebhookConfiguration apiVersion kind metadata:ObjectMeta webhooks:[]MutatingWebhook#name@name
RuleWithOperations apiGroups:[]string apiVersions:[]string operations:[]string resources:[]string scope
ServiceReference name! namespace! path port:int
ValidatingWebhook admissionReviewVersions!:[]string clientConfig!:WebhookClientConfig failurePolicy
	matchConditions:[]MatchCondition#name@name matchPolicy name! namespaceSelector:LabelSelector objectSelector:LabelSelector
	rules:[]RuleWithOperations sideEffects! timeoutSeconds:int
ValidatingWebhookConfiguration apiVersion kind metadata:ObjectMeta webhooks:[]ValidatingWebhook#name@name
WebhookClientConfig caBundle:bytes service:ServiceReference url
package io.k8s.api.apps.v1
ControllerRevision apiVersion data:RawExtension kind metadata:ObjectMeta revision!:long
DaemonSet apiVersion kind metadata:ObjectMeta spec:DaemonSetSpec status:DaemonSetStatus
DaemonSetCondition lastTransitionTime:Time message reason status! type!
DaemonSetSpec minReadySeconds:int revisionHistoryLimit:int selector!:LabelSelector template!:PodTemplateSpec
	updateStrategy:DaemonSetUpdateStrategy
DaemonSetStatus collisionCount:int conditions:[]DaemonSetCondition#type@type currentNumberScheduled!:int desiredNumberScheduled!:int
	numberAvailable:int numberMisscheduled!:int numberReady!:int numberUnavailable:int observedGeneration:long updatedNumberScheduled:int
DaemonSetUpdateStrategy rollingUpdate:RollingUpdateDaemonSet type
Deployment apiVersion kind metadata:ObjectMeta spec:DeploymentSpec status:DeploymentStatus
DeploymentCondition lastTransitionTime:Time lastUpdateTime:Time message reason status! type!
DeploymentSpec minReadySeconds:int paused:bool progressDeadlineSeconds:int replicas:int revisionHistoryLimit:int selector!:LabelSelector
	strategy:DeploymentStrategy+ template!:PodTemplateSpec
DeploymentStatus availableReplicas:int collisionCount:int conditions:[]DeploymentCondition#type@type observedGeneration:long
	readyReplicas:int replicas:int terminatingReplicas:int unavailableReplicas:int updatedReplicas:int
DeploymentStrategy rollingUpdate:RollingUpdateDeployment type
ReplicaSet apiVersion kind metadata:ObjectMeta spec:ReplicaSetSpec status:ReplicaSetStatus
ReplicaSetCondition lastTransitionTime:Time message reason status! type!
ReplicaSetSpec minReadySeconds:int replicas:int selector!:LabelSelector template:PodTemplateSpec
ReplicaSetStatus availableReplicas:int conditions:[]ReplicaSetCondition#type@type fullyLabeledReplicas:int observedGeneration:long
	readyReplicas:int replicas!:int terminatingReplicas:int
RollingUpdateDaemonSet maxSurge:IntOrString maxUnavailable:IntOrString
RollingUpdateDeployment maxSurge:IntOrString maxUnavailable:IntOrString
RollingUpdateStatefulSetStrategy maxUnavailable:IntOrString partition:int
StatefulSet apiVersion kind metadata:ObjectMeta spec:StatefulSetSpec status:StatefulSetStatus
StatefulSetCondition lastTransitionTime:Time message reason status! type!
StatefulSetOrdinals start:int
StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted whenScaled
StatefulSetSpec minReadySeconds:int ordinals:StatefulSetOrdinals
	persistentVolumeClaimRetentionPolicy:StatefulSetPersistentVolumeClaimRetentionPolicy podManagementPolicy replicas:int
	revisionHistoryLimit:int selector!:LabelSelector serviceName template!:PodTemplateSpec updateStrategy:StatefulSetUpdateStrategy
	volumeClaimTemplates:[]PersistentVolumeClaim
StatefulSetStatus availableReplicas:int collisionCount:int conditions:[]StatefulSetCondition#type@type currentReplicas:int currentRevision
	observedGeneration:long readyReplicas:int replicas!:int updateRevision updatedReplicas:int
StatefulSetUpdateStrategy rollingUpdate:RollingUpdateStatefulSetStrategy type
package io.k8s.api.authentication.v1
BoundObjectReference apiVersion kind name uid
SelfSubjectReview apiVersion kind metadata:ObjectMeta status:SelfSubjectReviewStatus
SelfSubjectReviewStatus userInfo:UserInfo
TokenRequest apiVersion kind metadata:ObjectMeta spec:TokenRequestSpec status:TokenRequestStatus
TokenRequestSpec audiences:[]string boundObjectRef:BoundObjectReference expirationSeconds:long
TokenRequestStatus expirationTimestamp:Time token
TokenReview apiVersion kind metadata:ObjectMeta spec!:TokenReviewSpec status:TokenReviewStatus
TokenReviewSpec audiences:[]string token!
TokenReviewStatus audiences:[]string authenticated:bool error user:UserInfo
UserInfo extra:{}[]string groups:[]string uid username
package io.k8s.api.authorization.v1
FieldSelectorAttributes rawSelector requirements:[]FieldSelectorRequirement
LabelSelectorAttributes rawSelector requirements:[]LabelSelectorRequirement
LocalSubjectAccessReview apiVersion kind metadata:ObjectMeta spec!:SubjectAccessReviewSpec status:SubjectAccessReviewStatus
NonResourceAttributes path verb
NonResourceRule nonResourceURLs:[]string verbs!:[]string
ResourceAttributes fieldSelector:FieldSelectorAttributes group labelSelector:LabelSelectorAttributes name namespace resource subresource
	verb version
ResourceRule apiGroups:[]string resourceNames:[]string resources:[]string verbs!:[]string
SelfSubjectAccessReview apiVersion kind metadata:ObjectMeta spec!:SelfSubjectAccessReviewSpec status:SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec nonResourceAttributes:NonResourceAttributes resourceAttributes:ResourceAttributes
SelfSubjectRulesReview apiVersion kind metadata:ObjectMeta spec!:SelfSubjectRulesReviewSpec status:SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec namespace
SubjectAccessReview apiVersion kind metadata:ObjectMeta spec!:SubjectAccessReviewSpec status:SubjectAccessReviewStatus
SubjectAccessReviewSpec extra:{}[]string groups:[]string nonResourceAttributes:NonResourceAttributes resourceAttributes:ResourceAttributes
	uid user
SubjectAccessReviewStatus allowed!:bool denied:bool evaluationError reason
SubjectRulesReviewStatus evaluationError incomplete!:bool nonResourceRules!:[]NonResourceRule resourceRules!:[]ResourceRule
package io.k8s.api.autoscaling.v1
Scale apiVersion kind metadata:ObjectMeta spec:ScaleSpec status:ScaleStatus
ScaleSpec replicas:int
ScaleStatus replicas!:int selector
package io.k8s.api.autoscaling.v2
ContainerResourceMetricSource container! name! target!:MetricTarget
ContainerResourceMetricStatus container! current!:MetricValueStatus name!
CrossVersionObjectReference apiVersion kind! name!
ExternalMetricSource metric!:MetricIdentifier target!:MetricTarget
ExternalMetricStatus current!:MetricValueStatus metric!:MetricIdentifier
HPAScalingPolicy periodSeconds!:int type! value!:int
HPAScalingRules policies:[]HPAScalingPolicy selectPolicy stabilizationWindowSeconds:int tolerance:Quantity
HorizontalPodAutoscaler apiVersion kind metadata:ObjectMeta spec!:HorizontalPodAutoscalerSpec status:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerBehavior scaleDown:HPAScalingRules scaleUp:HPAScalingRules
HorizontalPodAutoscalerCondition lastTransitionTime:Time message reason status! type!
HorizontalPodAutoscalerSpec behavior:HorizontalPodAutoscalerBehavior maxReplicas!:int metrics:[]MetricSpec minReplicas:int
	scaleTargetRef!:CrossVersionObjectReference
HorizontalPodAutoscalerStatus conditions:[]HorizontalPodAutoscalerCondition#type@type currentMetrics:[]MetricStatus currentReplicas:int
	desiredReplicas!:int lastScaleTime:Time observedGeneration:long
MetricIdentifier name! selector:LabelSelector
MetricSpec containerResource:ContainerResourceMetricSource external:ExternalMetricSource object:ObjectMetricSource pods:PodsMetricSource
	resource:ResourceMetricSource type!
MetricStatus containerResource:ContainerResourceMetricStatus external:ExternalMetricStatus object:ObjectMetricStatus pods:PodsMetricStatus
	resource:ResourceMetricStatus type!
MetricTarget averageUtilization:int averageValue:Quantity type! value:Quantity
MetricValueStatus averageUtilization:int averageValue:Quantity value:Quantity
ObjectMetricSource describedObject!:CrossVersionObjectReference metric!:MetricIdentifier target!:MetricTarget
ObjectMetricStatus current!:MetricValueStatus describedObject!:CrossVersionObjectReference metric!:MetricIdentifier
PodsMetricSource metric!:MetricIdentifier target!:MetricTarget
PodsMetricStatus current!:MetricValueStatus metric!:MetricIdentifier
ResourceMetricSource name! target!:MetricTarget
ResourceMetricStatus current!:MetricValueStatus name!
package io.k8s.api.batch.v1
CronJob apiVersion kind metadata:ObjectMeta spec!:CronJobSpec status:CronJobStatus
CronJobSpec concurrencyPolicy failedJobsHistoryLimit:int jobTemplate!:JobTemplateSpec schedule! startingDeadlineSeconds:long
	successfulJobsHistoryLimit:int suspend:bool timeZone
CronJobStatus active:[]ObjectReference lastScheduleTime:Time lastSuccessfulTime:Time
Job apiVersion kind metadata:ObjectMeta spec:JobSpec status:JobStatus
JobCondition lastProbeTime:Time lastTransitionTime:Time message reason status! type!
JobSpec activeDeadlineSeconds:long backoffLimit:int backoffLimitPerIndex:int completionMode completions:int managedBy manualSelector:bool
	maxFailedIndexes:int parallelism:int podFailurePolicy:PodFailurePolicy podReplacementPolicy selector:LabelSelector
	successPolicy:SuccessPolicy suspend:bool template!:PodTemplateSpec ttlSecondsAfterFinished:int
JobStatus active:int completedIndexes completionTime:Time conditions:[]JobCondition@type failed:int failedIndexes ready:int startTime:Time
	succeeded:int terminating:int uncountedTerminatedPods:UncountedTerminatedPods
JobTemplateSpec metadata:ObjectMeta spec:JobSpec
PodFailurePolicy rules!:[]PodFailurePolicyRule
PodFailurePolicyOnExitCodesRequirement containerName operator! values!:[]int#
PodFailurePolicyOnPodConditionsPattern status type!
PodFailurePolicyRule action! onExitCodes:PodFailurePolicyOnExitCodesRequirement onPodConditions:[]PodFailurePolicyOnPodConditionsPattern
SuccessPolicy rules!:[]SuccessPolicyRule
SuccessPolicyRule succeededCount:int succeededIndexes
UncountedTerminatedPods failed:[]string# succeeded:[]string#
package io.k8s.api.coordination.v1
Lease apiVersion kind metadata:ObjectMeta spec:LeaseSpec
LeaseSpec acquireTime:MicroTime holderIdentity leaseDurationSeconds:int leaseTransitions:int preferredHolder renewTime:MicroTime strategy
package io.k8s.api.discovery.v1
Endpoint addresses!:[]string# conditions:EndpointConditions deprecatedTopology:{}string hints:EndpointHints hostname nodeName
	targetRef:ObjectReference zone
EndpointConditions ready:bool serving:bool terminating:bool
EndpointHints forNodes:[]ForNode forZones:[]ForZone
EndpointPort* appProtocol name port:int protocol
EndpointSlice addressType! apiVersion endpoints:[]Endpoint kind metadata:ObjectMeta ports:[]EndpointPort
ForNode name!
ForZone name!
package io.k8s.api.events.v1
Event action apiVersion deprecatedCount:int deprecatedFirstTimestamp:Time deprecatedLastTimestamp:Time deprecatedSource:EventSource
	eventTime!:MicroTime kind metadata:ObjectMeta note reason regarding:ObjectReference related:ObjectReference reportingController
	reportingInstance series:EventSeries type
EventSeries count!:int lastObservedTime!:MicroTime
package io.k8s.api.networking.v1
HTTPIngressPath backend!:IngressBackend path pathType!
HTTPIngressRuleValue paths!:[]HTTPIngressPath
IPBlock cidr! except:[]string
Ingress apiVersion kind metadata:ObjectMeta spec:IngressSpec status:IngressStatus
IngressBackend resource:TypedLocalObjectReference service:IngressServiceBackend
IngressClass apiVersion kind metadata:ObjectMeta spec:IngressClassSpec
IngressClassParametersReference apiGroup kind! name! namespace scope
IngressClassSpec controller parameters:IngressClassParametersReference
IngressLoadBalancerIngress hostname ip ports:[]IngressPortStatus
IngressLoadBalancerStatus ingress:[]IngressLoadBalancerIngress
IngressPortStatus error port!:int protocol!
IngressRule host http:HTTPIngressRuleValue
IngressServiceBackend name! port:ServiceBackendPort
IngressSpec defaultBackend:IngressBackend ingressClassName rules:[]IngressRule tls:[]IngressTLS
IngressStatus loadBalancer:IngressLoadBalancerStatus
IngressTLS hosts:[]string secretName
NetworkPolicy apiVersion kind metadata:ObjectMeta spec:NetworkPolicySpec
NetworkPolicyEgressRule ports:[]NetworkPolicyPort to:[]NetworkPolicyPeer
NetworkPolicyIngressRule from:[]NetworkPolicyPeer ports:[]NetworkPolicyPort
NetworkPolicyPeer ipBlock:IPBlock namespaceSelector:LabelSelector podSelector:LabelSelector
NetworkPolicyPort endPort:int port:IntOrString protocol
NetworkPolicySpec egress:[]NetworkPolicyEgressRule ingress:[]NetworkPolicyIngressRule podSelector:LabelSelector policyTypes:[]string
ServiceBackendPort* name number:int
package io.k8s.api.node.v1
Overhead podFixed:{}Quantity
RuntimeClass apiVersion handler! kind metadata:ObjectMeta overhead:Overhead scheduling:Scheduling
Scheduling nodeSelector:{}string* tolerations:[]Toleration
package io.k8s.api.policy.v1
Eviction apiVersion deleteOptions:DeleteOptions kind metadata:ObjectMeta
PodDisruptionBudget apiVersion kind metadata:ObjectMeta spec:PodDisruptionBudgetSpec status:PodDisruptionBudgetStatus
PodDisruptionBudgetSpec maxUnavailable:IntOrString minAvailable:IntOrString selector:LabelSelector% unhealthyPodEvictionPolicy
PodDisruptionBudgetStatus conditions:[]Condition#type@type currentHealthy:int desiredHealthy:int disruptedPods:{}Time disruptionsAllowed:int
	expectedPods:int observedGeneration:long
package io.k8s.api.rbac.v1
AggregationRule clusterRoleSelectors:[]LabelSelector
ClusterRole aggregationRule:AggregationRule apiVersion kind metadata:ObjectMeta rules:[]PolicyRule
ClusterRoleBinding apiVersion kind metadata:ObjectMeta roleRef!:RoleRef subjects:[]Subject
PolicyRule apiGroups:[]string nonResourceURLs:[]string resourceNames:[]string resources:[]string verbs!:[]string
Role apiVersion kind metadata:ObjectMeta rules:[]PolicyRule
RoleBinding apiVersion kind metadata:ObjectMeta roleRef!:RoleRef subjects:[]Subject
RoleRef* apiGroup kind! name!
Subject* apiGroup kind! name! namespace
package io.k8s.api.scheduling.v1
PriorityClass apiVersion description globalDefault:bool kind metadata:ObjectMeta preemptionPolicy value:int
package io.k8s.api.storage.v1
StorageClass allowVolumeExpansion:bool allowedTopologies:[]TopologySelectorTerm apiVersion kind metadata:ObjectMeta mountOptions:[]string
	parameters:{}string provisioner! reclaimPolicy volumeBindingMode
package io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1
CustomResourceColumnDefinition description format jsonPath! name! priority:int type!
CustomResourceConversion strategy! webhook:WebhookConversion
CustomResourceDefinition apiVersion kind metadata:ObjectMeta spec!:CustomResourceDefinitionSpec status:CustomResourceDefinitionStatus
CustomResourceDefinitionCondition lastTransitionTime:Time message observedGeneration:long reason status! type!
CustomResourceDefinitionNames categories:[]string kind! listKind plural! shortNames:[]string singular
CustomResourceDefinitionSpec conversion:CustomResourceConversion group! names!:CustomResourceDefinitionNames preserveUnknownFields:bool
	scope! versions!:[]CustomResourceDefinitionVersion
CustomResourceDefinitionStatus acceptedNames:CustomResourceDefinitionNames conditions:[]CustomResourceDefinitionCondition#type
	observedGeneration:long storedVersions:[]string
CustomResourceDefinitionVersion additionalPrinterColumns:[]CustomResourceColumnDefinition deprecated:bool deprecationWarning name!
	schema:CustomResourceValidation selectableFields:[]SelectableField served!:bool storage!:bool subresources:CustomResourceSubresources
CustomResourceSubresourceScale labelSelectorPath specReplicasPath! statusReplicasPath!
CustomResourceSubresourceStatus = object
CustomResourceSubresources scale:CustomResourceSubresourceScale status:CustomResourceSubresourceStatus
CustomResourceValidation openAPIV3Schema:JSONSchemaProps
ExternalDocumentation description url
JSON = any
JSONSchemaProps $ref $schema additionalItems:JSONSchemaPropsOrBool additionalProperties:JSONSchemaPropsOrBool allOf:[]JSONSchemaProps
	anyOf:[]JSONSchemaProps default:JSON definitions:{}JSONSchemaProps dependencies:{}JSONSchemaPropsOrStringArray description enum:[]JSON
	example:JSON exclusiveMaximum:bool exclusiveMinimum:bool externalDocs:ExternalDocumentation format id items:JSONSchemaPropsOrArray
	maxItems:long maxLength:long maxProperties:long maximum:number minItems:long minLength:long minProperties:long minimum:number
	multipleOf:number not:JSONSchemaProps nullable:bool oneOf:[]JSONSchemaProps pattern patternProperties:{}JSONSchemaProps
	properties:{}JSONSchemaProps required:[]string title type uniqueItems:bool x-kubernetes-embedded-resource:bool
	x-kubernetes-int-or-string:bool x-kubernetes-list-map-keys:[]string x-kubernetes-list-type x-kubernetes-map-type
	x-kubernetes-preserve-unknown-fields:bool x-kubernetes-validations:[]ValidationRule#rule@rule
JSONSchemaPropsOrArray = any
JSONSchemaPropsOrBool = any
JSONSchemaPropsOrStringArray = any
SelectableField jsonPath!
ServiceReference name! namespace! path port:int
ValidationRule fieldPath message messageExpression optionalOldSelf:bool reason rule!
WebhookClientConfig caBundle:bytes service:ServiceReference url
WebhookConversion clientConfig:WebhookClientConfig conversionReviewVersions!:[]string
`
