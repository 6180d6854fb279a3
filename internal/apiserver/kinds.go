package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/openapi"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/table"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

// apiResource is a resource as discovery describes it.
type apiResource struct {
	Group, Version, Kind, Plural, Singular      string
	ShortNames, Categories, Subresources, Verbs []string
	Namespaced                                  bool
	Preferred                                   bool // whether the version is the preferred one of its group
}

// APIVersion returns "group/version", or the version alone in the core group.
func (r apiResource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// kindInfo is one kind in one version.
type kindInfo struct {
	resource  apiResource
	listKind  string
	crd       map[string]any // the CRD, nil for built-in kinds
	schema    *schema.Schema // of the whole object, nil if there is none
	columns   []table.Column // of tables, after the name; nil for the default
	hasStatus bool           // whether the status is a subresource
	scale     map[string]any // the paths of the scale subresource, nil if there is none

	storage         string // the API version of stored objects, "" for that of the kind
	generation      bool   // whether objects have a generation
	returnsGone     bool   // whether the response to a deletion is the object, and not a status
	postedOnly      bool   // whether objects are returned and never stored
	createsOnUpdate bool   // whether a PUT creates objects
	needsVersion    bool   // whether an update needs the resource version

	// Of custom resources:
	stored      *kindInfo                 // the kind in the version in which objects are stored
	schemas     map[string]*schema.Schema // of all versions, by API version
	conversion  *conversion               // nil if only the schemas of the versions differ
	versions    int                       // the number of served versions
	since       uint64                    // the version of the store since which all objects were stored by this schema
	selectable  []string                  // the paths of the selectable fields
	deprecation string                    // the warning that the version is deprecated, "" if it is not
	terminating bool                      // whether the CRD is marked for deletion
	began       uint64                    // the version of the store since which it is served in this form; watches cannot begin earlier
	ended       chan struct{}             // closed when the kind is no longer served in this form, which ends its watches

	orphansDependents bool // whether deletions orphan the dependents by default
}

// collection returns the name of the kind in the store. The events of both groups are the same objects.
func (k *kindInfo) collection() string {
	if k.isNewEvents() {
		return "events."
	}
	return k.resource.Plural + "." + k.resource.Group
}

// inStorage returns the kind in the version in which its objects are stored. The server makes its own changes in this version, so that they need no webhook.
func (k *kindInfo) inStorage() *kindInfo {
	if k.stored != nil {
		return k.stored
	}
	return k
}

// isNamespaces reports whether the kind is Namespace.
func (k *kindInfo) isNamespaces() bool {
	return k.resource.Plural == "namespaces" && k.resource.Group == ""
}

// qualified returns the kind for messages: "Pod" or "KopfExample.kopf.dev".
func (k *kindInfo) qualified() string {
	if k.resource.Group == "" {
		return k.resource.Kind
	}
	return k.resource.Kind + "." + k.resource.Group
}

// groupResource returns the resource for messages: "pods" or "kopfexamples.kopf.dev".
func (k *kindInfo) groupResource() string {
	if k.resource.Group == "" {
		return k.resource.Plural
	}
	return k.resource.Plural + "." + k.resource.Group
}

// builtins are the built-in kinds, one in a line: group/version, plural, kind, scope, subresources, short names, categories, and marks.
// g: objects have a generation. 1: their generation never changes. 2: they are stored in version v2. p: they are not stored. l: they can only be listed.
// r: a deletion returns the object. o: a deletion orphans the dependents. u: an update creates a missing object. v: an update needs a resource version.
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

// customVerbs are the verbs of custom resources, in the order of discovery.
var customVerbs = []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}

func builtinKinds() []*kindInfo {
	lazyBuiltinKinds.once.Do(func() { lazyBuiltinKinds.value = makeBuiltinKinds() })
	return lazyBuiltinKinds.value
}

// lazyBuiltinKinds is made on first use, by a function, because an initial value would take memory in every operator.
var lazyBuiltinKinds struct {
	once  sync.Once
	value []*kindInfo
}

