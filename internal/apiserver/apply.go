package apiserver

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/managedfields"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/yaml"
)

// apply answers a server-side apply.
func (a *apiRequest) apply(w http.ResponseWriter, r *http.Request) error {
	if a.query.Get("fieldManager") == "" {
		return invalidOptions("PatchOptions", field.Required("fieldManager", "is required for apply patch"))
	}
	live := a.server.db.Get(a.kind.collection(), a.key())
	if a.subresource != "" && live == nil && !a.createsOnUpdate() {
		return a.kind.notFound(a.name)
	}
	all, err := yaml.ParseManifests(a.body)
	if err != nil || len(all) != 1 {
		return apierrors.BadRequest("error decoding YAML: %v", err)
	}
	if err := a.checkAppliedDuplicates(); err != nil {
		return err
	}
	object := all[0]
	if n := unstructured.CanonicalNumbers(object); n != "" {
		return apierrors.BadRequest("error decoding YAML: %s", unfit(n))
	}
	if err := a.checkApplied(object); err != nil {
		return err
	}
	if a.subresource == "scale" {
		object = a.unscaled(object)
	}
	forced := a.flag("force")
	o := a.managed()
	o.Operation = "Apply"
	for {
		raw, code, err := a.applyTo(live, object, o, forced)
		if now := a.server.db.Get(a.kind.collection(), a.key()); err != nil && a.subresource == "" && raced(err, live, now) {
			live, a.verb, a.warnings = now, "patch", nil
			continue
		} else if err != nil {
			return err
		}
		return a.answerItem(w, r, code, raw)
	}
}

// raced reports whether an apply was refused only because its object was created or deleted concurrently.
func raced(err error, before, now *store.Item) bool {
	var e *apierrors.StatusError
	if !errtype.As(err, &e) {
		return false
	}
	return before == nil && now != nil && e.Reason == "AlreadyExists" || before != nil && now == nil && e.Reason == "NotFound"
}

// applyTo applies a configuration to the live object, or creates one if that is nil.
func (a *apiRequest) applyTo(live *store.Item, object map[string]any, o managedfields.Options, forced bool) ([]byte, int, error) {
	if live == nil {
		return a.applyNew(rawjson.Clone(object).(map[string]any), o, forced)
	}
	raw, err := a.change(true, func(live map[string]any) (map[string]any, error) {
		merged, refused := managedfields.Apply(live, rawjson.Clone(object).(map[string]any), o, forced)
		if refused != nil {
			return nil, refused
		}
		return merged, a.checkMerged(merged, rawjson.AsMap(object["metadata"]))
	})
	return raw, 200, err
}

// checkApplied refuses a configuration of another kind, or one that does not fit its type, because its fields could not be assigned to managers.
func (a *apiRequest) checkApplied(object map[string]any) error {
	apiVersion := unstructured.Text(object, "apiVersion")
	kind := unstructured.Text(object, "kind")
	group, version, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group, version = "", apiVersion
	}
	if wantedVersion, wantedKind := a.wanted(); apiVersion != wantedVersion || kind != wantedKind {
		return apierrors.BadRequest("invalid object type: %s/%s, Kind=%s", group, version, kind)
	}
	meta := rawjson.AsMap(object["metadata"])
	if meta["managedFields"] != nil {
		return apierrors.BadRequest("metadata.managedFields must be nil")
	}
	if a.subresource == "scale" {
		return nil
	}
	if why := a.managed().TypeError(object, false); why != "" {
		namespace := unstructured.Text(meta, "namespace")
		name := unstructured.Text(meta, "name")
		return apierrors.New(500, "", fmt.Sprintf("failed to create typed patch object (%s/%s; %s/%s, Kind=%s): %s", namespace, name, group, version, kind, why), nil)
	}
	return nil
}

// checkMerged refuses a merged object that does not fit the Go types of its kind, or whose name or namespace differs from the address.
func (a *apiRequest) checkMerged(merged, applied map[string]any) error {
	meta := rawjson.AsMap(merged["metadata"])
	if why := untyped(a.kind, merged); why != "" {
		namespace := unstructured.Text(applied, "namespace")
		name := unstructured.Text(applied, "name")
		kind := fmt.Sprintf("%s/%s, Kind=%s", a.kind.resource.Group, a.kind.resource.Version, a.kind.resource.Kind)
		return apierrors.New(500, "", fmt.Sprintf("failed to convert new object (%s/%s; %s) to proper version: unable to convert unstructured object to %s: error decoding from json: %s",
			namespace, name, kind, kind, why), nil)
	}
	if err := a.place(meta); err != nil {
		return err
	}
	return a.checkOwnName(meta)
}

// applyNew creates an object from a configuration.
func (a *apiRequest) applyNew(object map[string]any, o managedfields.Options, forced bool) ([]byte, int, error) {
	a.verb = "create"
	applied := rawjson.AsMap(object["metadata"])
	merged, refused := managedfields.Apply(nil, object, o, forced)
	if refused != nil {
		return nil, 0, refused
	}
	meta := rawjson.AsMap(merged["metadata"])
	if uid, ok := meta["uid"].(string); ok && uid != "" {
		return nil, 0, a.kind.conflict(a.name, fmt.Sprintf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if err := a.checkMerged(merged, applied); err != nil {
		return nil, 0, err
	}
	if v, ok := meta["resourceVersion"].(string); ok && !rawjson.IsDigits(v) {
		return nil, 0, apierrors.New(500, "", fmt.Sprintf("strconv.ParseUint: parsing %q: invalid syntax", v), nil)
	}
	if !a.dryRun {
		delete(meta, "resourceVersion")
	}
	return a.createObject(merged, true)
}
