package types

import (
	"strconv"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/schema"
)

// This file knows the types that the built-in kinds are made of: their fields, which of these come in lists that are merged by
// keys, and which belong together as a whole. Schemas for the in-memory API server are made of it when they are first
// needed; it is only read then.
// See https://kubernetes.io/docs/reference/kubernetes-api/

// Type is a type with a name of its own: a structure, or a scalar.
type Type struct {
	name   string // the last part of the full name
	full   string // as OpenAPI documents name it
	scalar string // the type in OpenAPI, "" of structures
	format string
	atomic bool
	fields []Field
	Schema *schema.Schema
	// numbered are the fields by their numbers in Protocol Buffers, with nothing but more fields where a message has another one embedded.
	Numbered map[uint64]*Field
}

// Field is one field of a structure.
type Field struct {
	Name      string
	Type      string // a word of scalarWord, or the name of a type
	Ref       *Type
	List, Map bool // whether there are many of the type, in a list, or by keys, or a list for each key
	required  bool
	byKeys    bool     // a list whose items are told apart by keys, or, without keys, by all they are
	keys      []string // of these items
	merge     bool     // whether strategic merge patches merge the list
	mergeKey  string   // of the items, "" for scalars
	retain    bool     // whether clients write $retainKeys for it
	replace   bool     // whether strategic merge patches replace it as a whole
	mapType   string   // atomic or granular, if it differs from what the type is
	fallback  string   // the default, "" if there is none
	number    string   // in Protocol Buffers, "" if there is none; two with a dot where the field is in an embedded message
	Explicit  bool     // whether Protocol Buffers tell it even if it is empty
	Embedded  map[uint64]*Field
}

// scalarWord tells how the word for a scalar is named in OpenAPI, and whether it is one.
func scalarWord(word string) (typ, format string, scalar bool) {
	switch word {
	case "", "string":
		return "string", "", true
	case "bytes":
		return "string", "byte", true
	case "bool":
		return "boolean", "", true
	case "int":
		return "integer", "int32", true
	case "long":
		return "integer", "int64", true
	case "number":
		return "number", "double", true
	}
	return "", "", false
}

