package structschema

import (
	"reflect"
	"slices"
	"strings"
)

// This file knows the types of k8s.io/api and k8s.io/apimachinery, which this module does not import:
// by their methods, and by their names. A judge in e2e/judges compares them with controller-gen.

// The packages of Kubernetes' types.
const (
	apiPackages  = "k8s.io/api/"
	metaPackages = "k8s.io/apimachinery/pkg/"
)

// kubernetesName returns the name of a type of Kubernetes with the end of its package, such as
// "core/v1.PodSpec" or "apis/meta/v1.ObjectMeta". It returns "" for all other types.
func kubernetesName(t reflect.Type) string {
	for _, packages := range []string{apiPackages, metaPackages} {
		if end, ok := strings.CutPrefix(t.PkgPath(), packages); ok {
			return end + "." + t.Name()
		}
	}
	return ""
}

// kubernetesType returns the schema of a type of Kubernetes that its fields do not show, nil for any
// other type.
func (b *builder) kubernetesType(t reflect.Type, pointer any) map[string]any {
	switch kubernetesName(t) {
	case "apis/meta/v1.Condition": // its limits are only in comments
		return ConditionSchema()
	case "apis/meta/v1.ObjectMeta":
		return objectMetaSchema(b.options.EmbeddedObjectMeta)
	case "apis/meta/v1.FieldsV1", "apis/meta/v1/unstructured.Unstructured", "runtime.RawExtension":
		return map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	}
	return kubernetesSchema(pointer)
}

// objectMetaSchema returns the schema of metadata inside of an object, as controller-gen makes it.
func objectMetaSchema(withFields bool) map[string]any {
	schema := map[string]any{"type": "object"}
	if withFields {
		text := map[string]any{"type": "string"}
		texts := map[string]any{"type": "object", "additionalProperties": text}
		schema["properties"] = map[string]any{
			"name": text, "namespace": text, "labels": texts, "annotations": texts,
			"finalizers": map[string]any{"type": "array", "items": text},
		}
	}
	return schema
}

// kubernetesSchema returns the schema of a type with the methods of a k8s.io/apimachinery type, or nil.
func kubernetesSchema(pointer any) map[string]any {
	typed, ok := pointer.(interface{ OpenAPISchemaType() []string })
	if !ok {
		return nil
	}
	format := ""
	if f, ok := pointer.(interface{ OpenAPISchemaFormat() string }); ok {
		format = f.OpenAPISchemaFormat()
	}
	types := typed.OpenAPISchemaType()
	if of, ok := pointer.(interface{ OpenAPIV3OneOfTypes() []string }); ok && len(of.OpenAPIV3OneOfTypes()) > 1 {
		if format != "int-or-string" {
			return QuantitySchema()
		}
		return eitherSchema()
	}
	if len(types) != 1 {
		return map[string]any{"x-kubernetes-preserve-unknown-fields": true}
	}
	schema := map[string]any{"type": types[0]}
	if format != "" {
		schema["format"] = format
	}
	return schema
}

// eitherSchema returns the schema of a number or a text.
func eitherSchema() map[string]any {
	either := []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
	return map[string]any{"x-kubernetes-int-or-string": true, "anyOf": either}
}

// QuantitySchema returns the schema of resource.Quantity. Its numbers have no limit, unlike those of
// a port.
func QuantitySchema() map[string]any {
	schema := eitherSchema()
	schema["pattern"] = QuantityPattern
	return schema
}

// ConditionSchema returns the schema of metav1.Condition.
func ConditionSchema() map[string]any {
	text := func(constraints map[string]any) map[string]any {
		constraints["type"] = "string"
		return constraints
	}
	return map[string]any{
		"type": "object", "required": []string{"lastTransitionTime", "message", "reason", "status", "type"},
		"properties": map[string]any{
			"lastTransitionTime": text(map[string]any{"format": "date-time"}),
			"message":            text(map[string]any{"maxLength": 32768}),
			"observedGeneration": map[string]any{"type": "integer", "format": "int64", "minimum": 0},
			"reason":             text(map[string]any{"minLength": 1, "maxLength": 1024, "pattern": `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`}),
			"status":             text(map[string]any{"enum": []string{"True", "False", "Unknown"}}),
			"type": text(map[string]any{
				"maxLength": 316, "pattern": `^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`,
			}),
		},
	}
}

