package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/managedfields"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func (a *apiRequest) update(w http.ResponseWriter, r *http.Request) error {
	object, err := a.decode()
	if err != nil {
		return err
	}
	if a.subresource == "" || a.subresource == "status" {
		if err := a.strict(object); err != nil {
			return err
		}
	}
	meta := rawjson.AsMap(object["metadata"])
	if meta != nil && (a.subresource != "scale" || meta["namespace"] != nil) {
		if err := a.place(meta); err != nil {
			return err
		}
	}
	if err := a.checkOwnName(meta); err != nil {
		return err
	}
	if a.createsOnUpdate() && a.server.db.Get(a.kind.collection(), a.key()) == nil {
		err := a.createByUpdate(w, r, object)
		if e := (*apierrors.StatusError)(nil); !errtype.As(err, &e) || e.Reason != "AlreadyExists" {
			return err
		}
		// Another request has created it in the meantime.
	}
	raw, err := a.changeObject(func(map[string]any) (map[string]any, error) {
		return rawjson.Clone(object).(map[string]any), nil
	})
	if err != nil {
		return err
	}
	return a.answerItem(w, r, 200, raw)
}

// createsOnUpdate reports whether an update of a missing object creates it. For services, an update of the status does, too: it creates one without
// an address.
func (a *apiRequest) createsOnUpdate() bool {
	return a.kind.createsOnUpdate && a.subresource == "" || a.subresource == "status" && a.kind.is("services", "")
}

// createByUpdate answers an update of a missing object.
func (a *apiRequest) createByUpdate(w http.ResponseWriter, r *http.Request, object map[string]any) error {
	created := rawjson.Clone(object).(map[string]any)
	delete(rawjson.AsMap(created["metadata"]), "resourceVersion")
	a.verb = "create"
	err := a.answerNew(w, r, created)
	a.verb = "update"
	return err
}

// changeObject replaces an object by the result of a function of the live object. It calls the function again if the live object has changed in the
// meantime.
func (a *apiRequest) changeObject(mutate func(live map[string]any) (map[string]any, error)) ([]byte, error) {
	return a.change(false, mutate)
}

// change is [apiRequest.changeObject], also for applied objects, whose managedFields are set already.
func (a *apiRequest) change(applied bool, mutate func(live map[string]any) (map[string]any, error)) ([]byte, error) {
	canonical := a.canonical // the form of each result of the function
	for {
		before := a.server.db.Get(a.kind.collection(), a.key())
		if before == nil {
			return nil, a.kind.notFound(a.name)
		}
		a.canonical = canonical
		live, err := a.read(before)
		if err != nil {
			return nil, err
		}
		object, err := mutate(rawjson.Clone(live).(map[string]any))
		if err != nil {
			return nil, err
		}
		raw, done, err := a.replace(before, live, object, applied)
		if err != nil || done {
			return raw, err
		}
	}
}

// read returns a stored object in the version of the request.
func (a *apiRequest) read(i *store.Item) (map[string]any, error) {
	shown, err := a.converted(i)
	if err != nil {
		return nil, err
	}
	return unstructured.View(a.sent(shown[0].Raw)).Map(), nil
}

// replace replaces the live object by a changed one. It reports false if the live object has changed in the meantime.
func (a *apiRequest) replace(before *store.Item, live, object map[string]any, applied bool) ([]byte, bool, error) {
	defer a.release()
	if err := a.checkIdentity(live, object); err != nil {
		return nil, true, err
	}
	if !applied && a.subresource != "scale" {
		a.fit(object)
		managedfields.Update(live, object, a.managed())
	}
	if err := a.checkVersion(live, object); err != nil {
		return nil, true, err
	}
	object, err := a.scope(live, object)
	if err != nil {
		return nil, true, err
	}
	if err := a.admitBuiltin(live, object); err != nil {
		return nil, true, err
	}
	if err := a.admit(live, object, true); err != nil {
		return nil, true, err
	}
	managedfields.KeepTimes(live, object)
	if err := a.complete(live, object, applied); err != nil {
		return nil, true, err
	}
	a.count(live, object)
	if err := a.admit(live, object, false); err != nil {
		return nil, true, err
	}
	rawjson.AsMap(object["metadata"])["resourceVersion"] = rawjson.AsMap(live["metadata"])["resourceVersion"]
	if a.kind.crd == nil && rawjson.Equal(live, object) {
		return before.Raw, true, nil
	}
	var answer []byte // the response about a removed object has the version before the deletion
	if released(object) {
		if answer, err = rawjson.Encode(object); err != nil {
			return nil, true, err
		}
	}
	if err := a.toStorage(object); err != nil {
		return nil, true, err
	}
	if a.kind.crd != nil && rawjson.Equal(before.Object(), object) {
		return before.Raw, true, nil
	}
	if a.dryRun {
		raw, err := rawjson.Encode(object)
		return raw, true, err
	}
	collection := a.kind.collection()
	if released(object) {
		last, ok, err := a.server.db.Remove(collection, a.key(), before, before.Object()) // watches send the stored object
		if !ok || err != nil {
			return nil, err != nil, err
		}
		a.server.removed(a.kind, last)
		return answer, true, nil
	}
	now, ok, err := a.put(before, object)
	if !ok || err != nil {
		return nil, err != nil, err
	}
	if !a.isNaming() {
		a.server.stored(a.kind, now)
	}
	return now.Raw, true, nil
}

