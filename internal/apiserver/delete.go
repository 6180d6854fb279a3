package apiserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/protobuf"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/yaml"
)

// deleteOptions are the options in the body and in the query of a deletion.
type deleteOptions struct {
	// GracePeriodSeconds is sent to webhooks, and otherwise ignored. kube-apiserver does the same for custom resources, and uses it only for pods on
	// nodes, which do not exist here.
	GracePeriodSeconds *int64
	PropagationPolicy  string
	OrphanDependents   *bool
	DryRun             []string
	Preconditions      struct{ UID, ResourceVersion *string }
	emptyPolicy        bool // an empty policy, which differs from none
}

// deleteOptions returns the options in the body, or in the query if there is no body.
func (a *apiRequest) deleteOptions() (deleteOptions, error) {
	var o deleteOptions
	if len(a.body) > 0 {
		object, err := a.decodeOptions()
		if err != nil {
			return o, apierrors.BadRequest("couldn't get version/kind; json parse error: %v", err)
		}
		if kind := unstructured.Word(object["kind"]); kind != "" && kind != "DeleteOptions" {
			return o, apierrors.BadRequest("no kind %q is registered for version %q in scheme %q", kind, cmp.Or(unstructured.Word(object["apiVersion"]), "meta.k8s.io/v1"), "pkg/runtime/scheme.go:111")
		}
		if o, err = readDeleteOptions(object); err != nil {
			return o, err
		}
	} else if err := a.queryDeleteOptions(&o); err != nil {
		return o, err
	}
	a.dryRun = slices.Contains(o.DryRun, "All")
	a.deletion = &o
	return o, o.check()
}

// describe adds the options to those of the admission review.
func (o *deleteOptions) describe(options map[string]any) {
	if o.GracePeriodSeconds != nil {
		options["gracePeriodSeconds"] = json.Number(strconv.FormatInt(*o.GracePeriodSeconds, 10))
	}
	if o.PropagationPolicy != "" {
		options["propagationPolicy"] = o.PropagationPolicy
	}
	if o.OrphanDependents != nil {
		options["orphanDependents"] = *o.OrphanDependents
	}
	preconditions := map[string]any{}
	if p := o.Preconditions.UID; p != nil {
		preconditions["uid"] = *p
	}
	if p := o.Preconditions.ResourceVersion; p != nil {
		preconditions["resourceVersion"] = *p
	}
	if len(preconditions) > 0 {
		options["preconditions"] = preconditions
	}
}

// decodeOptions decodes the options in the body.
func (a *apiRequest) decodeOptions() (object map[string]any, err error) {
	switch media := a.raw.Header.Get("Content-Type"); {
	case strings.Contains(media, "protobuf"):
		return protobuf.Decode(a.body)
	case strings.Contains(media, "yaml"):
		all, err := yaml.ParseManifests(a.body)
		if err == nil && len(all) == 1 {
			object = all[0]
		}
		return object, err
	case string(bytes.TrimSpace(a.body)) == "null":
		return nil, nil
	}
	return rawjson.DecodeObject(a.body)
}

// queryDeleteOptions reads the options in the query.
func (a *apiRequest) queryDeleteOptions(o *deleteOptions) error {
	o.PropagationPolicy, o.DryRun = a.query.Get("propagationPolicy"), a.query["dryRun"]
	if a.query.Has("orphanDependents") {
		orphan := a.flag("orphanDependents")
		o.OrphanDependents = &orphan
	}
	o.emptyPolicy = a.query.Has("propagationPolicy") && o.PropagationPolicy == ""
	if a.query.Has("gracePeriodSeconds") {
		seconds, err := strconv.ParseInt(a.query.Get("gracePeriodSeconds"), 10, 64)
		if err != nil {
			return apierrors.BadRequest("%v", err)
		}
		o.GracePeriodSeconds = &seconds
	}
	return nil
}

// check refuses unknown or contradictory options.
func (o *deleteOptions) check() error {
	var faults []field.Error
	p := o.PropagationPolicy
	if o.OrphanDependents != nil && (p != "" || o.emptyPolicy) {
		faults = append(faults, field.Invalid("propagationPolicy", p, "orphanDependents and deletionPropagation cannot be both set"))
	}
	if o.emptyPolicy || p != "" && !slices.Contains([]string{"Orphan", "Background", "Foreground"}, p) {
		faults = append(faults, field.NotSupported("propagationPolicy", p, `supported values: "Foreground", "Background", "Orphan", "nil"`))
	}
	if slices.ContainsFunc(o.DryRun, func(r string) bool { return r != "All" }) {
		faults = append(faults, field.NotSupported("dryRun", o.DryRun, `supported values: "All"`))
	}
	if len(faults) > 0 {
		return invalidOptions("DeleteOptions", faults...)
	}
	return nil
}

