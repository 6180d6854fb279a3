package discovery

import (
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

// Builtin is a built-in kind of Kubernetes.
type Builtin struct {
	Resource

	// Marks are letters for what a server does. g: objects have a generation. 1: their generation never changes. 2: they are stored in version v2. p: they are
	// not stored. l: they can only be listed. r: a deletion returns the object. o: a deletion orphans the dependents. u: an update creates a missing object.
	// v: an update needs a resource version.
	Marks string
}

// builtins are the built-in kinds, one in a line: group/version, plural, kind, scope, subresources, short names, categories, and the marks of [Builtin].
const builtins = `
v1 bindings Binding N - - - p
v1 componentstatuses ComponentStatus C - cs - l
v1 configmaps ConfigMap N - cm - -
v1 endpoints Endpoints N - ep - u
v1 events Event N - ev - u
v1 limitranges LimitRange N - limits - u
v1 namespaces Namespace C finalize,status ns - r
v1 nodes Node C status no - -
v1 persistentvolumeclaims PersistentVolumeClaim N status pvc - r
v1 persistentvolumes PersistentVolume C status pv - r
v1 pods Pod N binding,eviction,log,status po all gr
v1 podtemplates PodTemplate N - - - gr
v1 replicationcontrollers ReplicationController N scale,status rc all go
v1 resourcequotas ResourceQuota N status quota - r
v1 secrets Secret N - - - -
v1 serviceaccounts ServiceAccount N token sa - r
v1 services Service N status svc all ru
admissionregistration.k8s.io/v1 mutatingadmissionpolicies MutatingAdmissionPolicy C - - api-extensions gv
admissionregistration.k8s.io/v1 mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding C - - api-extensions gv
admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration C - - api-extensions gv
admissionregistration.k8s.io/v1 validatingadmissionpolicies ValidatingAdmissionPolicy C status - api-extensions gv
admissionregistration.k8s.io/v1 validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding C - - api-extensions gv
admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration C - - api-extensions gv
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition C status crd,crds api-extensions grv
apiregistration.k8s.io/v1 apiservices APIService C status - api-extensions v
apps/v1 controllerrevisions ControllerRevision N - - - -
apps/v1 daemonsets DaemonSet N status ds all g
apps/v1 deployments Deployment N scale,status deploy all g
apps/v1 replicasets ReplicaSet N scale,status rs all g
apps/v1 statefulsets StatefulSet N scale,status sts all g
authentication.k8s.io/v1 selfsubjectreviews SelfSubjectReview C - - - p
authentication.k8s.io/v1 tokenreviews TokenReview C - - - p
authorization.k8s.io/v1 localsubjectaccessreviews LocalSubjectAccessReview N - - - p
authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview C - - - p
authorization.k8s.io/v1 selfsubjectrulesreviews SelfSubjectRulesReview C - - - p
authorization.k8s.io/v1 subjectaccessreviews SubjectAccessReview C - - - p
autoscaling/v1 horizontalpodautoscalers HorizontalPodAutoscaler N status hpa all 2
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler N status hpa all -
batch/v1 cronjobs CronJob N status cj all g
batch/v1 jobs Job N status - all go
certificates.k8s.io/v1 certificatesigningrequests CertificateSigningRequest C approval,status csr - -
coordination.k8s.io/v1 leases Lease N - - - uv
discovery.k8s.io/v1 endpointslices EndpointSlice N - - - g
events.k8s.io/v1 events Event N - ev - u
flowcontrol.apiserver.k8s.io/v1 flowschemas FlowSchema C status - - g
flowcontrol.apiserver.k8s.io/v1 prioritylevelconfigurations PriorityLevelConfiguration C status - - g
networking.k8s.io/v1 ingressclasses IngressClass C - - - g
networking.k8s.io/v1 ingresses Ingress N status ing - g
networking.k8s.io/v1 ipaddresses IPAddress C - ip - -
networking.k8s.io/v1 networkpolicies NetworkPolicy N - netpol - g
networking.k8s.io/v1 servicecidrs ServiceCIDR C status - - -
node.k8s.io/v1 runtimeclasses RuntimeClass C - - - uv
policy/v1 poddisruptionbudgets PodDisruptionBudget N status pdb - gv
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding C - - - u
rbac.authorization.k8s.io/v1 clusterroles ClusterRole C - - - u
rbac.authorization.k8s.io/v1 rolebindings RoleBinding N - - - u
rbac.authorization.k8s.io/v1 roles Role N - - - u
resource.k8s.io/v1 deviceclasses DeviceClass C - - - gr
resource.k8s.io/v1 resourceclaims ResourceClaim N status - - r
resource.k8s.io/v1 resourceclaimtemplates ResourceClaimTemplate N - - - r
resource.k8s.io/v1 resourceslices ResourceSlice C - - - gr
scheduling.k8s.io/v1 priorityclasses PriorityClass C - pc - 1
storage.k8s.io/v1 csidrivers CSIDriver C - - - rv
storage.k8s.io/v1 csinodes CSINode C - - - rv
storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity N - - - v
storage.k8s.io/v1 storageclasses StorageClass C - sc - r
storage.k8s.io/v1 volumeattachments VolumeAttachment C status - - rv
storage.k8s.io/v1 volumeattributesclasses VolumeAttributesClass C - vac - r
`

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// Builtins returns the built-in kinds of Kubernetes.
func Builtins() (all []Builtin) {
	for line := range strings.Lines(strings.TrimSpace(builtins)) {
		f := strings.Fields(line)
		group, version, ok := strings.Cut(f[0], "/")
		if !ok {
			group, version = "", f[0]
		}
		all = append(all, Builtin{Resource{
			Group: group, Version: version, Plural: f[1], Kind: f[2], Singular: strings.ToLower(f[2]), Namespaced: f[3] == "N",
			Subresources: wordsOf(f[4]), ShortNames: wordsOf(f[5]), Categories: wordsOf(f[6]), Verbs: verbsOf(f[1], f[7]), Preferred: !strings.Contains(f[7], "2"),
		}, f[7]})
	}
	return all
}

// wordsOf returns the words of a column.
func wordsOf(column string) []string {
	if column == "-" {
		return nil
	}
	return strings.Split(column, ",")
}

// verbsOf returns the verbs of a built-in kind with these marks.
func verbsOf(plural, marks string) []string {
	switch {
	case strings.Contains(marks, "p"):
		return []string{"create"}
	case strings.Contains(marks, "l"):
		return []string{"get", "list"}
	case plural == "namespaces":
		return slices.DeleteFunc(slices.Clone(allVerbs), func(v string) bool { return v == "deletecollection" })
	}
	return allVerbs
}

// Defined returns the resources of a definition: one for each served version, of which the highest is preferred.
func Defined(definition map[string]any) (all []Resource) {
	spec := rawjson.AsMap(definition["spec"])
	names := rawjson.AsMap(spec["names"])
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version := rawjson.AsMap(v)
		if version["served"] != true {
			continue
		}
		r := Resource{
			Group: text(spec, "group"), Version: text(version, "name"), Plural: text(names, "plural"), Kind: text(names, "kind"), Singular: text(names, "singular"),
			ShortNames: texts(names["shortNames"]), Categories: texts(names["categories"]), Verbs: allVerbs, Namespaced: spec["scope"] == "Namespaced",
		}
		if r.Singular == "" {
			r.Singular = strings.ToLower(r.Kind)
		}
		subresources := rawjson.AsMap(version["subresources"])
		for _, name := range []string{"status", "scale"} {
			if rawjson.AsMap(subresources[name]) != nil {
				r.Subresources = append(r.Subresources, name)
			}
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b Resource) int { return validation.CompareVersions(b.Version, a.Version) })
	if len(all) > 0 {
		all[0].Preferred = true
	}
	return all
}

func text(object map[string]any, key string) string {
	s, _ := object[key].(string)
	return s
}

func texts(list any) (all []string) {
	items, _ := list.([]any)
	for _, item := range items {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}