// QuantityPattern is the pattern of quantities.
const QuantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`

// isAtomic reports whether a comment of a type of Kubernetes has the marker structType=atomic: an
// object of it is replaced as a whole.
func isAtomic(t reflect.Type) bool { return slices.Contains(atomicTypes, kubernetesName(t)) }

// addMarkers adds the tags for the markers in the comments of Kubernetes' types, which reflection
// does not show.
func (t *tags) addMarkers(of, field reflect.Type, name string) {
	outer := kubernetesName(of)
	if outer == "" {
		return
	}
	known, _ := readTags(markersOf(outer + "." + name)) // a test reads them all
	for tag, value := range known.values {
		if tag == "listKey" && !identifies(strings.Split(value, ","), field) {
			continue
		}
		t.values[tag] = value
	}
}

func markersOf(field string) string {
	for _, m := range markers {
		if m.field == field {
			return m.tags
		}
	}
	return ""
}

// identifies reports whether the items of a list always have the keys. In older versions of k8s.io/api,
// some keys are optional.
func identifies(keys []string, list reflect.Type) bool {
	fields, _ := fieldsOf(list.Elem(), 0, place{})
	return !slices.ContainsFunc(keys, func(key string) bool {
		return !slices.ContainsFunc(fields, func(f field) bool {
			return f.name == key && (!f.isOptional() || f.tags.has("default"))
		})
	})
}

// atomicTypes have the marker structType=atomic, or embed a struct that has it.
var atomicTypes = []string{
	"apis/meta/v1.LabelSelector",
	"apis/meta/v1.OwnerReference",
	"autoscaling/v1.CrossVersionObjectReference",
	"core/v1.ConfigMapEnvSource",
	"core/v1.ConfigMapKeySelector",
	"core/v1.ConfigMapProjection",
	"core/v1.ConfigMapVolumeSource",
	"core/v1.EvictionResponder",
	"core/v1.FileKeySelector",
	"core/v1.LocalObjectReference",
	"core/v1.NodeSelector",
	"core/v1.NodeSelectorTerm",
	"core/v1.ObjectFieldSelector",
	"core/v1.ObjectReference",
	"core/v1.ResourceFieldSelector",
	"core/v1.ScopeSelector",
	"core/v1.SecretEnvSource",
	"core/v1.SecretKeySelector",
	"core/v1.SecretProjection",
	"core/v1.SecretReference",
	"core/v1.TopologySelectorTerm",
	"core/v1.TypedLocalObjectReference",
	"networking/v1.ServiceBackendPort",
	"rbac/v1.RoleRef",
	"rbac/v1.Subject",
}

// markers are the tags for the markers of fields: keys and sets of lists, defaults, and optional
// fields whose tag json has no omitempty. Lists without keys are atomic anyway. A required field that
// has omitempty stays optional: the API server checks the pod or volume that is made of it. They are
// no map, whose initialization would be linked into programs without Define.
var markers = []struct{ field, tags string }{
	{"apps/v1.StatefulSetOrdinals.start", `required:"false"`},
	{"apps/v1.StatefulSetSpec.serviceName", `required:"false"`},
	{"batch/v1.JobSchedulingConfiguration.resourceClaims", `listKey:"name"`},
	{"batch/v1.PodFailurePolicyOnExitCodesRequirement.values", `listType:"set"`},
	{"batch/v1.PodFailurePolicyOnPodConditionsPattern.status", `required:"false"`},
	{"core/v1.AzureDiskVolumeSource.fsType", `default:"ext4"`},
	{"core/v1.AzureDiskVolumeSource.readOnly", `default:"false"`},
	{"core/v1.AzureFilePersistentVolumeSource.secretNamespace", `required:"false"`},
	{"core/v1.Container.env", `listKey:"name"`},
	{"core/v1.Container.ports", `listKey:"containerPort,protocol"`},
	{"core/v1.Container.volumeDevices", `listKey:"devicePath"`},
	{"core/v1.Container.volumeMounts", `listKey:"mountPath"`},
	{"core/v1.ContainerPort.protocol", `default:"TCP"`},
	{"core/v1.ContainerRestartRuleOnExitCodes.values", `listType:"set"`},
	{"core/v1.EphemeralContainerCommon.env", `listKey:"name"`},
	{"core/v1.EphemeralContainerCommon.ports", `listKey:"containerPort,protocol"`},
	{"core/v1.EphemeralContainerCommon.volumeDevices", `listKey:"devicePath"`},
	{"core/v1.EphemeralContainerCommon.volumeMounts", `listKey:"mountPath"`},
	{"core/v1.FileKeySelector.optional", `default:"false"`},
	{"core/v1.GRPCAction.service", `default:"" required:"false"`},
	{"core/v1.ISCSIPersistentVolumeSource.iscsiInterface", `default:"default"`},
	{"core/v1.ISCSIVolumeSource.iscsiInterface", `default:"default"`},
	{"core/v1.LocalObjectReference.name", `default:""`},
	{"core/v1.PersistentVolumeClaimStatus.allocatedResourceStatuses", `mapType:"granular"`},
	{"core/v1.PersistentVolumeClaimStatus.conditions", `listKey:"type"`},
	{"core/v1.PersistentVolumeSpec.claimRef", `mapType:"granular"`},
	{"core/v1.PodSpec.containers", `listKey:"name"`},
	{"core/v1.PodSpec.ephemeralContainers", `listKey:"name"`},
	{"core/v1.PodSpec.evictionResponders", `listKey:"name"`},
	{"core/v1.PodSpec.hostAliases", `listKey:"ip"`},
	{"core/v1.PodSpec.imagePullSecrets", `listKey:"name"`},
	{"core/v1.PodSpec.initContainers", `listKey:"name"`},
	{"core/v1.PodSpec.nodeSelector", `mapType:"atomic"`},
	{"core/v1.PodSpec.resourceClaims", `listKey:"name"`},
	{"core/v1.PodSpec.schedulingGates", `listKey:"name"`},
	{"core/v1.PodSpec.topologySpreadConstraints", `listKey:"topologyKey,whenUnsatisfiable"`},
	{"core/v1.PodSpec.volumes", `listKey:"name"`},
	{"core/v1.ProjectedVolumeSource.sources", `required:"false"`},
	{"core/v1.RBDPersistentVolumeSource.keyring", `default:"/etc/ceph/keyring"`},
	{"core/v1.RBDPersistentVolumeSource.pool", `default:"rbd"`},
	{"core/v1.RBDPersistentVolumeSource.user", `default:"admin"`},
	{"core/v1.RBDVolumeSource.keyring", `default:"/etc/ceph/keyring"`},
	{"core/v1.RBDVolumeSource.pool", `default:"rbd"`},
	{"core/v1.RBDVolumeSource.user", `default:"admin"`},
	{"core/v1.ReplicationControllerSpec.minReadySeconds", `default:"0"`},
	{"core/v1.ReplicationControllerSpec.replicas", `default:"1"`},
	{"core/v1.ReplicationControllerSpec.selector", `mapType:"atomic"`},
	{"core/v1.ResourceRequirements.claims", `listKey:"name"`},
	{"core/v1.ScaleIOPersistentVolumeSource.fsType", `default:"xfs"`},
	{"core/v1.ScaleIOPersistentVolumeSource.storageMode", `default:"ThinProvisioned"`},
	{"core/v1.ScaleIOVolumeSource.fsType", `default:"xfs"`},
	{"core/v1.ScaleIOVolumeSource.storageMode", `default:"ThinProvisioned"`},
	{"core/v1.ServicePort.protocol", `default:"TCP"`},
	{"core/v1.ServiceSpec.ports", `listKey:"port,protocol"`},
	{"core/v1.ServiceSpec.selector", `mapType:"atomic"`},
	{"core/v1.TypedLocalObjectReference.apiGroup", `required:"false"`},
	{"core/v1.TypedObjectReference.apiGroup", `required:"false"`},
	{"core/v1.VolumeMount.bindMountOptions", `listType:"set"`},
	{"networking/v1.IngressClassParametersReference.scope", `required:"false"`},
	{"networking/v1.NetworkPolicySpec.podSelector", `required:"false"`},
	{"rbac/v1.RoleRef.apiGroup", `required:"false"`},
	{"storage/v1.CSIDriverSpec.volumeLifecycleModes", `listType:"set"`},
}