// readDeleteOptions reads decoded options.
func readDeleteOptions(object map[string]any) (deleteOptions, error) {
	type DeleteOptions struct { // error messages contain this name
		GracePeriodSeconds *int64                                 `json:"gracePeriodSeconds"`
		PropagationPolicy  string                                 `json:"propagationPolicy"`
		OrphanDependents   *bool                                  `json:"orphanDependents"`
		DryRun             []string                               `json:"dryRun"`
		Preconditions      struct{ UID, ResourceVersion *string } `json:"preconditions"`
	}
	var o DeleteOptions
	data, err := rawjson.Encode(object)
	if err != nil {
		return deleteOptions{}, err
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return deleteOptions{}, apierrors.BadRequest("%v", err)
	}
	policy, ok := object["propagationPolicy"].(string)
	return deleteOptions{o.GracePeriodSeconds, o.PropagationPolicy, o.OrphanDependents, o.DryRun, o.Preconditions, ok && policy == ""}, nil
}

func (a *apiRequest) delete(w http.ResponseWriter, r *http.Request) error {
	o, err := a.deleteOptions()
	if err != nil {
		return err
	}
	last, gone, err := a.deleteStored(o)
	if err != nil {
		return err
	}
	if !gone || a.kind.returnsGone {
		return a.answerItem(w, r, 200, last.Raw)
	}
	details := a.kind.about(a.name)
	details["uid"] = rawjson.StringAt(last.Raw, "metadata", "uid")
	a.server.write(w, r, 200, map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success", "details": details})
	return nil
}

func (a *apiRequest) deleteObject(o deleteOptions) error {
	_, _, err := a.deleteStored(o)
	return err
}

// deleteStored deletes an object, or marks it for deletion if it has finalizers. It reports whether
// the object is gone.
func (a *apiRequest) deleteStored(o deleteOptions) (last *store.Item, gone bool, err error) {
	collection := a.kind.collection()
	marked := false
	for {
		before := a.server.db.Get(collection, a.key())
		if before == nil {
			return nil, false, a.kind.notFound(a.name)
		}
		live, err := a.read(before)
		if err != nil {
			return nil, false, err
		}
		if a.kind.isNamespaces() && slices.Contains([]string{"default", "kube-public", "kube-system"}, a.name) {
			return nil, false, a.kind.forbidden(a.name, "this namespace may not be deleted")
		}
		if a.kind.is("priorityclasses", "scheduling.k8s.io") && slices.Contains([]string{"system-cluster-critical", "system-node-critical"}, a.name) {
			return nil, false, a.kind.forbidden(a.name, "this is a system priority class and cannot be deleted")
		}
		if !marked {
			if err := a.precondition(o, live); err != nil {
				return nil, false, err
			}
			if err := a.admit(live, nil, true); err != nil {
				return nil, false, err
			}
			if err := a.admit(live, nil, false); err != nil {
				return nil, false, err
			}
		}
		object := a.mark(live, o)
		same, unmarked := rawjson.Equal(object, live), rawjson.AsMap(live["metadata"])["deletionTimestamp"] == nil
		gone = released(object)
		switch {
		case gone && unmarked && a.kind.is("pods", "") && !a.dryRun: // watches see a deletion timestamp on pods, even if they are removed at once
			now, ok, err := a.put(before, object)
			if err != nil {
				return nil, false, err
			}
			if ok {
				a.server.stored(a.kind, now)
				marked = true
			}
			continue
		case gone && !a.kind.is("pods", "") && (a.kind.crd != nil || unmarked):
			object = before.Object() // without a deletion timestamp
		case gone, !same:
			if err := a.toStorage(object); err != nil {
				return nil, false, err
			}
		}
		if a.dryRun {
			raw, err := rawjson.Encode(object)
			return &store.Item{Key: before.Key, Raw: raw, Version: before.Version}, gone, err
		}
		var ok bool
		switch {
		case gone:
			last, ok, err = a.server.db.Remove(collection, a.key(), before, object)
		case same:
			a.server.stored(a.kind, before) // retry the previous failures
			return before, false, nil
		default:
			last, ok, err = a.put(before, object)
		}
		if err != nil {
			return nil, false, err
		}
		if ok && gone {
			a.server.removed(a.kind, last)
			return last, true, nil
		} else if ok {
			a.server.stored(a.kind, last)
			if a.server.db.Get(collection, a.key()) == nil {
				return last, a.kind.resource.Plural != "namespaces", nil
			}
			return last, false, nil
		}
	}
}

func (a *apiRequest) precondition(o deleteOptions, live map[string]any) error {
	meta := rawjson.AsMap(live["metadata"])
	if want := o.Preconditions.UID; want != nil && *want != meta["uid"] {
		return a.kind.deletionConflict(a.name, fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *want, meta["uid"]))
	}
	if want := o.Preconditions.ResourceVersion; want != nil && *want != meta["resourceVersion"] {
		return a.kind.deletionConflict(a.name, fmt.Sprintf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *want, meta["resourceVersion"]))
	}
	return nil
}

