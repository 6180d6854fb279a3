package apiserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/defaults"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// fillDefaults fills in the defaults of a built-in kind, as kube-apiserver does when it decodes an object.
func (k *kindInfo) fillDefaults(object map[string]any) {
	defaults.Fill(k.goType(), object)
	if k.isDefinitions() {
		defaultDefinition(object)
	}
	if spec := rawjson.AsMap(object["spec"]); k.isOldAutoscaler() && spec != nil && spec["targetCPUUtilizationPercentage"] == nil {
		if annotated, _ := rawjson.Lookup(object, "metadata", "annotations", metricsAnnotation); annotated == nil {
			spec["targetCPUUtilizationPercentage"] = defaultUtilization
		}
	}
	if k.is("daemonsets", "apps") {
		if annotations := mapAt(mapAt(object, "metadata"), "annotations"); annotations[templateGeneration] == nil {
			annotations[templateGeneration] = "0"
		}
	}
}

// is reports whether the kind is the built-in kind of a resource.
func (k *kindInfo) is(plural, group string) bool {
	return k.crd == nil && k.resource.Plural == plural && k.resource.Group == group
}

// templateGeneration is the annotation that counts the changes of a daemon set's template.
const templateGeneration = "deprecated.daemonset.template.generation"

// settle sets the fields that the server controls in an object of a built-in kind, after all changes by clients and webhooks. The live object is nil
// for creations.
func (a *apiRequest) settle(live, object map[string]any) error {
	if a.kind.crd != nil {
		return nil
	}
	if live == nil {
		defaults.Initialize(a.kind.goType(), object)
	}
	switch a.kind.groupResource() {
	case "jobs.batch":
		if live == nil {
			nameJob(object)
		}
	case "daemonsets.apps":
		countTemplate(live, object)
	case "endpointslices.discovery.k8s.io":
		if live == nil {
			dropTopology(object)
		}
	case "persistentvolumeclaims":
		if live == nil {
			dropSource(rawjson.AsMap(object["spec"]))
		}
		copySource(rawjson.AsMap(object["spec"]))
	case "persistentvolumes":
		a.datePhase(live, object)
	case "pods":
		if live == nil {
			defaults.MergeLabelKeys(object)
			a.warnings = append(a.warnings, defaults.CopyAppArmor(object)...)
		}
	case "services":
		if a.subresource == "" {
			return a.settleService(live, object)
		}
	}
	return nil
}

// nameJob labels the pods of a new job with its name and uid, and selects them.
func nameJob(object map[string]any) {
	meta, spec := rawjson.AsMap(object["metadata"]), rawjson.AsMap(object["spec"])
	template := rawjson.AsMap(spec["template"])
	if template == nil || spec["manualSelector"] == true {
		return
	}
	labels := mapAt(mapAt(template, "metadata"), "labels")
	same := rawjson.IsEmpty(meta["labels"]) || rawjson.Equal(labels, meta["labels"]) // then they are one map in kube-apiserver
	for key, value := range map[string]any{
		"job-name": meta["name"], "batch.kubernetes.io/job-name": meta["name"],
		"controller-uid": meta["uid"], "batch.kubernetes.io/controller-uid": meta["uid"],
	} {
		if labels[key] == nil {
			labels[key] = value
		}
	}
	if same {
		meta["labels"] = rawjson.Clone(labels)
	}
	if match := mapAt(mapAt(spec, "selector"), "matchLabels"); match["batch.kubernetes.io/controller-uid"] == nil {
		match["batch.kubernetes.io/controller-uid"] = meta["uid"]
	}
}

// forgetServer removes a field that another server has set in a manifest and this server sets itself: the uid of a job in its labels.
func (k *kindInfo) forgetServer(object map[string]any) {
	spec := rawjson.AsMap(object["spec"])
	if !k.is("jobs", "batch") || spec["manualSelector"] == true {
		return
	}
	delete(spec, "selector")
	for _, labeled := range []any{object, spec["template"]} {
		labels, _ := rawjson.Lookup(labeled, "metadata", "labels")
		for _, key := range []string{"controller-uid", "batch.kubernetes.io/controller-uid"} {
			delete(rawjson.AsMap(labels), key)
		}
	}
}

// keepServer keeps the fields that this server has set in an object that a manifest replaces: the address of a service, and the labels of a job.
func (k *kindInfo) keepServer(live, object map[string]any) {
	switch {
	case k.is("services", ""):
		delete(rawjson.AsMap(object["spec"]), "clusterIP")
		delete(rawjson.AsMap(object["spec"]), "clusterIPs")
	case k.is("jobs", "batch"):
		mapAt(object, "metadata")["uid"] = rawjson.AsMap(live["metadata"])["uid"]
		nameJob(object)
	}
}