// table are all types, by their full names, and by their short ones (with the group, where two have the same).
var table = sync.OnceValue(func() map[string]*Type {
	all := make(map[string]*Type)
	room := ""
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(namedTypeTable), "\n") {
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
		t := &Type{full: room + "." + strings.TrimSuffix(words[0], "*"), atomic: strings.HasSuffix(words[0], "*")}
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

func parseFieldsOf(words []string) []Field {
	fields := make([]Field, 0, len(words))
	for _, word := range words {
		var f Field
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
		f.Name, f.Type, _ = strings.Cut(word, ":")
		if i := strings.IndexAny(f.Name, "./"); i > 0 {
			f.Name, f.number, f.Explicit = f.Name[:i], f.Name[i+1:], f.Name[i] == '/'
		}
		f.Name, f.required = strings.CutSuffix(f.Name, "!")
		f.Type, f.Map = strings.CutPrefix(f.Type, "{}")
		f.Type, f.List = strings.CutPrefix(f.Type, "[]")
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
func linkTypes(all map[string]*Type) {
	for _, t := range all {
		t.Schema = &schema.Schema{Type: "object", Properties: make(map[string]*schema.Schema, len(t.fields)), Builtin: &schema.BuiltinRules{Name: t.name}}
		if t.atomic {
			t.Schema.MapType = "atomic"
		}
		if t.scalar != "" {
			*t.Schema = scalarSchema(t.name, t.scalar, t.format)
		}
	}
	for full, t := range all {
		if full != t.full {
			continue
		}
		for i := range t.fields {
			f := &t.fields[i]
			if _, _, scalar := scalarWord(f.Type); !scalar {
				f.Ref = all[f.Type]
			}
			t.Schema.Properties[f.Name] = f.schemaOf()
			if f.number != "" {
				t.Numbered = f.addTo(t.Numbered, f.number)
			}
		}
	}
}

// addTo adds the field to those of a message, or of a message that is embedded there.
func (f *Field) addTo(fields map[uint64]*Field, number string) map[uint64]*Field {
	if fields == nil {
		fields = make(map[uint64]*Field)
	}
	first, rest, embedded := strings.Cut(number, ".")
	n, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		panic(err) // the table is wrong
	}
	if !embedded {
		fields[n] = f
		return fields
	}
	if fields[n] == nil {
		fields[n] = &Field{}
	}
	fields[n].Embedded = f.addTo(fields[n].Embedded, rest)
	return fields
}

// scalarSchema is the schema of a named type without fields. Quantities are also written as numbers.
func scalarSchema(name, typ, format string) schema.Schema {
	switch {
	case name == "Quantity" || typ == "any":
		return schema.Schema{PreserveUnknown: true}
	case format == "int-or-string":
		return schema.Schema{IntOrString: true}
	}
	return schema.Schema{Type: typ, Format: format, PreserveUnknown: typ == "object"}
}

// schemaOf returns the schema of a field. What is required is left out, as the types of kube-apiserver do not know it either.
func (f *Field) schemaOf() *schema.Schema {
	one := &schema.Schema{}
	one.Type, one.Format, _ = scalarWord(f.Type)
	if f.Ref != nil {
		one = f.Ref.Schema
	}
	s := one
	switch {
	case f.List && f.Map:
		s = &schema.Schema{Type: "object", Additional: &schema.Schema{Type: "array", Items: one, ListType: "atomic"}}
	case f.List:
		s = &schema.Schema{Type: "array", Items: one, ListType: "atomic"}
	case f.Map:
		s = &schema.Schema{Type: "object", Additional: one}
	case f.mapType != "" || f.replace || f.retain:
		own := *one
		s = &own
	}
	switch {
	case f.byKeys && len(f.keys) > 0:
		s.ListType, s.ListKeys = "map", f.keys
	case f.byKeys:
		s.ListType = "set"
	}
	if f.mapType != "" {
		s.MapType = f.mapType
	}
	if f.fallback != "" && !f.List && !f.Map && f.Ref == nil && one.Type == "string" {
		s.Default, s.HasDefault = f.fallback, true
	}
	if f.merge || f.replace {
		s.Builtin = &schema.BuiltinRules{Name: f.Type, Merge: f.merge, MergeKey: f.mergeKey, Replace: f.replace}
	}
	return s
}

// OfKind returns the type of a built-in kind, nil if it is not known.
func OfKind(group, version, kind string) *Type {
	first, _, _ := strings.Cut(group, ".")
	room := "io.k8s.api." + first
	switch group {
	case "":
		room = "io.k8s.api.core"
	case "meta.k8s.io":
		room = "io.k8s.apimachinery.pkg.apis.meta"
	case "apiextensions.k8s.io":
		room = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions"
	}
	return Named(room + "." + version + "." + kind)
}

// namedTypeTable has one type in a line, and lines that begin with a tab continue the one before. A type is followed by its
// fields, each as name.1:type, where no type means string, [] a list, and {} a map with keys of the users' own. The number is that of Protocol
// Buffers; it is .2.1 for a field of an embedded message, and /1 if the field is told even if it is empty. A test of the module in the folder
// e2e compares the numbers with the types of Kubernetes. Marks after the type: ! (after the name) it is required; #a,b the items of the list are told apart by these keys, or by all they are; @a strategic merge
// patches merge the list, by this key; + clients write $retainKeys; % such patches replace it; =a this is the default;
// * (also of types) it belongs to one manager as a whole; ? it does not, though its type says so.
const namedTypeTable = `package io.k8s.apimachinery.pkg.apis.meta.v1
Condition lastTransitionTime!.4:Time message!/6 observedGeneration.3:long reason!/5 status!/2 type!/1
DeleteOptions apiVersion dryRun.5:[]string gracePeriodSeconds/1:long ignoreStoreReadErrorWithClusterBreakingPotential/6:bool kind
	orphanDependents/3:bool preconditions.2:Preconditions propagationPolicy/4
FieldSelectorRequirement key!/1 operator!/2 values.3:[]string
FieldsV1 = object
LabelSelector* matchExpressions.2:[]LabelSelectorRequirement matchLabels.1:{}string
LabelSelectorRequirement key!/1 operator!/2 values.3:[]string
ListMeta continue remainingItemCount:long resourceVersion selfLink shardInfo:ShardInfo
ManagedFieldsEntry apiVersion.3 fieldsType.6 fieldsV1.7:FieldsV1 manager.1 operation.2 subresource.8 time/4:Time
MicroTime = string:date-time
ObjectMeta annotations.12:{}string creationTimestamp.8:Time deletionGracePeriodSeconds/10:long deletionTimestamp/9:Time
	finalizers.14:[]string#@ generateName.2 generation.7:long labels.11:{}string managedFields.17:[]ManagedFieldsEntry name.1 namespace.3
	ownerReferences.13:[]OwnerReference#uid@uid resourceVersion.6 selfLink.4 uid.5
OwnerReference* apiVersion!/5 blockOwnerDeletion/7:bool controller/6:bool kind!/1 name!/3 uid!/4
Preconditions resourceVersion/2 uid/1
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
AWSElasticBlockStoreVolumeSource fsType.2 partition.3:int readOnly.4:bool volumeID!/1
Affinity nodeAffinity.1:NodeAffinity podAffinity.2:PodAffinity podAntiAffinity.3:PodAntiAffinity
AppArmorProfile localhostProfile/2 type!/1
AttachedVolume devicePath!/2 name!/1
AzureDiskVolumeSource cachingMode/3=ReadWrite diskName!/1 diskURI!/2 fsType/4=ext4 kind/6=Shared readOnly/5:bool
AzureFilePersistentVolumeSource readOnly.3:bool secretName!/1 secretNamespace/4 shareName!/2
AzureFileVolumeSource readOnly.3:bool secretName!/1 shareName!/2
Binding apiVersion kind metadata.1:ObjectMeta target!.2:ObjectReference
CSIPersistentVolumeSource controllerExpandSecretRef.9:SecretReference controllerPublishSecretRef.6:SecretReference driver!/1 fsType.4
	nodeExpandSecretRef.10:SecretReference nodePublishSecretRef.8:SecretReference nodeStageSecretRef.7:SecretReference readOnly.3:bool
	volumeAttributes.5:{}string volumeHandle!/2
CSIVolumeSource driver!/1 fsType/3 nodePublishSecretRef.5:LocalObjectReference readOnly/2:bool volumeAttributes.4:{}string
Capabilities add.1:[]string drop.2:[]string
CephFSPersistentVolumeSource monitors!.1:[]string path.2 readOnly.6:bool secretFile.4 secretRef.5:SecretReference user.3
CephFSVolumeSource monitors!.1:[]string path.2 readOnly.6:bool secretFile.4 secretRef.5:LocalObjectReference user.3
CinderPersistentVolumeSource fsType.2 readOnly.3:bool secretRef.4:SecretReference volumeID!/1
CinderVolumeSource fsType.2 readOnly.3:bool secretRef.4:LocalObjectReference volumeID!/1
ClientIPConfig timeoutSeconds/1:int
ClusterTrustBundleProjection labelSelector.3:LabelSelector name/1 optional/5:bool path!/4 signerName/2
ConfigMap apiVersion binaryData.3:{}bytes data.2:{}string immutable/4:bool kind metadata.1:ObjectMeta
ConfigMapEnvSource name.1.1 optional/2:bool
ConfigMapKeySelector* key!/2 name.1.1 optional/3:bool
ConfigMapNodeConfigSource kubeletConfigKey!/5 name!/2 namespace!/1 resourceVersion.4 uid.3
ConfigMapProjection items.2:[]KeyToPath name.1.1 optional/4:bool
ConfigMapVolumeSource defaultMode/3:int items.2:[]KeyToPath name.1.1 optional/4:bool
Container args.4:[]string command.3:[]string env.7:[]EnvVar#name@name envFrom.19:[]EnvFromSource image.2 imagePullPolicy.14
	lifecycle.12:Lifecycle livenessProbe.10:Probe name!/1 ports.6:[]ContainerPort#containerPort,protocol@containerPort
	readinessProbe.11:Probe resizePolicy.23:[]ContainerResizePolicy resources.8:ResourceRequirements restartPolicy/24
	restartPolicyRules.25:[]ContainerRestartRule securityContext.15:SecurityContext startupProbe.22:Probe stdin.16:bool stdinOnce.17:bool
	terminationMessagePath.13 terminationMessagePolicy.20 tty.18:bool volumeDevices.21:[]VolumeDevice#devicePath@devicePath
	volumeMounts.9:[]VolumeMount#mountPath@mountPath workingDir.5
ContainerExtendedResourceRequest containerName!/1 requestName!/3 resourceName!/2
ContainerImage names.1:[]string sizeBytes.2:long
ContainerPort containerPort!/3:int hostIP.5 hostPort.2:int name.1 protocol.4=TCP
ContainerResizePolicy resourceName!/1 restartPolicy!/2
ContainerRestartRule action!.1 exitCodes.2:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes operator!.1 values.2:[]int#
ContainerState running.2:ContainerStateRunning terminated.3:ContainerStateTerminated waiting.1:ContainerStateWaiting
ContainerStateRunning startedAt.1:Time
ContainerStateTerminated containerID.7 exitCode!/1:int finishedAt.6:Time message.4 reason.3 signal.2:int startedAt.5:Time
ContainerStateWaiting message.2 reason.1
ContainerStatus allocatedResources.10:{}Quantity allocatedResourcesStatus.14:[]ResourceStatus#name@name containerID.8 image!/6 imageID!/7
	lastState.3:ContainerState name!/1 ready!/4:bool resources.11:ResourceRequirements restartCount!/5:int started/9:bool
	state.2:ContainerState stopSignal/15 user.13:ContainerUser volumeMounts.12:[]VolumeMountStatus#mountPath@mountPath
ContainerUser linux.1:LinuxContainerUser
DaemonEndpoint Port!/1:int
DownwardAPIProjection items.1:[]DownwardAPIVolumeFile
DownwardAPIVolumeFile fieldRef.2:ObjectFieldSelector mode/4:int path!/1 resourceFieldRef.3:ResourceFieldSelector
DownwardAPIVolumeSource defaultMode/2:int items.1:[]DownwardAPIVolumeFile
EmptyDirVolumeSource medium.1 sizeLimit.2:Quantity
EndpointAddress* hostname.3 ip!/1 nodeName/4 targetRef.2:ObjectReference
EndpointPort* appProtocol/4 name.1 port!/2:int protocol.3
EndpointSubset addresses.1:[]EndpointAddress notReadyAddresses.2:[]EndpointAddress ports.3:[]EndpointPort
Endpoints apiVersion kind metadata.1:ObjectMeta subsets.2:[]EndpointSubset
EnvFromSource configMapRef.2:ConfigMapEnvSource prefix.1 secretRef.3:SecretEnvSource
EnvVar name!/1 value.2 valueFrom.3:EnvVarSource
EnvVarSource configMapKeyRef.3:ConfigMapKeySelector fieldRef.1:ObjectFieldSelector fileKeyRef.5:FileKeySelector
	resourceFieldRef.2:ResourceFieldSelector secretKeyRef.4:SecretKeySelector
EphemeralContainer args.1.4:[]string command.1.3:[]string env.1.7:[]EnvVar#name@name envFrom.1.19:[]EnvFromSource image.1.2
	imagePullPolicy.1.14 lifecycle.1.12:Lifecycle livenessProbe.1.10:Probe name!/1.1
	ports.1.6:[]ContainerPort#containerPort,protocol@containerPort readinessProbe.1.11:Probe resizePolicy.1.23:[]ContainerResizePolicy
	resources.1.8:ResourceRequirements restartPolicy/1.24 restartPolicyRules.1.25:[]ContainerRestartRule
	securityContext.1.15:SecurityContext startupProbe.1.22:Probe stdin.1.16:bool stdinOnce.1.17:bool targetContainerName.2
	terminationMessagePath.1.13 terminationMessagePolicy.1.20 tty.1.18:bool volumeDevices.1.21:[]VolumeDevice#devicePath@devicePath
	volumeMounts.1.9:[]VolumeMount#mountPath@mountPath workingDir.1.5
EphemeralVolumeSource volumeClaimTemplate.1:PersistentVolumeClaimTemplate
Event action.12 apiVersion count.8:int eventTime.10:MicroTime firstTimestamp.6:Time involvedObject!.2:ObjectReference kind
	lastTimestamp.7:Time message.4 metadata!.1:ObjectMeta reason.3 related.13:ObjectReference reportingComponent/14 reportingInstance/15
	series.11:EventSeries source.5:EventSource type.9
EventSeries count.1:int lastObservedTime.2:MicroTime
EventSource component.1 host.2
ExecAction command.1:[]string
FCVolumeSource fsType.3 lun/2:int readOnly.4:bool targetWWNs.1:[]string wwids.5:[]string
FileKeySelector* key!/3 optional/4:bool path!/2 volumeName!/1
FlexPersistentVolumeSource driver!/1 fsType.2 options.5:{}string readOnly.4:bool secretRef.3:SecretReference
FlexVolumeSource driver!/1 fsType.2 options.5:{}string readOnly.4:bool secretRef.3:LocalObjectReference
FlockerVolumeSource datasetName.1 datasetUUID.2
GCEPersistentDiskVolumeSource fsType.2 partition.3:int pdName!/1 readOnly.4:bool
GRPCAction port!/1:int service/2
GitRepoVolumeSource directory.3 repository!/1 revision.2
GlusterfsPersistentVolumeSource endpoints!/1 endpointsNamespace/4 path!/2 readOnly.3:bool
GlusterfsVolumeSource endpoints!/1 path!/2 readOnly.3:bool
HTTPGetAction host.3 httpHeaders.5:[]HTTPHeader path.1 port!.2:IntOrString scheme.4
HTTPHeader name!/1 value!/2
HostAlias hostnames.2:[]string ip!/1
HostIP ip!/1
HostPathVolumeSource path!/1 type/2
ISCSIPersistentVolumeSource chapAuthDiscovery.8:bool chapAuthSession.11:bool fsType.5 initiatorName/12 iqn!/2 iscsiInterface.4=default
	lun!/3:int portals.7:[]string readOnly.6:bool secretRef.10:SecretReference targetPortal!/1
ISCSIVolumeSource chapAuthDiscovery.8:bool chapAuthSession.11:bool fsType.5 initiatorName/12 iqn!/2 iscsiInterface.4=default lun!/3:int
	portals.7:[]string readOnly.6:bool secretRef.10:LocalObjectReference targetPortal!/1
ImageVolumeSource pullPolicy.2 reference.1
ImageVolumeStatus imageRef!.1
KeyToPath key!/1 mode/3:int path!/2
Lifecycle postStart.1:LifecycleHandler preStop.2:LifecycleHandler stopSignal/3
LifecycleHandler exec.1:ExecAction httpGet.2:HTTPGetAction sleep.4:SleepAction tcpSocket.3:TCPSocketAction
LimitRange apiVersion kind metadata.1:ObjectMeta spec.2:LimitRangeSpec
LimitRangeItem default.4:{}Quantity defaultRequest.5:{}Quantity max.2:{}Quantity maxLimitRequestRatio.6:{}Quantity min.3:{}Quantity type!/1
LimitRangeSpec limits!.1:[]LimitRangeItem
LinuxContainerUser gid!/2:long supplementalGroups.3:[]long uid!/1:long
LoadBalancerIngress hostname.2 ip.1 ipMode/3 ports.4:[]PortStatus
LoadBalancerStatus ingress.1:[]LoadBalancerIngress
LocalObjectReference* name.1
LocalVolumeSource fsType/2 path!/1
ModifyVolumeStatus status!/2 targetVolumeAttributesClassName.1
NFSVolumeSource path!/2 readOnly.3:bool server!/1
Namespace apiVersion kind metadata.1:ObjectMeta spec.2:NamespaceSpec status.3:NamespaceStatus
NamespaceCondition lastTransitionTime.4:Time message.6 reason.5 status!/2 type!/1
NamespaceSpec finalizers.1:[]string
NamespaceStatus conditions.2:[]NamespaceCondition#type@type phase.1
Node apiVersion kind metadata.1:ObjectMeta spec.2:NodeSpec status.3:NodeStatus
NodeAddress address!/2 type!/1
NodeAffinity preferredDuringSchedulingIgnoredDuringExecution.2:[]PreferredSchedulingTerm
	requiredDuringSchedulingIgnoredDuringExecution.1:NodeSelector
NodeAllocatableResourceClaimStatus containers.2:[]string# resourceClaimName!/1 resources!.3:{}Quantity
NodeCondition lastHeartbeatTime.3:Time lastTransitionTime.4:Time message.6 reason.5 status!/2 type!/1
NodeConfigSource configMap.2:ConfigMapNodeConfigSource
NodeConfigStatus active.2:NodeConfigSource assigned.1:NodeConfigSource error.4 lastKnownGood.3:NodeConfigSource
NodeDaemonEndpoints kubeletEndpoint.1:DaemonEndpoint
NodeFeatures supplementalGroupsPolicy/1:bool
NodeRuntimeHandler features.2:NodeRuntimeHandlerFeatures name/1
NodeRuntimeHandlerFeatures recursiveReadOnlyMounts/1:bool userNamespaces/2:bool
NodeSelector* nodeSelectorTerms!.1:[]NodeSelectorTerm
NodeSelectorRequirement key!/1 operator!/2 values.3:[]string
NodeSelectorTerm* matchExpressions.1:[]NodeSelectorRequirement matchFields.2:[]NodeSelectorRequirement
NodeSpec configSource.6:NodeConfigSource externalID.2 podCIDR.1 podCIDRs.7:[]string#@ providerID.3 taints.5:[]Taint unschedulable.4:bool
NodeStatus addresses.5:[]NodeAddress#type@type allocatable.2:{}Quantity capacity.1:{}Quantity conditions.4:[]NodeCondition#type@type
	config.11:NodeConfigStatus daemonEndpoints.6:NodeDaemonEndpoints declaredFeatures.14:[]string features.13:NodeFeatures
	images.8:[]ContainerImage nodeInfo.7:NodeSystemInfo phase.3 runtimeHandlers.12:[]NodeRuntimeHandler volumesAttached.10:[]AttachedVolume
	volumesInUse.9:[]string
NodeSwapStatus capacity/1:long
NodeSystemInfo architecture!/10 bootID!/3 containerRuntimeVersion!/6 kernelVersion!/4 kubeProxyVersion!/8 kubeletVersion!/7 machineID!/1
	operatingSystem!/9 osImage!/5 swap.11:NodeSwapStatus systemUUID!/2
ObjectFieldSelector* apiVersion.1 fieldPath!/2
ObjectReference* apiVersion.5 fieldPath.7 kind.1 name.3 namespace.2 resourceVersion.6 uid.4
PersistentVolume apiVersion kind metadata.1:ObjectMeta spec.2:PersistentVolumeSpec status.3:PersistentVolumeStatus
PersistentVolumeClaim apiVersion kind metadata.1:ObjectMeta spec.2:PersistentVolumeClaimSpec status.3:PersistentVolumeClaimStatus
PersistentVolumeClaimCondition lastProbeTime.3:Time lastTransitionTime.4:Time message.6 reason.5 status!/2 type!/1
PersistentVolumeClaimSpec accessModes.1:[]string dataSource.7:TypedLocalObjectReference dataSourceRef.8:TypedObjectReference
	resources.2:VolumeResourceRequirements selector.4:LabelSelector storageClassName/5 volumeAttributesClassName/9 volumeMode/6 volumeName.3
PersistentVolumeClaimStatus accessModes.2:[]string allocatedResourceStatuses.7:{}string? allocatedResources.5:{}Quantity
	capacity.3:{}Quantity conditions.4:[]PersistentVolumeClaimCondition#type@type currentVolumeAttributesClassName/8
	modifyVolumeStatus.9:ModifyVolumeStatus phase.1
PersistentVolumeClaimTemplate metadata.1:ObjectMeta spec!.2:PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource claimName!/1 readOnly.2:bool
PersistentVolumeSpec accessModes.3:[]string awsElasticBlockStore.2.2:AWSElasticBlockStoreVolumeSource azureDisk.2.16:AzureDiskVolumeSource
	azureFile.2.13:AzureFilePersistentVolumeSource capacity.1:{}Quantity cephfs.2.9:CephFSPersistentVolumeSource
	cinder.2.8:CinderPersistentVolumeSource claimRef.4:ObjectReference? csi.2.22:CSIPersistentVolumeSource fc.2.10:FCVolumeSource
	flexVolume.2.12:FlexPersistentVolumeSource flocker.2.11:FlockerVolumeSource gcePersistentDisk.2.1:GCEPersistentDiskVolumeSource
	glusterfs.2.4:GlusterfsPersistentVolumeSource hostPath.2.3:HostPathVolumeSource iscsi.2.7:ISCSIPersistentVolumeSource
	local.2.20:LocalVolumeSource mountOptions.7:[]string nfs.2.5:NFSVolumeSource nodeAffinity.9:VolumeNodeAffinity
	persistentVolumeReclaimPolicy.5 photonPersistentDisk.2.17:PhotonPersistentDiskVolumeSource portworxVolume.2.18:PortworxVolumeSource
	quobyte.2.15:QuobyteVolumeSource rbd.2.6:RBDPersistentVolumeSource scaleIO.2.19:ScaleIOPersistentVolumeSource storageClassName.6
	storageos.2.21:StorageOSPersistentVolumeSource volumeAttributesClassName/10 volumeMode/8
	vsphereVolume.2.14:VsphereVirtualDiskVolumeSource
PersistentVolumeStatus lastPhaseTransitionTime/4:Time message.2 phase.1 reason.3
PhotonPersistentDiskVolumeSource fsType.2 pdID!/1
Pod apiVersion kind metadata.1:ObjectMeta spec.2:PodSpec status.3:PodStatus
PodAffinity preferredDuringSchedulingIgnoredDuringExecution.2:[]WeightedPodAffinityTerm
	requiredDuringSchedulingIgnoredDuringExecution.1:[]PodAffinityTerm
PodAffinityTerm labelSelector.1:LabelSelector matchLabelKeys.5:[]string mismatchLabelKeys.6:[]string namespaceSelector.4:LabelSelector
	namespaces.2:[]string topologyKey!/3
PodAntiAffinity preferredDuringSchedulingIgnoredDuringExecution.2:[]WeightedPodAffinityTerm
	requiredDuringSchedulingIgnoredDuringExecution.1:[]PodAffinityTerm
PodCertificateProjection certificateChainPath.6 credentialBundlePath.4 keyPath.5 keyType!.2 maxExpirationSeconds/3:int signerName!.1
	userAnnotations.7:{}string
PodCondition lastProbeTime.3:Time lastTransitionTime.4:Time message.6 observedGeneration.7:long reason.5 status!/2 type!/1
PodDNSConfig nameservers.1:[]string options.3:[]PodDNSConfigOption searches.2:[]string
PodDNSConfigOption name.1 value/2
PodExtendedResourceClaimStatus requestMappings!.1:[]ContainerExtendedResourceRequest resourceClaimName!/2
PodIP ip!/1
PodOS name!/1
PodReadinessGate conditionType!/1
PodResourceClaim name!/1 resourceClaimName/3 resourceClaimTemplateName/4
PodResourceClaimStatus name!/1 resourceClaimName/2
PodSchedulingGate name!/1
PodSchedulingGroup podGroupName/1
PodSecurityContext appArmorProfile.11:AppArmorProfile fsGroup/5:long fsGroupChangePolicy/9 runAsGroup/6:long runAsNonRoot/3:bool
	runAsUser/2:long seLinuxChangePolicy/13 seLinuxOptions.1:SELinuxOptions seccompProfile.10:SeccompProfile supplementalGroups.4:[]long
	supplementalGroupsPolicy/12 sysctls.7:[]Sysctl windowsOptions.8:WindowsSecurityContextOptions
PodSpec activeDeadlineSeconds/5:long affinity.18:Affinity automountServiceAccountToken/21:bool containers!.2:[]Container#name@name
	dnsConfig.26:PodDNSConfig dnsPolicy.6 enableServiceLinks/30:bool ephemeralContainers.34:[]EphemeralContainer#name@name
	hostAliases.23:[]HostAlias#ip@ip hostIPC.13:bool hostNetwork.11:bool hostPID.12:bool hostUsers/37:bool hostname.16 hostnameOverride/41
	imagePullSecrets.15:[]LocalObjectReference#name@name initContainers.20:[]Container#name@name nodeName.10 nodeSelector.7:{}string*
	os.36:PodOS overhead.32:{}Quantity preemptionPolicy/31 priority/25:int priorityClassName.24 readinessGates.28:[]PodReadinessGate
	resourceClaims.39:[]PodResourceClaim#name@name+ resources.40:ResourceRequirements restartPolicy.3 runtimeClassName/29 schedulerName.19
	schedulingGates.38:[]PodSchedulingGate#name@name schedulingGroup.43:PodSchedulingGroup securityContext.14:PodSecurityContext
	serviceAccount.9 serviceAccountName.8 setHostnameAsFQDN/35:bool shareProcessNamespace/27:bool subdomain.17
	terminationGracePeriodSeconds/4:long tolerations.22:[]Toleration
	topologySpreadConstraints.33:[]TopologySpreadConstraint#topologyKey,whenUnsatisfiable@topologyKey volumes.1:[]Volume#name@name+
PodStatus allocatedResources.19:{}Quantity conditions.2:[]PodCondition#type@type containerStatuses.8:[]ContainerStatus
	ephemeralContainerStatuses.13:[]ContainerStatus extendedResourceClaimStatus.18:PodExtendedResourceClaimStatus hostIP.5
	hostIPs.16:[]HostIP@ip initContainerStatuses.10:[]ContainerStatus message.3
	nodeAllocatableResourceClaimStatuses.21:[]NodeAllocatableResourceClaimStatus nominatedNodeName.11 observedGeneration.17:long phase.1
	podIP.6 podIPs.12:[]PodIP#ip@ip qosClass.9 reason.4 resize.14 resourceClaimStatuses.15:[]PodResourceClaimStatus#name@name+
	resources.20:ResourceRequirements startTime/7:Time
PodTemplate apiVersion kind metadata.1:ObjectMeta template.2:PodTemplateSpec
PodTemplateSpec metadata.1:ObjectMeta spec.2:PodSpec
PortStatus error/3 port!/1:int protocol!/2
PortworxVolumeSource fsType.2 readOnly.3:bool volumeID!/1
PreferredSchedulingTerm preference!.2:NodeSelectorTerm weight!/1:int
Probe exec.1.1:ExecAction failureThreshold.6:int grpc.1.4:GRPCAction httpGet.1.2:HTTPGetAction initialDelaySeconds.2:int periodSeconds.4:int
	successThreshold.5:int tcpSocket.1.3:TCPSocketAction terminationGracePeriodSeconds/7:long timeoutSeconds.3:int
ProjectedVolumeSource defaultMode/2:int sources.1:[]VolumeProjection
QuobyteVolumeSource group.5 readOnly.3:bool registry!/1 tenant.6 user.4 volume!/2
RBDPersistentVolumeSource fsType.3 image!/2 keyring.6=/etc/ceph/keyring monitors!.1:[]string pool.4=rbd readOnly.8:bool
	secretRef.7:SecretReference user.5=admin
RBDVolumeSource fsType.3 image!/2 keyring.6=/etc/ceph/keyring monitors!.1:[]string pool.4=rbd readOnly.8:bool
	secretRef.7:LocalObjectReference user.5=admin
ReplicationController apiVersion kind metadata.1:ObjectMeta spec.2:ReplicationControllerSpec status.3:ReplicationControllerStatus
ReplicationControllerCondition lastTransitionTime.3:Time message.5 reason.4 status!/2 type!/1
ReplicationControllerSpec minReadySeconds.4:int replicas/1:int=1 selector.2:{}string* template.3:PodTemplateSpec
ReplicationControllerStatus availableReplicas.5:int conditions.6:[]ReplicationControllerCondition#type@type fullyLabeledReplicas.2:int
	observedGeneration.3:long readyReplicas.4:int replicas!/1:int
ResourceClaim name!/1 request.2
ResourceFieldSelector* containerName.1 divisor.3:Quantity resource!/2
ResourceHealth health.2 message/6 resourceID!/1
ResourceQuota apiVersion kind metadata.1:ObjectMeta spec.2:ResourceQuotaSpec status.3:ResourceQuotaStatus
ResourceQuotaSpec hard.1:{}Quantity scopeSelector.3:ScopeSelector scopes.2:[]string
ResourceQuotaStatus hard.1:{}Quantity used.2:{}Quantity
ResourceRequirements claims.3:[]ResourceClaim#name limits.1:{}Quantity requests.2:{}Quantity
ResourceStatus name!/1 resources.2:[]ResourceHealth#resourceID
SELinuxOptions level.4 role.2 type.3 user.1
ScaleIOPersistentVolumeSource fsType.9=xfs gateway!/1 protectionDomain.5 readOnly.10:bool secretRef!.3:SecretReference sslEnabled.4:bool
	storageMode.7=ThinProvisioned storagePool.6 system!/2 volumeName.8
ScaleIOVolumeSource fsType.9=xfs gateway!/1 protectionDomain.5 readOnly.10:bool secretRef!.3:LocalObjectReference sslEnabled.4:bool
	storageMode.7=ThinProvisioned storagePool.6 system!/2 volumeName.8
ScopeSelector* matchExpressions.1:[]ScopedResourceSelectorRequirement
ScopedResourceSelectorRequirement operator!/2 scopeName!/1 values.3:[]string
SeccompProfile localhostProfile/2 type!/1
Secret apiVersion data.2:{}bytes immutable/5:bool kind metadata.1:ObjectMeta stringData.4:{}string type.3
SecretEnvSource name.1.1 optional/2:bool
SecretKeySelector* key!/2 name.1.1 optional/3:bool
SecretProjection items.2:[]KeyToPath name.1.1 optional/4:bool
SecretReference* name.1 namespace.2
SecretVolumeSource defaultMode/3:int items.2:[]KeyToPath optional/4:bool secretName.1
SecurityContext allowPrivilegeEscalation/7:bool appArmorProfile.12:AppArmorProfile capabilities.1:Capabilities privileged/2:bool procMount/9
	readOnlyRootFilesystem/6:bool runAsGroup/8:long runAsNonRoot/5:bool runAsUser/4:long seLinuxOptions.3:SELinuxOptions
	seccompProfile.11:SeccompProfile windowsOptions.10:WindowsSecurityContextOptions
Service apiVersion kind metadata.1:ObjectMeta spec.2:ServiceSpec status.3:ServiceStatus
ServiceAccount apiVersion automountServiceAccountToken/4:bool imagePullSecrets.3:[]LocalObjectReference kind metadata.1:ObjectMeta
	secrets.2:[]ObjectReference#name@name
ServiceAccountTokenProjection audience.1 expirationSeconds/2:long path!/3
ServicePort appProtocol/6 name.1 nodePort.5:int port!/3:int protocol.2=TCP targetPort.4:IntOrString
ServiceSpec allocateLoadBalancerNodePorts/20:bool clusterIP.3 clusterIPs.18:[]string externalIPs.5:[]string externalName.10
	externalTrafficPolicy.11 healthCheckNodePort.12:int internalTrafficPolicy/22 ipFamilies.19:[]string ipFamilyPolicy/17
	loadBalancerClass/21 loadBalancerIP.8 loadBalancerSourceRanges.9:[]string ports.1:[]ServicePort#port,protocol@port
	publishNotReadyAddresses.13:bool selector.2:{}string* sessionAffinity.7 sessionAffinityConfig.14:SessionAffinityConfig
	trafficDistribution/23 type.4
ServiceStatus conditions.2:[]Condition#type@type loadBalancer.1:LoadBalancerStatus
SessionAffinityConfig clientIP.1:ClientIPConfig
SleepAction seconds!/1:long
StorageOSPersistentVolumeSource fsType.3 readOnly.4:bool secretRef.5:ObjectReference volumeName.1 volumeNamespace.2
StorageOSVolumeSource fsType.3 readOnly.4:bool secretRef.5:LocalObjectReference volumeName.1 volumeNamespace.2
Sysctl name!/1 value!/2
TCPSocketAction host.2 port!.1:IntOrString
Taint effect!/3 key!/1 timeAdded/4:Time value.2
Toleration effect.4 key.1 operator.2 tolerationSeconds/5:long value.3
TopologySelectorLabelRequirement key!/1 values!.2:[]string
TopologySelectorTerm* matchLabelExpressions.1:[]TopologySelectorLabelRequirement
TopologySpreadConstraint labelSelector.4:LabelSelector matchLabelKeys.8:[]string maxSkew!/1:int minDomains/5:int nodeAffinityPolicy/6
	nodeTaintsPolicy/7 topologyKey!/2 whenUnsatisfiable!/3
TypedLocalObjectReference* apiGroup/1 kind!/2 name!/3
TypedObjectReference apiGroup/1 kind!/2 name!/3 namespace/4
Volume awsElasticBlockStore.2.4:AWSElasticBlockStoreVolumeSource azureDisk.2.22:AzureDiskVolumeSource azureFile.2.18:AzureFileVolumeSource
	cephfs.2.14:CephFSVolumeSource cinder.2.13:CinderVolumeSource configMap.2.19:ConfigMapVolumeSource csi.2.28:CSIVolumeSource
	downwardAPI.2.16:DownwardAPIVolumeSource emptyDir.2.2:EmptyDirVolumeSource ephemeral.2.29:EphemeralVolumeSource fc.2.17:FCVolumeSource
	flexVolume.2.12:FlexVolumeSource flocker.2.15:FlockerVolumeSource gcePersistentDisk.2.3:GCEPersistentDiskVolumeSource
	gitRepo.2.5:GitRepoVolumeSource glusterfs.2.9:GlusterfsVolumeSource hostPath.2.1:HostPathVolumeSource image.2.30:ImageVolumeSource
	iscsi.2.8:ISCSIVolumeSource name!/1 nfs.2.7:NFSVolumeSource persistentVolumeClaim.2.10:PersistentVolumeClaimVolumeSource
	photonPersistentDisk.2.23:PhotonPersistentDiskVolumeSource portworxVolume.2.24:PortworxVolumeSource projected.2.26:ProjectedVolumeSource
	quobyte.2.21:QuobyteVolumeSource rbd.2.11:RBDVolumeSource scaleIO.2.25:ScaleIOVolumeSource secret.2.6:SecretVolumeSource
	storageos.2.27:StorageOSVolumeSource vsphereVolume.2.20:VsphereVirtualDiskVolumeSource
VolumeDevice devicePath!/2 name!/1
VolumeMount mountPath!/3 mountPropagation/5 name!/1 readOnly.2:bool recursiveReadOnly/7 subPath.4 subPathExpr.6
VolumeMountStatus mountPath!/2 name!/1 readOnly.3:bool recursiveReadOnly/4 volumeStatus.5:VolumeStatus
VolumeNodeAffinity required.1:NodeSelector
VolumeProjection clusterTrustBundle.5:ClusterTrustBundleProjection configMap.3:ConfigMapProjection downwardAPI.2:DownwardAPIProjection
	podCertificate.6:PodCertificateProjection secret.1:SecretProjection serviceAccountToken.4:ServiceAccountTokenProjection
VolumeResourceRequirements limits.1:{}Quantity requests.2:{}Quantity
VolumeStatus image.1:ImageVolumeStatus
VsphereVirtualDiskVolumeSource fsType.2 storagePolicyID.4 storagePolicyName.3 volumePath!/1
WeightedPodAffinityTerm podAffinityTerm!.2:PodAffinityTerm weight!/1:int
WindowsSecurityContextOptions gmsaCredentialSpec/2 gmsaCredentialSpecName/1 hostProcess/4:bool runAsUserName/3
package io.k8s.api.admissionregistration.v1
MatchCondition expression!/2 name!/1
MutatingWebhook admissionReviewVersions!.8:[]string clientConfig!.2:WebhookClientConfig failurePolicy/4
	matchConditions.12:[]MatchCondition#name@name matchPolicy/9 name!/1 namespaceSelector.5:LabelSelector objectSelector.11:LabelSelector
	reinvocationPolicy/10 rules.3:[]RuleWithOperations sideEffects!/6 timeoutSeconds/7:int
MutatingWebhookConfiguration apiVersion kind metadata.1:ObjectMeta webhooks.2:[]MutatingWebhook#name@name
RuleWithOperations apiGroups.2.1:[]string apiVersions.2.2:[]string operations.1:[]string resources.2.3:[]string scope/2.4
ServiceReference name!/2 namespace!/1 path/3 port/4:int
ValidatingWebhook admissionReviewVersions!.8:[]string clientConfig!.2:WebhookClientConfig failurePolicy/4
	matchConditions.11:[]MatchCondition#name@name matchPolicy/9 name!/1 namespaceSelector.5:LabelSelector objectSelector.10:LabelSelector
	rules.3:[]RuleWithOperations sideEffects!/6 timeoutSeconds/7:int
ValidatingWebhookConfiguration apiVersion kind metadata.1:ObjectMeta webhooks.2:[]ValidatingWebhook#name@name
WebhookClientConfig caBundle.2:bytes service.1:ServiceReference url/3
package io.k8s.api.apps.v1
ControllerRevision apiVersion data.2:RawExtension kind metadata.1:ObjectMeta revision!/3:long
DaemonSet apiVersion kind metadata.1:ObjectMeta spec.2:DaemonSetSpec status.3:DaemonSetStatus
DaemonSetCondition lastTransitionTime.3:Time message.5 reason.4 status!/2 type!/1
DaemonSetSpec minReadySeconds.4:int revisionHistoryLimit/6:int selector!.1:LabelSelector template!.2:PodTemplateSpec
	updateStrategy.3:DaemonSetUpdateStrategy
DaemonSetStatus collisionCount/9:int conditions.10:[]DaemonSetCondition#type@type currentNumberScheduled!/1:int
	desiredNumberScheduled!/3:int numberAvailable.7:int numberMisscheduled!/2:int numberReady!/4:int numberUnavailable.8:int
	observedGeneration.5:long updatedNumberScheduled.6:int
DaemonSetUpdateStrategy rollingUpdate.2:RollingUpdateDaemonSet type.1
Deployment apiVersion kind metadata.1:ObjectMeta spec.2:DeploymentSpec status.3:DeploymentStatus
DeploymentCondition lastTransitionTime.7:Time lastUpdateTime.6:Time message.5 reason.4 status!/2 type!/1
DeploymentSpec minReadySeconds.5:int paused.7:bool progressDeadlineSeconds/9:int replicas/1:int revisionHistoryLimit/6:int
	selector!.2:LabelSelector strategy.4:DeploymentStrategy+ template!.3:PodTemplateSpec
DeploymentStatus availableReplicas.4:int collisionCount/8:int conditions.6:[]DeploymentCondition#type@type observedGeneration.1:long
	readyReplicas.7:int replicas.2:int terminatingReplicas/9:int unavailableReplicas.5:int updatedReplicas.3:int
DeploymentStrategy rollingUpdate.2:RollingUpdateDeployment type.1
ReplicaSet apiVersion kind metadata.1:ObjectMeta spec.2:ReplicaSetSpec status.3:ReplicaSetStatus
ReplicaSetCondition lastTransitionTime.3:Time message.5 reason.4 status!/2 type!/1
ReplicaSetSpec minReadySeconds.4:int replicas/1:int selector!.2:LabelSelector template.3:PodTemplateSpec
ReplicaSetStatus availableReplicas.5:int conditions.6:[]ReplicaSetCondition#type@type fullyLabeledReplicas.2:int observedGeneration.3:long
	readyReplicas.4:int replicas!/1:int terminatingReplicas/7:int
RollingUpdateDaemonSet maxSurge.2:IntOrString maxUnavailable.1:IntOrString
RollingUpdateDeployment maxSurge.2:IntOrString maxUnavailable.1:IntOrString
RollingUpdateStatefulSetStrategy maxUnavailable.2:IntOrString partition/1:int
StatefulSet apiVersion kind metadata.1:ObjectMeta spec.2:StatefulSetSpec status.3:StatefulSetStatus
StatefulSetCondition lastTransitionTime.3:Time message.5 reason.4 status!/2 type!/1
StatefulSetOrdinals start/1:int
StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted.1 whenScaled.2
StatefulSetSpec minReadySeconds.9:int ordinals.11:StatefulSetOrdinals
	persistentVolumeClaimRetentionPolicy.10:StatefulSetPersistentVolumeClaimRetentionPolicy podManagementPolicy.6 replicas/1:int
	revisionHistoryLimit/8:int selector!.2:LabelSelector serviceName/5 template!.3:PodTemplateSpec
	updateStrategy.7:StatefulSetUpdateStrategy volumeClaimTemplates.4:[]PersistentVolumeClaim
StatefulSetStatus availableReplicas/11:int collisionCount/9:int conditions.10:[]StatefulSetCondition#type@type currentReplicas.4:int
	currentRevision.6 observedGeneration.1:long readyReplicas.3:int replicas!/2:int updateRevision.7 updatedReplicas.5:int
StatefulSetUpdateStrategy rollingUpdate.2:RollingUpdateStatefulSetStrategy type.1
package io.k8s.api.authentication.v1
BoundObjectReference apiVersion.2 kind.1 name.3 uid.4
SelfSubjectReview apiVersion kind metadata.1:ObjectMeta status.2:SelfSubjectReviewStatus
SelfSubjectReviewStatus userInfo.1:UserInfo
TokenRequest apiVersion kind metadata.1:ObjectMeta spec.2:TokenRequestSpec status.3:TokenRequestStatus
TokenRequestSpec audiences.1:[]string boundObjectRef.3:BoundObjectReference expirationSeconds/4:long
TokenRequestStatus expirationTimestamp.2:Time token/1
TokenReview apiVersion kind metadata.1:ObjectMeta spec!.2:TokenReviewSpec status.3:TokenReviewStatus
TokenReviewSpec audiences.2:[]string token!.1
TokenReviewStatus audiences.4:[]string authenticated.1:bool error.3 user.2:UserInfo
UserInfo extra.4:{}[]string groups.3:[]string uid.2 username.1
package io.k8s.api.authorization.v1
FieldSelectorAttributes rawSelector.1 requirements.2:[]FieldSelectorRequirement
LabelSelectorAttributes rawSelector.1 requirements.2:[]LabelSelectorRequirement
LocalSubjectAccessReview apiVersion kind metadata.1:ObjectMeta spec!.2:SubjectAccessReviewSpec status.3:SubjectAccessReviewStatus
NonResourceAttributes path.1 verb.2
NonResourceRule nonResourceURLs.2:[]string verbs!.1:[]string
ResourceAttributes fieldSelector.8:FieldSelectorAttributes group.3 labelSelector.9:LabelSelectorAttributes name.7 namespace.1 resource.5
	subresource.6 verb.2 version.4
ResourceRule apiGroups.2:[]string resourceNames.4:[]string resources.3:[]string verbs!.1:[]string
SelfSubjectAccessReview apiVersion kind metadata.1:ObjectMeta spec!.2:SelfSubjectAccessReviewSpec status.3:SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec nonResourceAttributes.2:NonResourceAttributes resourceAttributes.1:ResourceAttributes
SelfSubjectRulesReview apiVersion kind metadata.1:ObjectMeta spec!.2:SelfSubjectRulesReviewSpec status.3:SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec namespace.1
SubjectAccessReview apiVersion kind metadata.1:ObjectMeta spec!.2:SubjectAccessReviewSpec status.3:SubjectAccessReviewStatus
SubjectAccessReviewSpec extra.5:{}[]string groups.4:[]string nonResourceAttributes.2:NonResourceAttributes
	resourceAttributes.1:ResourceAttributes uid.6 user.3
SubjectAccessReviewStatus allowed!/1:bool denied.4:bool evaluationError.3 reason.2
SubjectRulesReviewStatus evaluationError.4 incomplete!/3:bool nonResourceRules!.2:[]NonResourceRule resourceRules!.1:[]ResourceRule
package io.k8s.api.autoscaling.v1
Scale apiVersion kind metadata.1:ObjectMeta spec.2:ScaleSpec status.3:ScaleStatus
ScaleSpec replicas.1:int
ScaleStatus replicas!/1:int selector.2
package io.k8s.api.autoscaling.v2
ContainerResourceMetricSource container!/3 name!/1 target!.2:MetricTarget
ContainerResourceMetricStatus container!/3 current!.2:MetricValueStatus name!/1
CrossVersionObjectReference apiVersion.3 kind!/1 name!/2
ExternalMetricSource metric!.1:MetricIdentifier target!.2:MetricTarget
ExternalMetricStatus current!.2:MetricValueStatus metric!.1:MetricIdentifier
HPAScalingPolicy periodSeconds!/3:int type!/1 value!/2:int
HPAScalingRules policies.2:[]HPAScalingPolicy selectPolicy/1 stabilizationWindowSeconds/3:int tolerance.4:Quantity
HorizontalPodAutoscaler apiVersion kind metadata.1:ObjectMeta spec!.2:HorizontalPodAutoscalerSpec status.3:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerBehavior scaleDown.2:HPAScalingRules scaleUp.1:HPAScalingRules
HorizontalPodAutoscalerCondition lastTransitionTime.3:Time message.5 reason.4 status!/2 type!/1
HorizontalPodAutoscalerSpec behavior.5:HorizontalPodAutoscalerBehavior maxReplicas!/3:int metrics.4:[]MetricSpec minReplicas/2:int
	scaleTargetRef!.1:CrossVersionObjectReference
HorizontalPodAutoscalerStatus conditions.6:[]HorizontalPodAutoscalerCondition#type@type currentMetrics.5:[]MetricStatus
	currentReplicas.3:int desiredReplicas!/4:int lastScaleTime/2:Time observedGeneration/1:long
MetricIdentifier name!/1 selector.2:LabelSelector
MetricSpec containerResource.7:ContainerResourceMetricSource external.5:ExternalMetricSource object.2:ObjectMetricSource
	pods.3:PodsMetricSource resource.4:ResourceMetricSource type!/1
MetricStatus containerResource.7:ContainerResourceMetricStatus external.5:ExternalMetricStatus object.2:ObjectMetricStatus
	pods.3:PodsMetricStatus resource.4:ResourceMetricStatus type!/1
MetricTarget averageUtilization/4:int averageValue.3:Quantity type!/1 value.2:Quantity
MetricValueStatus averageUtilization/3:int averageValue.2:Quantity value.1:Quantity
ObjectMetricSource describedObject!.1:CrossVersionObjectReference metric!.3:MetricIdentifier target!.2:MetricTarget
ObjectMetricStatus current!.2:MetricValueStatus describedObject!.3:CrossVersionObjectReference metric!.1:MetricIdentifier
PodsMetricSource metric!.1:MetricIdentifier target!.2:MetricTarget
PodsMetricStatus current!.2:MetricValueStatus metric!.1:MetricIdentifier
ResourceMetricSource name!/1 target!.2:MetricTarget
ResourceMetricStatus current!.2:MetricValueStatus name!/1
package io.k8s.api.batch.v1
CronJob apiVersion kind metadata.1:ObjectMeta spec!.2:CronJobSpec status.3:CronJobStatus
CronJobSpec concurrencyPolicy.3 failedJobsHistoryLimit/7:int jobTemplate!.5:JobTemplateSpec schedule!/1 startingDeadlineSeconds/2:long
	successfulJobsHistoryLimit/6:int suspend/4:bool timeZone/8
CronJobStatus active.1:[]ObjectReference lastScheduleTime/4:Time lastSuccessfulTime/5:Time
Job apiVersion kind metadata.1:ObjectMeta spec.2:JobSpec status.3:JobStatus
JobCondition lastProbeTime.3:Time lastTransitionTime.4:Time message.6 reason.5 status!/2 type!/1
JobSpec activeDeadlineSeconds/3:long backoffLimit/7:int backoffLimitPerIndex/12:int completionMode/9 completions/2:int managedBy/15
	manualSelector/5:bool maxFailedIndexes/13:int parallelism/1:int podFailurePolicy.11:PodFailurePolicy podReplacementPolicy/14
	selector.4:LabelSelector successPolicy.16:SuccessPolicy suspend/10:bool template!.6:PodTemplateSpec ttlSecondsAfterFinished/8:int
JobStatus active.4:int completedIndexes.7 completionTime/3:Time conditions.1:[]JobCondition@type failed.6:int failedIndexes/10 ready/9:int
	startTime/2:Time succeeded.5:int terminating/11:int uncountedTerminatedPods.8:UncountedTerminatedPods
JobTemplateSpec metadata.1:ObjectMeta spec.2:JobSpec
PodFailurePolicy rules!.1:[]PodFailurePolicyRule
PodFailurePolicyOnExitCodesRequirement containerName/1 operator!/2 values!.3:[]int#
PodFailurePolicyOnPodConditionsPattern status/2 type!/1
PodFailurePolicyRule action!/1 onExitCodes.2:PodFailurePolicyOnExitCodesRequirement
	onPodConditions.3:[]PodFailurePolicyOnPodConditionsPattern
SuccessPolicy rules!.1:[]SuccessPolicyRule
SuccessPolicyRule succeededCount/2:int succeededIndexes/1
UncountedTerminatedPods failed.2:[]string# succeeded.1:[]string#
package io.k8s.api.coordination.v1
Lease apiVersion kind metadata.1:ObjectMeta spec.2:LeaseSpec
LeaseSpec acquireTime/3:MicroTime holderIdentity/1 leaseDurationSeconds/2:int leaseTransitions/5:int preferredHolder/7 renewTime/4:MicroTime
	strategy/6
package io.k8s.api.discovery.v1
Endpoint addresses!.1:[]string# conditions.2:EndpointConditions deprecatedTopology.5:{}string hints.8:EndpointHints hostname/3 nodeName/6
	targetRef.4:ObjectReference zone/7
EndpointConditions ready/1:bool serving/2:bool terminating/3:bool
EndpointHints forNodes.2:[]ForNode forZones.1:[]ForZone
EndpointPort* appProtocol/4 name/1 port/3:int protocol/2
EndpointSlice addressType!/4 apiVersion endpoints.2:[]Endpoint kind metadata.1:ObjectMeta ports.3:[]discovery.EndpointPort
ForNode name!/1
ForZone name!/1
package io.k8s.api.events.v1
Event action.6 apiVersion deprecatedCount.15:int deprecatedFirstTimestamp.13:Time deprecatedLastTimestamp.14:Time
	deprecatedSource.12:EventSource eventTime!.2:MicroTime kind metadata.1:ObjectMeta note.10 reason.7 regarding.8:ObjectReference
	related.9:ObjectReference reportingController.4 reportingInstance.5 series.3:events.EventSeries type.11
EventSeries count!/1:int lastObservedTime!.2:MicroTime
package io.k8s.api.networking.v1
HTTPIngressPath backend!.2:IngressBackend path.1 pathType!/3
HTTPIngressRuleValue paths!.1:[]HTTPIngressPath
IPBlock cidr!/1 except.2:[]string
Ingress apiVersion kind metadata.1:ObjectMeta spec.2:IngressSpec status.3:IngressStatus
IngressBackend resource.3:TypedLocalObjectReference service.4:IngressServiceBackend
IngressClass apiVersion kind metadata.1:ObjectMeta spec.2:IngressClassSpec
IngressClassParametersReference apiGroup/1 kind!/2 name!/3 namespace/5 scope/4
IngressClassSpec controller.1 parameters.2:IngressClassParametersReference
IngressLoadBalancerIngress hostname.2 ip.1 ports.4:[]IngressPortStatus
IngressLoadBalancerStatus ingress.1:[]IngressLoadBalancerIngress
IngressPortStatus error/3 port!/1:int protocol!/2
IngressRule host.1 http.2.1:HTTPIngressRuleValue
IngressServiceBackend name!/1 port.2:ServiceBackendPort
IngressSpec defaultBackend.1:IngressBackend ingressClassName/4 rules.3:[]IngressRule tls.2:[]IngressTLS
IngressStatus loadBalancer.1:IngressLoadBalancerStatus
IngressTLS hosts.1:[]string secretName.2
NetworkPolicy apiVersion kind metadata.1:ObjectMeta spec.2:NetworkPolicySpec
NetworkPolicyEgressRule ports.1:[]NetworkPolicyPort to.2:[]NetworkPolicyPeer
NetworkPolicyIngressRule from.2:[]NetworkPolicyPeer ports.1:[]NetworkPolicyPort
NetworkPolicyPeer ipBlock.3:IPBlock namespaceSelector.2:LabelSelector podSelector.1:LabelSelector
NetworkPolicyPort endPort/3:int port.2:IntOrString protocol/1
NetworkPolicySpec egress.3:[]NetworkPolicyEgressRule ingress.2:[]NetworkPolicyIngressRule podSelector.1:LabelSelector policyTypes.4:[]string
ServiceBackendPort* name.1 number.2:int
package io.k8s.api.node.v1
Overhead podFixed.1:{}Quantity
RuntimeClass apiVersion handler!/2 kind metadata.1:ObjectMeta overhead.3:Overhead scheduling.4:Scheduling
Scheduling nodeSelector.1:{}string* tolerations.2:[]Toleration
package io.k8s.api.policy.v1
Eviction apiVersion deleteOptions.2:DeleteOptions kind metadata.1:ObjectMeta
PodDisruptionBudget apiVersion kind metadata.1:ObjectMeta spec.2:PodDisruptionBudgetSpec status.3:PodDisruptionBudgetStatus
PodDisruptionBudgetSpec maxUnavailable.3:IntOrString minAvailable.1:IntOrString selector.2:LabelSelector% unhealthyPodEvictionPolicy/4
PodDisruptionBudgetStatus conditions.7:[]Condition#type@type currentHealthy/4:int desiredHealthy/5:int disruptedPods.2:{}Time
	disruptionsAllowed/3:int expectedPods/6:int observedGeneration.1:long
package io.k8s.api.rbac.v1
AggregationRule clusterRoleSelectors.1:[]LabelSelector
ClusterRole aggregationRule.3:AggregationRule apiVersion kind metadata.1:ObjectMeta rules.2:[]PolicyRule
ClusterRoleBinding apiVersion kind metadata.1:ObjectMeta roleRef!.3:RoleRef subjects.2:[]Subject
PolicyRule apiGroups.2:[]string nonResourceURLs.5:[]string resourceNames.4:[]string resources.3:[]string verbs!.1:[]string
Role apiVersion kind metadata.1:ObjectMeta rules.2:[]PolicyRule
RoleBinding apiVersion kind metadata.1:ObjectMeta roleRef!.3:RoleRef subjects.2:[]Subject
RoleRef* apiGroup/1 kind!/2 name!/3
Subject* apiGroup.2 kind!/1 name!/3 namespace.4
package io.k8s.api.scheduling.v1
PriorityClass apiVersion description.4 globalDefault.3:bool kind metadata.1:ObjectMeta preemptionPolicy/5 value/2:int
package io.k8s.api.storage.v1
StorageClass allowVolumeExpansion/6:bool allowedTopologies.8:[]TopologySelectorTerm apiVersion kind metadata.1:ObjectMeta
	mountOptions.5:[]string parameters.3:{}string provisioner!/2 reclaimPolicy/4 volumeBindingMode/7
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

// Named returns the type of a name: a full one, or a short one, with the group before it where two types have the same. It returns nil if there is
// none.
func Named(name string) *Type { return table()[name] }