// mark returns the object with a deletion timestamp.
func (a *apiRequest) mark(live map[string]any, o deleteOptions) map[string]any {
	object := rawjson.Clone(live).(map[string]any)
	meta := rawjson.AsMap(object["metadata"])
	policy := o.PropagationPolicy
	finalizers, _ := meta["finalizers"].([]any)
	switch orphan := o.OrphanDependents; {
	case orphan != nil && *orphan:
		policy = "Orphan"
	case orphan != nil && policy == "":
		policy = "Background"
	case policy == "" && a.kind.orphansDependents && !slices.Contains(finalizers, any(foregroundFinalizer)):
		policy = "Orphan"
	}
	if policy != "" { // it replaces the earlier one
		finalizers = slices.DeleteFunc(finalizers, func(f any) bool { return f == orphanFinalizer || f == foregroundFinalizer })
		delete(meta, "finalizers")
	}
	switch policy {
	case "Orphan":
		finalizers = append(finalizers, orphanFinalizer)
	case "Foreground":
		finalizers = append(finalizers, foregroundFinalizer)
	}
	if a.kind.resource.Plural == "customresourcedefinitions" && !slices.Contains(finalizers, any(definitionFinalizer)) && meta["deletionTimestamp"] == nil {
		finalizers = append(finalizers, definitionFinalizer)
		setCondition(mapAt(object, "status"), "Terminating", "True", "InstanceDeletionPending", "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon")
	}
	if len(finalizers) > 0 {
		meta["finalizers"] = finalizers
	}
	if meta["deletionTimestamp"] != nil {
		return object
	}
	meta["deletionTimestamp"] = unstructured.Timestamp(time.Now())
	if a.kind.isDefinitions() {
		return object
	}
	meta["deletionGracePeriodSeconds"] = json.Number("0")
	if a.kind.generation {
		raiseGeneration(object)
	}
	if a.kind.resource.Plural == "namespaces" {
		delete(meta, "deletionGracePeriodSeconds")
		object["status"] = map[string]any{"phase": "Terminating"}
	}
	return object
}

func (a *apiRequest) deleteCollection(w http.ResponseWriter, r *http.Request) error {
	o, err := a.deleteOptions()
	if err != nil {
		return err
	}
	sel, err := a.selection()
	if err != nil {
		return err
	}
	limit, err := a.number("limit")
	if err != nil {
		return err
	}
	items, version, from, err := a.page(limit > 0)
	if err != nil {
		return err
	}
	chosen, rest, err := a.choose(sel, items[from:], int(limit))
	if err != nil {
		return err
	}
	var deleted []*store.Item
	for _, i := range chosen {
		one := *a
		one.verb, one.name, one.namespace, one.ofCollection = "delete", i.Name, i.Namespace, true
		err := one.deleteObject(o)
		a.warnings = one.warnings
		if e := (*apierrors.StatusError)(nil); errtype.As(err, &e) && e.Code == 404 {
			continue
		} else if err != nil {
			return err
		}
		deleted = append(deleted, i)
	}
	meta := a.listMeta(version)
	a.continueAt(sel, meta, version, items[from:], rest)
	a.warn(w)
	a.server.write(w, r, 200, a.answer(asObjects, deleted, meta))
	return nil
}

// released reports whether an object is marked for deletion and has no finalizers left.
func released(object map[string]any) bool {
	meta := rawjson.AsMap(object["metadata"])
	if meta["deletionTimestamp"] == nil || !rawjson.IsEmpty(meta["finalizers"]) {
		return false
	}
	if grace, ok := meta["deletionGracePeriodSeconds"].(json.Number); ok && grace != "0" {
		return false
	}
	if object["kind"] == "Namespace" && object["apiVersion"] == "v1" {
		return rawjson.IsEmpty(rawjson.AsMap(object["spec"])["finalizers"])
	}
	return true
}