// checkIdentity refuses to change an object with another UID.
func (a *apiRequest) checkIdentity(live, object map[string]any) error {
	meta, old := rawjson.AsMap(object["metadata"]), rawjson.AsMap(live["metadata"])
	if uid, _ := meta["uid"].(string); uid != "" && uid != old["uid"] && a.verb == "update" {
		key := strings.ReplaceAll("/"+a.kind.resource.Group+"/"+a.kind.resource.Plural+"/"+a.key(), "//", "/")
		if !a.dryRun {
			key = "/registry" + key
		}
		return a.kind.conflict(a.name, fmt.Sprintf("StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s",
			key, uid, old["uid"]))
	}
	return nil
}

// checkVersion refuses to change an object with another resource version.
func (a *apiRequest) checkVersion(live, object map[string]any) error {
	meta, old := rawjson.AsMap(object["metadata"]), rawjson.AsMap(live["metadata"])
	version := unstructured.Text(meta, "resourceVersion")
	number, err := uint64(0), error(nil) // 0 means none
	if version != "" {
		number, err = strconv.ParseUint(version, 10, 64)
	}
	if err != nil {
		return apierrors.New(500, "", err.Error(), nil)
	}
	if number == 0 && (a.verb == "update" || a.verb == "patch") && a.kind.needsVersion && a.subresource != "scale" {
		named := &kindInfo{resource: a.kind.resource}
		named.resource.Kind = a.kind.resource.Plural // as in kube-apiserver
		return named.invalid(a.name, []field.Error{field.Invalid("metadata.resourceVersion", json.Number("0"), "must be specified for an update")})
	}
	if number != 0 && strconv.FormatUint(number, 10) != old["resourceVersion"] {
		return a.kind.conflict(a.name, modifiedMeanwhile)
	}
	return nil
}

// scope returns the live object with the part that the request may change: the status, the scale, or all except the status.
func (a *apiRequest) scope(live, object map[string]any) (map[string]any, error) {
	switch {
	case a.subresource == "scale":
		return a.scaled(live, object)
	case a.subresource == "status":
		whole := rawjson.Clone(live).(map[string]any)
		if status, ok := object["status"]; ok {
			whole["status"] = status
		} else {
			delete(whole, "status")
		}
		if a.kind.is("pods", "") {
			keepClass(rawjson.AsMap(live["status"]), mapAt(whole, "status"))
		}
		if a.kind.statusChangesMeta() {
			whole["metadata"] = a.kind.statusMeta(rawjson.AsMap(live["metadata"]), rawjson.AsMap(object["metadata"]))
			return whole, nil
		}
		fields := rawjson.AsMap(object["metadata"])["managedFields"]
		if meta := rawjson.AsMap(whole["metadata"]); fields != nil {
			meta["managedFields"] = fields
		} else {
			delete(meta, "managedFields")
		}
		return whole, nil
	case a.subresource == "approval":
		whole := rawjson.Clone(live).(map[string]any)
		conditions, _ := rawjson.AsMap(object["status"])["conditions"].([]any)
		stampConditions(rawjson.AsMap(live["status"])["conditions"], conditions)
		mapAt(whole, "status")["conditions"] = conditions
		return whole, nil
	case a.subresource == "finalize":
		whole := rawjson.Clone(live).(map[string]any)
		mapAt(whole, "spec")["finalizers"] = rawjson.AsMap(object["spec"])["finalizers"]
		return whole, nil
	case a.kind.hasStatus:
		if status, ok := live["status"]; ok {
			object["status"] = rawjson.Clone(status)
		} else {
			delete(object, "status")
		}
	}
	if a.kind.isDefinitions() {
		addStoredVersion(object)
	}
	meta := rawjson.AsMap(object["metadata"])
	if meta == nil {
		meta = make(map[string]any)
		object["metadata"] = meta
	}
	if a.kind.isNamespaces() || a.kind.crd == nil && a.kind.resource.Kind == "CertificateSigningRequest" { // finalizers have a subresource, and requests are immutable
		object["spec"] = rawjson.Clone(live["spec"])
	}
	a.kind.restore(rawjson.AsMap(live["metadata"]), meta)
	return object, nil
}

