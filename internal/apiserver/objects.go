package apiserver

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/managedfields"
	"github.com/kopf-go/kopf/internal/apiserver/patch"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/table"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file creates, changes and deletes the objects of the in-memory API server, and keeps the rules that all kinds have
// in common: versions, generations, finalizers, subresources.

// serve answers a request about objects.
func (a *apiRequest) serve(w http.ResponseWriter, r *http.Request) {
	_, err := a.form()
	if err == nil {
		err = a.allowed()
	}
	if err == nil && a.verb == "patch" {
		err = a.checkPatchType()
	}
	if err == nil {
		err = a.checkOptions()
	}
	if err == nil {
		switch a.verb {
		case "get":
			err = a.get(w, r)
		case "list":
			err = a.list(w, r)
		case "watch":
			err = a.watch(w, r)
		case "create":
			err = a.create(w, r)
		case "update":
			err = a.update(w, r)
		case "patch":
			err = a.patch(w, r)
		case "delete":
			err = a.delete(w, r)
		case "deletecollection":
			err = a.deleteCollection(w, r)
		}
	}
	if err != nil {
		a.warn(w)
		a.server.refuse(w, r, err)
	}
}

// allowed tells whether the verb exists for what the address names.
func (a *apiRequest) allowed() error {
	not := apierrors.New(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", map[string]any{})
	verbs := a.kind.resource.Verbs
	if a.subresource != "" {
		if !slices.Contains(a.kind.resource.Subresources, a.subresource) {
			if a.kind.crd != nil {
				return a.kind.notFound(a.name)
			}
			return apierrors.New(404, "NotFound", "the server could not find the requested resource", map[string]any{})
		}
		verbs = subresourceVerbs(a.subresource)
	}
	if !slices.Contains(verbs, a.verb) || a.verb == "create" && a.name != "" && a.subresource == "" && a.kind.crd == nil {
		return not
	}
	if (a.verb == "update" || a.verb == "patch") && a.name == "" {
		if a.kind.crd != nil {
			return apierrors.BadRequest("name must be provided")
		}
		return not
	}
	if a.kind.resource.Namespaced && a.namespace == "" && (a.name != "" || a.verb == "create" || a.verb == "deletecollection") {
		return not
	}
	return nil
}

// key is where the object is stored.
func (a *apiRequest) key() string {
	if a.kind.resource.Namespaced {
		return a.namespace + "/" + a.name
	}
	return a.name
}

// answerItem answers with one object.
func (a *apiRequest) answerItem(w http.ResponseWriter, r *http.Request, code int, raw []byte) error {
	form, err := a.form()
	if err != nil {
		return err
	}
	a.warn(w)
	raw = a.sent(raw)
	object := unstructured.View(raw)
	switch {
	case a.subresource == "scale":
		if path, _ := a.kind.scale["specReplicasPath"].(string); a.kind.crd != nil && !object.Has(strings.TrimPrefix(path, ".")) {
			return apierrors.Internal(fmt.Errorf("the spec replicas field %q does not exist", path))
		}
		a.server.write(w, r, code, a.scaleOf(object.Map()))
	case form == asTable:
		rows := table.New(a.kind.tableColumns(), []map[string]any{object.Map()}, a.query.Get("includeObject"), time.Now())
		rows["metadata"] = map[string]any{"resourceVersion": object.String("metadata.resourceVersion")}
		a.server.write(w, r, code, rows)
	case form == asMetadata, form == asOneMetadata:
		a.server.write(w, r, code, table.Partial(object.Map()))
	default:
		a.server.write(w, r, code, json.RawMessage(raw))
	}
	return nil
}

// warn sends the warnings so far.
func (a *apiRequest) warn(w http.ResponseWriter) {
	for _, text := range a.warnings {
		w.Header().Add("Warning", "299 - "+strconv.Quote(text))
	}
	a.warnings = nil
}

func (a *apiRequest) get(w http.ResponseWriter, r *http.Request) error {
	i := a.server.db.get(a.kind.collection(), a.key())
	if i == nil {
		return a.kind.notFound(a.name)
	}
	return a.answerItem(w, r, 200, i.raw)
}

func (a *apiRequest) create(w http.ResponseWriter, r *http.Request) error {
	object, err := a.decode()
	if err != nil {
		return err
	}
	if a.kind.postedOnly || a.subresource != "" {
		return a.post(w, r, object)
	}
	if err := a.strict(object); err != nil {
		return err
	}
	raw, code, err := a.createObject(object, false)
	if err != nil {
		return err
	}
	return a.answerItem(w, r, code, raw)
}

// post answers the kinds that are not stored.
func (a *apiRequest) post(w http.ResponseWriter, r *http.Request, object map[string]any) error {
	switch a.kind.resource.Plural {
	case "selfsubjectaccessreviews", "subjectaccessreviews", "localsubjectaccessreviews":
		object["status"] = map[string]any{"allowed": true}
	case "selfsubjectreviews":
		object["status"] = map[string]any{"userInfo": userInfo()}
	case "selfsubjectrulesreviews":
		all := []any{"*"}
		object["status"] = map[string]any{
			"resourceRules":    []any{map[string]any{"verbs": all, "apiGroups": all, "resources": all}},
			"nonResourceRules": []any{map[string]any{"verbs": all, "nonResourceURLs": all}}, "incomplete": false,
		}
	case "pods":
		if a.subresource == "eviction" {
			gone := *a
			gone.verb, gone.subresource, gone.body = "delete", "", nil
			if err := gone.deleteObject(deleteOptions{}); err != nil {
				return err
			}
			a.server.write(w, r, 201, map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success", "code": 201})
			return nil
		}
	}
	if object["metadata"] == nil {
		object["metadata"] = map[string]any{"creationTimestamp": nil}
	}
	a.server.write(w, r, 201, object)
	return nil
}

// strict checks the fields that the schema does not know, as the client wants it.
func (a *apiRequest) strict(object map[string]any) error {
	mode := a.query.Get("fieldValidation")
	unknown := a.kind.dropUnknown(object)
	if s := a.kind.schemaOf(object); s != nil {
		unknown = append(unknown, s.Prune(rawjson.Clone(object).(map[string]any))...)
	}
	if len(unknown) == 0 || mode == "Ignore" {
		return nil
	}
	var texts []string
	for _, path := range unknown {
		texts = append(texts, fmt.Sprintf("unknown field %q", path))
	}
	if mode == "Strict" && a.verb == "patch" {
		return badPatch(object, "strict decoding error: "+strings.Join(texts, ", "))
	}
	if mode == "Strict" {
		return apierrors.BadRequest("%s in version %q cannot be handled as a %s: strict decoding error: %s",
			a.kind.resource.Kind, a.kind.resource.Version, a.kind.resource.Kind, strings.Join(texts, ", "))
	}
	a.warnings = append(a.warnings, texts...)
	return nil
}

// metaFields are the fields of the metadata.
var metaFields = []string{
	"name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers", "managedFields",
}

// dropUnknown takes away what the typed parts of an object have no place for, and returns the paths of that.
func (k *kindInfo) dropUnknown(object map[string]any) (unknown []string) {
	meta := rawjson.AsMap(object["metadata"])
	for _, key := range rawjson.UnionKeys(meta, nil) {
		if !slices.Contains(metaFields, key) {
			delete(meta, key)
			unknown = append(unknown, "metadata."+key)
		}
	}
	if k.crd == nil && k.resource.Kind == "ConfigMap" {
		for _, key := range rawjson.UnionKeys(object, nil) {
			if !slices.Contains([]string{"apiVersion", "kind", "metadata", "data", "binaryData", "immutable"}, key) {
				delete(object, key)
				unknown = append(unknown, key)
			}
		}
	}
	return unknown
}

// createObject stores a new object, unless it is only tried.
func (a *apiRequest) createObject(object map[string]any, applied bool) (raw []byte, code int, err error) {
	if err := a.prepareNew(object, applied); err != nil {
		return nil, 0, err
	}
	if err := a.admit(nil, object, true); err != nil {
		return nil, 0, err
	}
	if err := a.complete(nil, object, applied); err != nil {
		return nil, 0, err
	}
	if err := a.admit(nil, object, false); err != nil {
		return nil, 0, err
	}
	return a.storeNew(object)
}

func (a *apiRequest) storeNew(object map[string]any) ([]byte, int, error) {
	meta := rawjson.AsMap(object["metadata"])
	if v, _ := meta["resourceVersion"].(string); v != "" && rawjson.IsDigits(v) && !a.dryRun {
		return nil, 0, apierrors.New(500, "", "resourceVersion should not be set on objects to be created", nil)
	}
	if old := a.server.db.get(a.kind.collection(), a.key()); old != nil {
		e := a.kind.alreadyExists(a.name)
		if meta["generateName"] != nil && a.verb == "create" {
			e.Message += ", the server was not able to generate a unique name for the object"
			e.Details["retryAfterSeconds"] = json.Number("1")
		}
		if unstructured.View(old.raw).Has("metadata.deletionTimestamp") {
			e.Message = "object is being deleted: " + e.Message
		}
		return nil, 0, e
	}
	if a.kind.storage != "" {
		object["apiVersion"] = a.kind.storage
	}
	if a.dryRun {
		raw, err := rawjson.Encode(object)
		return raw, 201, err
	}
	now, ok, err := a.server.db.put(a.kind.collection(), a.key(), nil, object)
	if err != nil {
		return nil, 0, err
	}
	if !ok {
		return nil, 0, a.kind.alreadyExists(a.name)
	}
	a.server.stored(a.kind, now)
	return now.raw, 201, nil
}

// prepareNew gives a new object what the server decides about, checks its place, and notes who has set its fields.
func (a *apiRequest) prepareNew(object map[string]any, applied bool) error {
	meta := rawjson.AsMap(object["metadata"])
	if meta == nil {
		meta = make(map[string]any)
		object["metadata"] = meta
	}
	if err := a.place(meta); err != nil {
		return err
	}
	name := unstructured.Text(meta, "name")
	if prefix, _ := meta["generateName"].(string); name == "" && prefix != "" {
		name = prefix + a.server.suffix()
		meta["name"] = name
	}
	a.name = name
	if err := a.checkNamespace(); err != nil {
		return err
	}
	delete(meta, "selfLink")
	if !applied {
		for _, key := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"} {
			delete(meta, key)
		}
		a.fit(object)
	}
	dropEmpty(meta)
	fits := applied || a.managed().TypeError(object, true) == ""
	if a.kind.hasStatus {
		delete(object, "status")
	}
	a.kind.initialize(object)
	if !applied && fits {
		managedfields.Update(nil, object, a.managed())
	}
	meta["uid"] = a.server.newUID()
	meta["creationTimestamp"] = unstructured.Timestamp(time.Now())
	if a.kind.generation {
		meta["generation"] = json.Number("1")
	}
	return nil
}

// fit makes an object of a client's fit its type: what is not known goes, and what is missing gets its default.
func (a *apiRequest) fit(object map[string]any) {
	if meta := rawjson.AsMap(object["metadata"]); meta != nil {
		dropEmpty(meta)
	}
	if s := a.kind.schemaOf(object); s != nil {
		s.Prune(object)
		s.ApplyDefaults(object)
	}
	a.kind.omitEmpty(object)
}

// schemaOf returns the schema for an object, which may be of another version or kind.
func (k *kindInfo) schemaOf(object map[string]any) *schema.Schema {
	apiVersion := unstructured.Text(object, "apiVersion")
	group, _, _ := strings.Cut(apiVersion, "/")
	switch {
	case k.crd == nil || object["kind"] == k.resource.Kind && apiVersion == k.apiVersion():
		return k.schema
	case object["kind"] == k.resource.Kind && group == k.resource.Group:
		return &schema.Schema{Type: "object"}
	}
	return nil
}

// place makes the object and the address agree on the namespace.
func (a *apiRequest) place(meta map[string]any) error {
	namespace := unstructured.Text(meta, "namespace")
	switch {
	case !a.kind.resource.Namespaced:
		delete(meta, "namespace")
	case namespace == "":
		meta["namespace"] = a.namespace
	case namespace != a.namespace:
		return apierrors.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// checkNamespace tells whether something can be created in the namespace.
func (a *apiRequest) checkNamespace() error {
	if !a.kind.resource.Namespaced {
		return nil
	}
	spaces := a.server.kindOf("v1", "Namespace")
	i := a.server.db.get(spaces.collection(), a.namespace)
	if i == nil {
		return spaces.notFound(a.namespace)
	}
	if unstructured.View(i.raw).Has("metadata.deletionTimestamp") {
		e := apierrors.New(403, "Forbidden", fmt.Sprintf("%s %q is forbidden: unable to create new content in namespace %s because it is being terminated",
			a.kind.groupResource(), a.name, a.namespace), a.kind.about(a.name))
		e.Details["retryAfterSeconds"] = json.Number("1")
		e.Details["causes"] = []any{apierrors.Cause("NamespaceTerminating", "namespace "+a.namespace+" is being terminated", "metadata.namespace")}
		return e
	}
	return nil
}

// complete gives an object its defaults, and checks it. The live object is nil for new ones.
func (a *apiRequest) complete(live, object map[string]any, applied bool) error {
	if another := a.kind.another(object); len(another) > 0 {
		kind := &kindInfo{resource: a.kind.resource}
		kind.resource.Kind = unstructured.Text(object, "kind")
		if live != nil {
			another = append(checkChanged(live, object), another...)
		}
		return kind.invalid(a.name, another)
	}
	var faults []field.Error
	if s := a.kind.schema; s != nil {
		s.Prune(object)
		if applied { // who applies a null means it
			faults = slices.DeleteFunc(s.Validate(object, live), func(f field.Error) bool {
				return f.Value != "null" && (f.Value != nil || f.Reason != field.ReasonNotSupported)
			})
		}
		s.ApplyDefaults(object)
	}
	if a.kind.isHooks() {
		a.kind.defaultHooks(object)
	}
	a.kind.omitEmpty(object)
	faults = append(faults, a.kind.checkMeta(live, object)...)
	if s := a.kind.schema; s != nil && a.subresource == "status" {
		faults = append(faults, s.ValidateStatus(object)...)
	} else if s != nil {
		faults = append(faults, s.Validate(object, live)...)
	}
	faults = append(faults, a.checkScale(object)...)
	faults = append(faults, a.kind.check(live, object)...)
	if len(faults) > 0 {
		return a.kind.invalid(a.name, faults)
	}
	if a.subresource != "status" {
		a.warnOfNames(live, object)
	}
	return nil
}

// omitEmpty takes away what the typed kinds do not send when it is empty.
func (k *kindInfo) omitEmpty(object map[string]any) {
	if k.crd != nil || k.resource.Kind != "ConfigMap" && k.resource.Kind != "Secret" {
		return
	}
	for _, key := range []string{"data", "binaryData"} {
		if unstructured.IsEmpty(object[key]) {
			delete(object, key)
		}
	}
}

// warnOfNames warns of new finalizers that others could have, too.
func (a *apiRequest) warnOfNames(live, object map[string]any) {
	old, _ := rawjson.AsMap(live["metadata"])["finalizers"].([]any)
	list, _ := rawjson.AsMap(object["metadata"])["finalizers"].([]any)
	for _, f := range list {
		if text, _ := f.(string); !strings.Contains(text, "/") && !slices.Contains(old, f) && !slices.Contains([]string{"orphan", "foregroundDeletion"}, text) {
			a.warnings = append(a.warnings, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers", text))
		}
	}
}

func (a *apiRequest) managed() managedfields.Options {
	o := managedfields.Options{
		Manager: a.manager, APIVersion: a.kind.apiVersion(), Subresource: a.subresource, Operation: "Update",
		Now: time.Now(), Schema: a.kind.schema, Kind: a.kind.resource.Kind, HasStatus: a.kind.hasStatus,
	}
	if o.Subresource == "finalize" {
		o.Subresource = ""
	}
	return o
}

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
	raw, err := a.changeObject(func(map[string]any) (map[string]any, error) {
		return rawjson.Clone(object).(map[string]any), nil
	})
	if err != nil {
		return err
	}
	return a.answerItem(w, r, 200, raw)
}

// checkOwnName refuses objects that say that they have another name than the address.
func (a *apiRequest) checkOwnName(meta map[string]any) error {
	switch name, _ := meta["name"].(string); name {
	case a.name:
		return nil
	case "":
		return apierrors.BadRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", a.name)
	default:
		return apierrors.BadRequest("the name of the object (%s) does not match the name on the URL (%s)", name, a.name)
	}
}

// checkPatchType refuses patches of kinds that are not known, or not for the kind of the object.
func (a *apiRequest) checkPatchType() error {
	media, _, _ := mime.ParseMediaType(a.raw.Header.Get("Content-Type"))
	known := []string{"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"}
	if a.kind.crd == nil {
		known = slices.Insert(append(known, "application/apply-patch+cbor"), 2, "application/strategic-merge-patch+json")
	}
	if media == "application/json" && a.kind.crd == nil {
		return apierrors.New(415, "UnsupportedMediaType", "415: Unsupported Media Type", map[string]any{})
	}
	if media == "application/apply-patch+cbor" || !slices.Contains(known, media) {
		return apierrors.New(415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: "+strings.Join(known, ", "), nil)
	}
	return nil
}

func (a *apiRequest) patch(w http.ResponseWriter, r *http.Request) error {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var apply func(live map[string]any) (map[string]any, error)
	switch media {
	case "application/json-patch+json":
		apply = a.jsonPatch
	case "application/merge-patch+json":
		apply = a.mergePatch
	case "application/strategic-merge-patch+json":
		apply = func(live map[string]any) (map[string]any, error) {
			object, err := a.strategicPatch(live)
			if err == nil { // which is known by the address
				object["apiVersion"], object["kind"] = live["apiVersion"], live["kind"]
			}
			return object, err
		}
	default: // the others are refused before
		return a.apply(w, r)
	}
	raw, err := a.changeObject(func(live map[string]any) (map[string]any, error) {
		if a.subresource == "scale" {
			live = a.scaleOf(live)
		}
		object, err := apply(live)
		if err == nil {
			err = a.checkPatched(live, object)
		}
		if err == nil && (a.subresource == "" || a.subresource == "status") {
			a.warnings = nil // of an attempt before
			err = a.strict(object)
		}
		return object, err
	})
	if err != nil {
		return err
	}
	return a.answerItem(w, r, 200, raw)
}

// badPatch refuses a patch for what it has made of an object.
func badPatch(object map[string]any, why string) error {
	data, err := rawjson.Encode(object)
	if err != nil {
		return err
	}
	nothing := (&kindInfo{}).invalid("", []field.Error{field.Invalid("patch", string(data), why)})
	delete(nothing.Details, "kind")
	return nothing
}

// checkPatched refuses what a patch has made of an object that no object of the kind can be.
func (a *apiRequest) checkPatched(live, object map[string]any) error {
	why := ""
	if a.subresource == "scale" {
		why = unscalable(object)
	} else if why = untyped(a.kind, object); why == "" && a.kind.crd == nil && (object["apiVersion"] != a.kind.apiVersion() || object["kind"] != a.kind.resource.Kind) {
		why = fmt.Sprintf("no kind %q is registered for version %q in scheme", asWord(object["kind"]), asWord(object["apiVersion"]))
	}
	if why != "" {
		return badPatch(object, why)
	}
	if a.subresource == "scale" {
		return nil
	}
	meta := rawjson.AsMap(object["metadata"])
	if meta != nil {
		if err := a.place(meta); err != nil {
			return err
		}
	}
	return a.checkOwnName(meta)
}

func (a *apiRequest) jsonPatch(live map[string]any) (map[string]any, error) {
	patched, err := patch.ApplyJSON(live, a.body)
	if err != nil {
		return nil, err
	}
	object, ok := patched.(map[string]any)
	if !ok {
		return nil, apierrors.BadRequest("the patch makes %s of the object", rawjson.KindOf(patched))
	}
	return object, nil
}

func (a *apiRequest) mergePatch(live map[string]any) (map[string]any, error) {
	change, err := rawjson.DecodeObject(a.body)
	if err != nil {
		return nil, apierrors.BadRequest("error decoding patch: %v", err)
	}
	return rawjson.Merge(live, any(change)).(map[string]any), nil
}

func (a *apiRequest) strategicPatch(live map[string]any) (map[string]any, error) {
	change, err := rawjson.DecodeObject(a.body)
	if err != nil {
		return nil, apierrors.BadRequest("error decoding patch: %v", err)
	}
	return patch.ApplyStrategicMerge(a.kind.resource.Kind, live, change)
}

// changeObject changes an object by a function of the live one, again and again until nobody has changed it meanwhile.
func (a *apiRequest) changeObject(mutate func(live map[string]any) (map[string]any, error)) ([]byte, error) {
	return a.change(false, mutate)
}

// change is [apiRequest.changeObject] for objects that are applied, too, of which managedFields are there already.
func (a *apiRequest) change(applied bool, mutate func(live map[string]any) (map[string]any, error)) ([]byte, error) {
	for {
		before := a.server.db.get(a.kind.collection(), a.key())
		if before == nil {
			return nil, a.kind.notFound(a.name)
		}
		live := unstructured.View(a.sent(before.raw)).Map()
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

// replace puts a changed object in the place of the live one, and tells whether that is settled.
func (a *apiRequest) replace(before *item, live, object map[string]any, applied bool) ([]byte, bool, error) {
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
	if rawjson.Equal(live, object) {
		return before.raw, true, nil
	}
	if a.kind.storage != "" {
		object["apiVersion"] = a.kind.storage
	}
	if a.dryRun {
		raw, err := rawjson.Encode(object)
		return raw, true, err
	}
	collection := a.kind.collection()
	if released(object) {
		answer, err := rawjson.Encode(object) // in which the version of the end is not told
		if err != nil {
			return nil, true, err
		}
		last, ok, err := a.server.db.remove(collection, a.key(), before, object)
		if !ok || err != nil {
			return nil, err != nil, err
		}
		a.server.removed(a.kind, last)
		return answer, true, nil
	}
	now, ok, err := a.server.db.put(collection, a.key(), before, object)
	if !ok || err != nil {
		return nil, err != nil, err
	}
	a.server.stored(a.kind, now)
	return now.raw, true, nil
}

// checkIdentity refuses what was made of another object.
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

// checkVersion refuses what was made of another state.
func (a *apiRequest) checkVersion(live, object map[string]any) error {
	meta, old := rawjson.AsMap(object["metadata"]), rawjson.AsMap(live["metadata"])
	version := unstructured.Text(meta, "resourceVersion")
	if version != "" && !rawjson.IsDigits(version) {
		return apierrors.New(500, "", fmt.Sprintf("strconv.ParseUint: parsing %q: invalid syntax", version), nil)
	}
	if version == "" && (a.verb == "update" || a.verb == "patch") && a.kind.crd != nil && a.subresource != "scale" {
		named := &kindInfo{resource: a.kind.resource}
		named.resource.Kind = a.kind.resource.Plural // which is how the real one says it
		return named.invalid(a.name, []field.Error{field.Invalid("metadata.resourceVersion", json.Number("0"), "must be specified for an update")})
	}
	if version != "" && version != old["resourceVersion"] {
		return a.kind.conflict(a.name, modifiedMeanwhile)
	}
	return nil
}

// scope takes only that part of a changed object that the request may change: the status, the scale, or all but the status.
func (a *apiRequest) scope(live, object map[string]any) (map[string]any, error) {
	switch {
	case a.subresource == "scale":
		return a.scaled(live, object)
	case a.subresource == "status":
		fields := rawjson.AsMap(object["metadata"])["managedFields"]
		whole := rawjson.Clone(live).(map[string]any)
		if status, ok := object["status"]; ok {
			whole["status"] = status
		} else {
			delete(whole, "status")
		}
		if meta := rawjson.AsMap(whole["metadata"]); fields != nil {
			meta["managedFields"] = fields
		} else {
			delete(meta, "managedFields")
		}
		return whole, nil
	case a.subresource == "finalize":
		whole := rawjson.Clone(live).(map[string]any)
		rawjson.AsMap(whole["spec"])["finalizers"] = rawjson.AsMap(object["spec"])["finalizers"]
		return whole, nil
	case a.kind.hasStatus:
		if status, ok := live["status"]; ok {
			object["status"] = rawjson.Clone(status)
		} else {
			delete(object, "status")
		}
	}
	meta := rawjson.AsMap(object["metadata"])
	if meta == nil {
		meta = make(map[string]any)
		object["metadata"] = meta
	}
	a.kind.restore(rawjson.AsMap(live["metadata"]), meta)
	return object, nil
}

// restore keeps in the metadata what clients cannot change, and often leave out.
func (k *kindInfo) restore(old, meta map[string]any) {
	delete(meta, "selfLink")
	for _, key := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "name", "namespace"} {
		if v, ok := old[key]; ok && (meta[key] == nil || meta[key] == "") {
			meta[key] = v
		} else if !ok && (key != "deletionTimestamp" || meta[key] == nil) { // that it cannot be set is told later
			delete(meta, key)
		}
	}
	if g, ok := old["generation"]; ok {
		meta["generation"] = g
	} else {
		delete(meta, "generation")
	}
	dropEmpty(meta)
}

// dropEmpty takes away what the typed metadata does not send when it is empty.
func dropEmpty(meta map[string]any) {
	for _, key := range metaFields {
		if v, ok := meta[key]; ok && (unstructured.IsEmpty(v) || v == "") && key != "managedFields" {
			delete(meta, key)
		}
	}
}

// count raises the generation if something was changed that counts.
func (a *apiRequest) count(live, object map[string]any) {
	if !a.kind.generation || a.subresource == "status" {
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

func raiseGeneration(object map[string]any) {
	meta := rawjson.AsMap(object["metadata"])
	old, ok := meta["generation"].(json.Number)
	if n, err := old.Int64(); ok && err == nil {
		meta["generation"] = json.Number(strconv.FormatInt(n+1, 10))
	}
}

// released tells whether nothing holds an object any more that is marked for deletion.
func released(object map[string]any) bool {
	meta := rawjson.AsMap(object["metadata"])
	if meta["deletionTimestamp"] == nil || !unstructured.IsEmpty(meta["finalizers"]) {
		return false
	}
	if grace, ok := meta["deletionGracePeriodSeconds"].(json.Number); ok && grace != "0" {
		return false
	}
	if object["kind"] == "Namespace" && object["apiVersion"] == "v1" {
		return unstructured.IsEmpty(rawjson.AsMap(object["spec"])["finalizers"])
	}
	return true
}