func makeBuiltinKinds() []*kindInfo {
	var all []*kindInfo
	for _, line := range strings.Split(strings.TrimSpace(builtins), "\n") {
		f := strings.Fields(line)
		list := func(i int) []string {
			if f[i] == "-" {
				return nil
			}
			return strings.Split(f[i], ",")
		}
		group, version, ok := strings.Cut(f[0], "/")
		if !ok {
			group, version = "", f[0]
		}
		k := &kindInfo{
			resource: apiResource{
				Group: group, Version: version, Plural: f[1], Kind: f[2], Singular: strings.ToLower(f[2]), Namespaced: f[3] == "N",
				Subresources: list(4), ShortNames: list(5), Categories: list(6), Verbs: allVerbs, Preferred: true,
			},
			listKind:        f[2] + "List",
			generation:      strings.ContainsAny(f[7], "g1"),
			returnsGone:     strings.Contains(f[7], "r"),
			postedOnly:      strings.Contains(f[7], "p"),
			createsOnUpdate: strings.Contains(f[7], "u"),

			needsVersion:      strings.Contains(f[7], "v"),
			orphansDependents: strings.Contains(f[7], "o"),
		}
		if strings.Contains(f[7], "2") {
			k.storage, k.resource.Preferred = group+"/v2", false
		}
		if k.postedOnly {
			k.resource.Verbs = []string{"create"}
		}
		if strings.Contains(f[7], "l") {
			k.resource.Verbs = []string{"get", "list"}
		}
		if k.resource.Plural == "componentstatuses" {
			k.deprecation = "v1 ComponentStatus is deprecated in v1.19+"
		}
		if k.resource.Plural == "namespaces" {
			k.resource.Verbs = slices.DeleteFunc(slices.Clone(allVerbs), func(v string) bool { return v == "deletecollection" })
		}
		if k.resource.Plural == "endpoints" {
			k.deprecation = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
		}
		k.hasStatus = slices.Contains(k.resource.Subresources, "status")
		if slices.Contains(k.resource.Subresources, "scale") {
			k.scale = map[string]any{
				"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".spec.selector",
			}
		}
		all = append(all, k)
	}
	return all
}

// kindsOf returns the kind of a CRD in all its served versions, the preferred one first, and in the version in which objects are stored. A CRD
// without accepted names serves nothing.
func kindsOf(crd map[string]any) (served []*kindInfo, stored *kindInfo, err error) {
	spec, status := rawjson.AsMap(crd["spec"]), rawjson.AsMap(crd["status"])
	if !isTrue(status, "NamesAccepted") && !isTrue(status, "Established") {
		return nil, nil, nil
	}
	names := rawjson.AsMap(status["acceptedNames"])
	versions, _ := spec["versions"].([]any)
	schemas := make(map[string]*schema.Schema)
	webhook := conversionOf(crd)
	for _, v := range versions {
		version := rawjson.AsMap(v)
		k, err := kindOf(crd, version)
		if err != nil {
			return nil, nil, err
		}
		k.resource.Group, k.resource.Version = unstructured.Text(spec, "group"), unstructured.Text(version, "name")
		k.resource.Plural, k.resource.Kind, k.resource.Singular = unstructured.Text(names, "plural"), unstructured.Text(names, "kind"), unstructured.Text(names, "singular")
		k.resource.ShortNames, k.resource.Categories = unstructured.Texts(names["shortNames"]), unstructured.Texts(names["categories"])
		k.resource.Namespaced = unstructured.Text(spec, "scope") == "Namespaced"
		k.listKind = unstructured.Text(names, "listKind")
		k.deprecation = deprecationOf(spec, version)
		k.schemas, k.conversion, k.terminating = schemas, webhook, isTrue(status, "Terminating")
		k.ended = make(chan struct{})
		schemas[k.apiVersion()] = k.schema
		if version["storage"] == true {
			stored = k
		}
		if version["served"] == true {
			served = append(served, k)
		}
	}
	if stored == nil {
		return nil, nil, errors.New("no version is stored")
	}
	slices.SortStableFunc(served, func(a, b *kindInfo) int { return compareVersions(b.resource.Version, a.resource.Version) })
	for i, k := range served {
		k.stored, k.storage, k.resource.Preferred, k.versions = stored, stored.apiVersion(), i == 0, len(served)
	}
	stored.stored, stored.storage = stored, stored.apiVersion() // it need not be served
	return served, stored, nil
}