// keepClass keeps the quality of service of a pod if the new status omits it.
func keepClass(old, status map[string]any) {
	if class := old["qosClass"]; class != nil && unstructured.Text(status, "qosClass") == "" {
		status["qosClass"] = class
	}
}

// stampConditions sets the missing times of conditions. The time of a transition stays the same as long as the status of the condition does.
func stampConditions(live any, conditions []any) {
	old, _ := live.([]any)
	now := unstructured.Timestamp(time.Now())
	for _, c := range conditions {
		condition := rawjson.AsMap(c)
		if condition == nil {
			continue
		}
		if rawjson.IsEmpty(condition["lastUpdateTime"]) {
			condition["lastUpdateTime"] = now
		}
		if !rawjson.IsEmpty(condition["lastTransitionTime"]) {
			continue
		}
		condition["lastTransitionTime"] = now
		for _, o := range old {
			if before := rawjson.AsMap(o); before["type"] == condition["type"] && before["status"] == condition["status"] {
				condition["lastTransitionTime"] = before["lastTransitionTime"]
			}
		}
	}
}

// statusChangesMeta reports whether a request to the status also changes the metadata, as for most built-in kinds.
func (k *kindInfo) statusChangesMeta() bool {
	return k.crd == nil && !slices.Contains([]string{
		"APIService", "CustomResourceDefinition", "FlowSchema", "PriorityLevelConfiguration", "ResourceClaim", "ServiceCIDR", "ValidatingAdmissionPolicy", "VolumeAttachment",
	}, k.resource.Kind)
}

// keptByStatus returns the fields of the metadata that a request to the status keeps, nil if it keeps all of them.
func (k *kindInfo) keptByStatus() []string {
	switch {
	case !k.statusChangesMeta():
		return nil
	case k.is("deployments", "apps"):
		return []string{"labels"}
	case k.is("pods", ""):
		return []string{"ownerReferences", "deletionTimestamp"}
	}
	return []string{}
}

// statusMeta returns the metadata after a request to the status that may change them.
func (k *kindInfo) statusMeta(old, meta map[string]any) map[string]any {
	if meta == nil {
		meta = make(map[string]any)
	}
	for _, kept := range k.keptByStatus() {
		if v, ok := old[kept]; ok {
			meta[kept] = rawjson.Clone(v)
		} else {
			delete(meta, kept)
		}
	}
	k.restore(old, meta)
	return meta
}

// restore keeps the metadata that clients cannot change, and often omit.
func (k *kindInfo) restore(old, meta map[string]any) {
	delete(meta, "selfLink")
	for _, key := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "name", "namespace"} {
		if v, ok := old[key]; ok && (meta[key] == nil || meta[key] == "") {
			meta[key] = v
		} else if !ok && (!strings.HasPrefix(key, "deletion") || meta[key] == nil) { // setting it is refused later
			delete(meta, key)
		}
	}
	if g, ok := old["generation"]; ok {
		meta["generation"] = g
	} else {
		delete(meta, "generation")
	}
	if k.isNamespaces() {
		mapAt(meta, "labels")[namespaceLabel] = meta["name"]
	}
	types.Named("ObjectMeta").Decode(meta)
}

// count increments the generation, unless only the metadata or the status has changed.
func (a *apiRequest) count(live, object map[string]any) {
	if !a.kind.generation || a.subresource == "status" || a.kind.is("priorityclasses", "scheduling.k8s.io") {
		return
	}
	if key := a.kind.countedMeta(); key != "" && !rawjson.Equal(rawjson.AsMap(live["metadata"])[key], rawjson.AsMap(object["metadata"])[key]) {
		raiseGeneration(object)
		return
	}
	for _, key := range rawjson.UnionKeys(live, object) {
		counts := key != "metadata" && key != "apiVersion" && key != "kind" && (key != "status" || !a.kind.hasStatus)
		if counts && a.kind.crd == nil {
			counts = key != "status"
		}
		old, was := live[key]
		now, is := object[key]
		if counts && (was != is || !rawjson.Equal(old, now)) {
			raiseGeneration(object)
			return
		}
	}
}

// countedMeta returns the field of the metadata whose changes increment the generation, "" if there is none.
func (k *kindInfo) countedMeta() string {
	switch {
	case k.is("deployments", "apps"):
		return "annotations"
	case k.is("endpointslices", "discovery.k8s.io"):
		return "labels"
	}
	return ""
}

func raiseGeneration(object map[string]any) {
	meta := rawjson.AsMap(object["metadata"])
	old, ok := meta["generation"].(json.Number)
	if n, err := old.Int64(); ok && err == nil {
		meta["generation"] = json.Number(strconv.FormatInt(n+1, 10))
	}
}