// countTemplate counts the changes of the template of a daemon set in an annotation.
func countTemplate(live, object map[string]any) {
	annotations := mapAt(mapAt(object, "metadata"), "annotations")
	if live == nil {
		if n, err := strconv.Atoi(unstructured.Word(annotations[templateGeneration])); err != nil || n < 1 {
			annotations[templateGeneration] = "1"
		}
		return
	}
	before, _ := rawjson.Lookup(live, "metadata", "annotations", templateGeneration)
	n, _ := strconv.Atoi(unstructured.Word(before)) // 0 if it is none
	old, _ := rawjson.Lookup(live, "spec", "template")
	template, _ := rawjson.Lookup(object, "spec", "template")
	if !rawjson.Equal(old, template) {
		n++
	}
	annotations[templateGeneration] = strconv.Itoa(n)
}

// dropTopology drops a field that new slices cannot have in this version.
func dropTopology(slice map[string]any) {
	for _, endpoint := range objectsAt(slice, "endpoints") {
		delete(endpoint, "deprecatedTopology")
	}
}

// dropSource drops a source of a new claim that is neither a claim nor a snapshot. Only the newer field can refer to other kinds.
func dropSource(spec map[string]any) {
	source := rawjson.AsMap(spec["dataSource"])
	group, kind := unstructured.Text(source, "apiGroup"), unstructured.Text(source, "kind")
	if source != nil && !(group == "" && kind == "PersistentVolumeClaim") && !(group == "snapshot.storage.k8s.io" && kind == "VolumeSnapshot") {
		delete(spec, "dataSource")
	}
}

// copySource copies the source of a claim from the older of the two fields to the newer one, or the other way around.
func copySource(spec map[string]any) {
	older, newer := rawjson.AsMap(spec["dataSource"]), rawjson.AsMap(spec["dataSourceRef"])
	source, target := older, "dataSourceRef"
	if older == nil && unstructured.Text(newer, "namespace") == "" {
		source, target = newer, "dataSource"
	}
	if source == nil || older != nil && newer != nil {
		return
	}
	referred := make(map[string]any)
	for _, key := range []string{"apiGroup", "kind", "name"} {
		if v, ok := source[key]; ok {
			referred[key] = v
		}
	}
	spec[target] = referred
}

// datePhase sets the time at which the phase of a volume has changed.
func (a *apiRequest) datePhase(live, object map[string]any) {
	if live == nil || a.subresource != "status" {
		return
	}
	old, status := rawjson.AsMap(live["status"]), mapAt(object, "status")
	const key = "lastPhaseTransitionTime"
	switch same := old["phase"] == status["phase"]; {
	case same && status[key] == nil && old[key] != nil:
		status[key] = old[key]
	case !same && (status[key] == nil || status[key] == old[key]):
		status[key] = defaults.Now()
	}
}

// admitBuiltin does the work of the admission plugins of kube-apiserver that are always enabled. They run before the webhooks.
func (a *apiRequest) admitBuiltin(live, object map[string]any) error {
	if a.kind.crd != nil || a.subresource != "" {
		return nil
	}
	spec := rawjson.AsMap(object["spec"])
	switch a.kind.groupResource() {
	case "pods":
		return a.admitPod(live, object)
	case "nodes":
		if live == nil {
			defaults.TaintNotReady(mapAt(object, "spec"))
		}
	case "persistentvolumeclaims":
		if live != nil {
			return nil
		}
		addFinalizer(object, claimFinalizer)
		if spec != nil && spec["storageClassName"] == nil && !marked(object, "volume.beta.kubernetes.io/storage-class") {
			if name := a.server.defaultClass("storageclasses.storage.k8s.io", "storageclass.kubernetes.io/is-default-class"); name != "" {
				spec["storageClassName"] = name
			}
		}
	case "persistentvolumes":
		if live == nil {
			addFinalizer(object, volumeFinalizer)
		}
	case "volumeattributesclasses.storage.k8s.io":
		if live == nil {
			addFinalizer(object, classFinalizer)
		}
	case "ingresses.networking.k8s.io":
		if live == nil && spec != nil && spec["ingressClassName"] == nil && !marked(object, "kubernetes.io/ingress.class") {
			if name := a.server.defaultClass("ingressclasses.networking.k8s.io", "ingressclass.kubernetes.io/is-default-class"); name != "" {
				spec["ingressClassName"] = name
			}
		}
	}
	return nil
}

// marked reports whether an object has an annotation.
func marked(object map[string]any, annotation string) bool {
	v, _ := rawjson.Lookup(object, "metadata", "annotations", annotation)
	return v != nil
}