// deprecationOf returns the warning that a version is deprecated, "" if it is not.
func deprecationOf(spec, version map[string]any) string {
	if version["deprecated"] != true {
		return ""
	}
	if text, ok := version["deprecationWarning"].(string); ok {
		return text
	}
	group, kind := unstructured.Text(spec, "group"), unstructured.Text(rawjson.AsMap(spec["names"]), "kind")
	var others []string
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		if other := rawjson.AsMap(v); other["served"] == true && other["deprecated"] != true {
			others = append(others, unstructured.Text(other, "name"))
		}
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", group, version["name"], kind)
	if len(others) > 0 {
		text += fmt.Sprintf("; use %s/%s %s", group, slices.MinFunc(others, func(a, b string) int { return compareVersions(b, a) }), kind)
	}
	return text
}

func kindOf(crd, version map[string]any) (*kindInfo, error) {
	k := &kindInfo{crd: crd, generation: true, needsVersion: true, columns: table.DefinedColumns(version)}
	k.resource.Verbs = customVerbs
	fields, _ := version["selectableFields"].([]any)
	for _, f := range fields {
		k.selectable = append(k.selectable, strings.TrimPrefix(unstructured.Text(rawjson.AsMap(f), "jsonPath"), "."))
	}
	subresources := rawjson.AsMap(version["subresources"])
	if rawjson.AsMap(subresources["status"]) != nil {
		k.hasStatus = true
		k.resource.Subresources = append(k.resource.Subresources, "status")
	}
	if scale := rawjson.AsMap(subresources["scale"]); scale != nil {
		k.scale = scale
		k.resource.Subresources = append(k.resource.Subresources, "scale")
	}
	var err error
	if open := rawjson.AsMap(rawjson.AsMap(version["schema"])["openAPIV3Schema"]); open != nil {
		if k.schema, err = schema.Compile(open); err != nil {
			return nil, fmt.Errorf("the schema of version %q: %w", version["name"], err)
		}
	}
	return k, nil
}

// apiVersion returns the group and the version of the kind.
func (k *kindInfo) apiVersion() string { return k.resource.APIVersion() }

// compareVersions orders versions as Kubernetes does: v2, v1, v2beta1, v1alpha1, and then all others by name. See
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
func compareVersions(a, b string) int {
	x, y := versionRank(a), versionRank(b)
	if c := slices.Compare(x[:], y[:]); c != 0 {
		return c
	}
	return -strings.Compare(a, b)
}

func versionRank(v string) (rank [3]int) {
	if !validation.IsVersion(v) {
		return rank
	}
	rest := v[1:]
	for i, word := range []string{"alpha", "beta"} {
		if major, minor, ok := strings.Cut(rest, word); ok {
			return [3]int{i + 1, number(major), number(minor)}
		}
	}
	return [3]int{3, number(rest), 0}
}

func number(text string) int {
	n := 0
	for _, c := range text {
		n = min(n*10+int(c-'0'), 1<<30)
	}
	return n
}

// tableColumns returns the columns of tables of the kind.
func (k *kindInfo) tableColumns() []table.Column {
	return table.Columns(k.resource.Plural, k.crd != nil, k.columns)
}

// openAPIKinds returns kinds for the OpenAPI documents.
func openAPIKinds(kinds []*kindInfo) []*openapi.Kind {
	all := make([]*openapi.Kind, len(kinds))
	for i, k := range kinds {
		r := k.resource
		all[i] = &openapi.Kind{
			Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, ListKind: k.listKind, Namespaced: r.Namespaced,
			Subresources: r.Subresources, Verbs: r.Verbs, Custom: k.crd != nil, PostedOnly: k.postedOnly, ReturnsObject: k.returnsGone,
		}
		if k.schema != nil {
			all[i].Schema = k.schema.Source
		}
	}
	return all
}
