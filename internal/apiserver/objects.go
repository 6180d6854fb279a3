package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/managedfields"
	"github.com/kopf-go/kopf/internal/apiserver/rules"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/table"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// serve answers a request about objects.
func (a *apiRequest) serve(w http.ResponseWriter, r *http.Request) {
	_, err := a.form()
	if err == nil {
		err = a.allowed()
	}
	if err == nil && a.kind.deprecation != "" {
		addWarning(w, a.kind.deprecation)
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

// allowed refuses verbs that the resource or the subresource does not support.
func (a *apiRequest) allowed() error {
	not, noPath := errMethod(), errNoResource()
	if nowhere := a.kind.resource.Namespaced && a.namespace == ""; a.kind.crd == nil && nowhere && (a.name != "" || a.kind.postedOnly) || a.kind.postedOnly && a.name != "" {
		return noPath
	}
	verbs := a.kind.resource.Verbs
	if a.subresource != "" {
		if !slices.Contains(a.kind.resource.Subresources, a.subresource) {
			if a.kind.crd != nil {
				return a.kind.notFound(a.name)
			}
			return noPath
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
	if wrong := rules.PathSegment(a.name); wrong != nil && a.verb != "create" && a.verb != "update" { // those fail elsewhere
		return apierrors.BadRequest("Name parameter invalid: %q: %s", a.name, strings.Join(wrong, ";"))
	}
	return nil
}

// key returns the key of the object in the store.
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
	if a.kind.conversion != nil {
		shown, err := a.converted(&store.Item{Raw: raw})
		if err != nil {
			return err
		}
		raw = shown[0].Raw
	}
	raw = a.sent(raw)
	if form == asMetadata {
		return a.refuseList()
	}
	a.warn(w)
	object := unstructured.View(raw)
	switch {
	case a.subresource == "scale":
		if path, _ := a.kind.scale["specReplicasPath"].(string); a.kind.crd != nil && !object.Has(strings.TrimPrefix(path, ".")) {
			return apierrors.Internal(fmt.Errorf("the spec replicas field %q does not exist", path))
		}
		scale := a.scaleOf(object.Map())
		if form == asTable {
			scale = a.tableOfScale(scale)
		}
		a.server.write(w, r, code, scale)
	case form == asTable:
		rows := a.kind.tableOf([]map[string]any{object.Map()}, a.query.Get("includeObject"))
		rows["metadata"] = map[string]any{"resourceVersion": object.String("metadata.resourceVersion")}
		a.server.write(w, r, code, rows)
	case form == asOneMetadata:
		a.server.write(w, r, code, table.Partial(object.Map()))
	default:
		a.server.write(w, r, code, json.RawMessage(raw))
	}
	return nil
}

// refuseList refuses to return one object as a list of metadata.
func (a *apiRequest) refuseList() error {
	name := "*v1.Scale"
	switch {
	case a.subresource == "scale":
	case a.kind.crd != nil:
		return apierrors.New(500, "", "content is not a list", nil)
	default:
		name = "*core." + a.kind.resource.Kind
	}
	return apierrors.New(406, "NotAcceptable", "you requested PartialObjectMetadataList, but the requested object is not a list ("+name+")", nil)
}

func (a *apiRequest) get(w http.ResponseWriter, r *http.Request) error {
	if text := a.query.Get("resourceVersion"); text != "" {
		version, err := parseVersion(text)
		if err != nil && a.kind.collection() == "events." { // kube-apiserver reads events from its store, and not from a cache
			return apierrors.BadRequest("invalid resource version: %v", err)
		} else if err != nil {
			return apierrors.New(500, "", err.Error(), nil)
		}
		if now := a.server.db.Now(); version > now {
			return tooLarge(version, now)
		}
	}
	i := a.server.db.Get(a.kind.collection(), a.key())
	if i == nil {
		return a.kind.notFound(a.name)
	}
	if a.subresource == "log" {
		return a.answerLog(w, r, i.Raw)
	}
	return a.answerItem(w, r, 200, i.Raw)
}

// fit prunes an object from a client, and adds defaults.
func (a *apiRequest) fit(object map[string]any) {
	if !a.canonical {
		a.kind.dropUnknown(object)
		a.canonical = true
	}
	if s := a.kind.schemaOf(object); s != nil {
		s.Prune(object)
		s.ApplyDefaults(object)
	}
	a.kind.fillDefaults(object)
	a.kind.normalize(object)
}

// schemaOf returns the schema for an object. The object may have another version or kind than the
// request.
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

// place sets the namespace of an object to that of the address, and refuses a different one.
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

// complete adds the defaults to an object, and validates it. The live object is nil for creations.
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
		if applied { // nulls without a default are refused
			s.ReplaceNulls(object)
		} else {
			s.ApplyDefaults(object)
		}
	}
	if !a.canonical { // it was applied, or a webhook changed it
		a.kind.dropUnknown(object)
	}
	a.kind.fillDefaults(object)
	if err := a.settle(live, object); err != nil {
		return err
	}
	a.kind.toStored(object) // and add the fields that are never omitted
	a.kind.normalize(object)
	faults = append(faults, a.kind.checkMeta(live, object)...)
	if s := a.kind.schema; s != nil && a.subresource == "status" {
		faults = append(faults, s.ValidateStatus(object, live)...)
	} else if s != nil {
		faults = append(faults, s.Validate(object, live)...)
	}
	faults = append(faults, a.checkScale(object)...)
	faults = append(faults, a.kind.checkEmbedded(object)...)
	if a.subresource != "status" || !a.kind.isDefinitions() {
		faults = append(faults, a.check(live, object)...)
	}
	if len(faults) > 0 {
		return a.refusedKind().invalid(a.name, faults)
	}
	if s := a.kind.schema; s != nil && applied {
		s.ApplyDefaults(object)
	}
	if a.subresource != "status" {
		a.warnOfNames(live, object)
		a.warnOfFormats(live, object)
		if a.kind.crd == nil {
			a.warnings = append(a.warnings, rules.Warnings(a.kind.resource.Group, a.kind.resource.Kind, live, object)...)
		}
		return a.checkSupport(object)
	}
	return nil
}

// refusedKind returns the kind for the error about an object. For kube-apiserver, the events of both groups have the kind of the core group.
func (a *apiRequest) refusedKind() *kindInfo {
	if !a.kind.isNewEvents() {
		return a.kind
	}
	return a.server.kindOf("v1", "Event")
}

// normalize sets the type of a secret, and moves its stringData to its data.
func (k *kindInfo) normalize(object map[string]any) {
	if k.crd != nil || k.resource.Kind != "Secret" {
		return
	}
	if rawjson.IsEmpty(object["type"]) || object["type"] == "" {
		object["type"] = "Opaque"
	}
	encodeStringData(object)
}

// warnOfNames warns of new finalizers without a domain.
func (a *apiRequest) warnOfNames(live, object map[string]any) {
	old, _ := rawjson.AsMap(live["metadata"])["finalizers"].([]any)
	list, _ := rawjson.AsMap(object["metadata"])["finalizers"].([]any)
	for _, f := range list {
		if text, _ := f.(string); !strings.Contains(text, "/") && !slices.Contains(old, f) && !slices.Contains([]string{"orphan", "foregroundDeletion"}, text) {
			a.warnings = append(a.warnings, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers", text))
		}
	}
}

// warnOfFormats warns of new formats in a CRD that are not checked.
func (a *apiRequest) warnOfFormats(live, object map[string]any) {
	if !a.kind.isDefinitions() {
		return
	}
	old := unknownFormats(live)
	for _, format := range unknownFormats(object) {
		if !slices.Contains(old, format) {
			a.warnings = append(a.warnings, fmt.Sprintf("unrecognized format %q", format))
		}
	}
}

// managed returns the options of the request for managed fields.
func (a *apiRequest) managed() managedfields.Options {
	o := managedfields.Options{
		Manager: a.manager, APIVersion: a.kind.apiVersion(), Subresource: a.subresource, Operation: "Update",
		Now: time.Now(), Schema: a.kind.schema, Kind: a.kind.resource.Kind, HasStatus: a.kind.hasStatus,
		StatusKeeps: a.kind.keptByStatus(),
	}
	if o.Subresource == "finalize" {
		o.Subresource = ""
	}
	return o
}

// checkOwnName refuses an object whose name differs from the address.
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