// defaultClass returns the name of the newest object of a collection with an annotation that makes it the default, "" if there is none.
func (s *Server) defaultClass(collection, annotation string) string {
	items, _ := s.db.List(collection)
	name, newest := "", ""
	for _, item := range items {
		created := rawjson.StringAt(item.Raw, "metadata", "creationTimestamp")
		if rawjson.StringAt(item.Raw, "metadata", "annotations", annotation) == "true" && created > newest {
			name, newest = item.Name, created
		}
	}
	return name
}

// addFinalizer adds a finalizer to an object, unless it has it.
func addFinalizer(object map[string]any, finalizer string) {
	meta := mapAt(object, "metadata")
	finalizers, _ := meta["finalizers"].([]any)
	if !slices.Contains(finalizers, any(finalizer)) {
		meta["finalizers"] = append(finalizers, finalizer)
	}
}

// admitPod sets the priority, the tolerations, and the service account of a pod.
func (a *apiRequest) admitPod(live, object map[string]any) error {
	spec := rawjson.AsMap(object["spec"])
	if spec == nil {
		return nil
	}
	if live != nil {
		old := rawjson.AsMap(live["spec"])
		for _, key := range []string{"priority", "preemptionPolicy"} {
			if spec[key] == nil && old[key] != nil {
				spec[key] = old[key]
			}
		}
		defaults.Tolerate(spec)
		return nil
	}
	if a.server.collector != nil {
		a.serveAs(object)
	}
	defaults.Tolerate(spec)
	return a.prioritize(spec)
}

// serveAs sets the service account of a new pod, with a volume for its token.
func (a *apiRequest) serveAs(object map[string]any) {
	spec := rawjson.AsMap(object["spec"])
	if marked(object, "kubernetes.io/config.mirror") {
		return
	}
	name := unstructured.Text(spec, "serviceAccountName")
	if name == "" {
		name = "default"
		spec["serviceAccountName"], spec["serviceAccount"] = name, name
	}
	account := map[string]any{}
	if item := a.server.db.Get("serviceaccounts.", a.namespace+"/"+name); item != nil {
		account = item.Object()
	}
	mounts := spec["automountServiceAccountToken"]
	if mounts == nil {
		mounts = account["automountServiceAccountToken"]
	}
	if mounts != false {
		defaults.MountToken(spec, "kube-api-access-"+a.server.suffix())
	}
	if secrets, _ := account["imagePullSecrets"].([]any); len(secrets) > 0 && rawjson.IsEmpty(spec["imagePullSecrets"]) {
		spec["imagePullSecrets"] = secrets
	}
}

// prioritize sets the priority of a new pod from its priority class, or from the default one.
func (a *apiRequest) prioritize(spec map[string]any) error {
	forbidden := func(format string, args ...any) error {
		return apierrors.New(403, "Forbidden", fmt.Sprintf("pods %q is forbidden: ", a.name)+fmt.Sprintf(format, args...), a.kind.about(a.name))
	}
	var class map[string]any
	name := unstructured.Text(spec, "priorityClassName")
	if name != "" {
		item := a.server.db.Get("priorityclasses.scheduling.k8s.io", name)
		if item == nil {
			return forbidden("no PriorityClass with name %s was found", name)
		}
		class = item.Object()
	} else if class = a.server.defaultPriority(); class != nil {
		spec["priorityClassName"] = rawjson.AsMap(class["metadata"])["name"]
	}
	priority, ok := class["value"].(json.Number)
	if !ok {
		priority = "0"
	}
	policy := unstructured.Text(class, "preemptionPolicy")
	if class == nil {
		policy = "PreemptLowerPriority"
	}
	if own := spec["priority"]; own != nil && !rawjson.Equal(own, priority) {
		return forbidden("the integer value of priority (%v) must not be provided in pod spec; priority admission controller computed %v from the given PriorityClass name", own, priority)
	}
	spec["priority"] = priority
	if own := unstructured.Text(spec, "preemptionPolicy"); own != "" && policy != "" && own != policy {
		return forbidden("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", own, policy)
	}
	if policy != "" {
		spec["preemptionPolicy"] = policy
	}
	return nil
}

// defaultPriority returns the lowest of the global default priority classes, nil if there is none.
func (s *Server) defaultPriority() (class map[string]any) {
	items, _ := s.db.List("priorityclasses.scheduling.k8s.io")
	least := int64(0)
	for _, item := range items {
		view := unstructured.View(item.Raw)
		if value := view.Int("value"); view.Get("globalDefault") == true && (class == nil || value < least) {
			class, least = item.Object(), value
		}
	}
	return class
}
