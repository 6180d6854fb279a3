package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/patch"
	"github.com/kopf-go/kopf/internal/apiserver/selector"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

// admission is one change that the server sends to admission webhooks. It runs on the goroutine of the request, which waits for the responses.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
type admission struct {
	*apiRequest
	operation    string         // CREATE, UPDATE or DELETE
	live, object map[string]any // live is nil for creations, object for deletions
	mutating     bool
	posted       *kindInfo // the kind that is posted to a subresource, such as an Eviction; nil for the object itself, or its scale
}

// admit calls the mutating or the validating webhooks. The live object is nil for creations, and the object is nil for deletions. Mutating webhooks
// change the object in place. The server calls no webhooks for its own changes, except those that controllers of a real cluster make by requests.
func (a *apiRequest) admit(live, object map[string]any, mutating bool) error {
	if a.ctx == nil || a.kind.resource.Group == "admissionregistration.k8s.io" {
		return nil
	}
	d := &admission{apiRequest: a, operation: "UPDATE", live: live, object: object, mutating: mutating}
	switch {
	case live == nil:
		d.operation = "CREATE"
	case object == nil:
		d.operation = "DELETE"
	}
	return d.admit()
}

// admitPosted calls the webhooks for an object that is posted to a subresource.
func (a *apiRequest) admitPosted(group, version, kind string, object map[string]any) error {
	if a.ctx == nil {
		return nil
	}
	posted := &kindInfo{resource: apiResource{Group: group, Version: version, Kind: kind}}
	for _, mutating := range []bool{true, false} {
		d := &admission{apiRequest: a, operation: "CREATE", object: object, mutating: mutating, posted: posted}
		if err := d.admit(); err != nil {
			return err
		}
	}
	return nil
}

// admit calls the webhooks.
func (a *admission) admit() error {
	hooks := a.hooks()
	if !a.mutating {
		return a.validate(slices.DeleteFunc(hooks, func(h *webhook) bool { return !a.selects(h.spec) }))
	}
	return a.mutate(hooks)
}

// hooks returns the webhooks whose rules match the change, in order.
func (a *admission) hooks() []*webhook {
	collection := "validatingwebhookconfigurations.admissionregistration.k8s.io"
	if a.mutating {
		collection = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
	}
	items, _ := a.server.db.List(collection)
	var all []*webhook
	for _, i := range items {
		list, _ := i.Object()["webhooks"].([]any)
		for _, v := range list {
			h := newWebhook(rawjson.AsMap(v))
			if h.version = a.matchingVersion(rawjson.AsMap(v)); h.version != "" {
				all = append(all, h)
			}
		}
	}
	return all
}

// matchingVersion returns the version of the object that matches the rules of a webhook, "" if none
// does.
func (a *admission) matchingVersion(hook map[string]any) string {
	versions := []string{a.kind.resource.Version}
	if hook["matchPolicy"] != "Exact" { // the rules apply to all versions
		for _, k := range a.server.kinds() {
			if k.collection() == a.kind.collection() && k != a.kind {
				versions = append(versions, k.resource.Version)
			}
		}
	}
	rules, _ := hook["rules"].([]any)
	for _, version := range versions {
		if slices.ContainsFunc(rules, func(r any) bool { return a.fitsRule(rawjson.AsMap(r), version) }) {
			return version
		}
	}
	return ""
}

// fitsRule reports whether the change matches a rule in a version.
func (a *admission) fitsRule(rule map[string]any, version string) bool {
	if !lists(rule["operations"], a.operation) || !lists(rule["apiGroups"], a.kind.resource.Group) || !lists(rule["apiVersions"], version) {
		return false
	}
	scope := unstructured.Text(rule, "scope")
	namespaced := a.kind.resource.Namespaced
	if scope == "Namespaced" && !namespaced || scope == "Cluster" && namespaced {
		return false
	}
	return slices.ContainsFunc(unstructured.Texts(rule["resources"]), func(text string) bool {
		resource, sub, _ := strings.Cut(text, "/")
		return (resource == "*" || resource == a.kind.resource.Plural) && (sub == "*" || sub == a.subresource)
	})
}

// lists reports whether a list of a rule has a value or a star.
func lists(list any, value string) bool {
	return slices.ContainsFunc(unstructured.Texts(list), func(text string) bool { return text == "*" || text == value })
}

// selects reports whether the selectors of a webhook match the change.
func (a *admission) selects(hook map[string]any) bool {
	one := selector.MatchesLabels(rawjson.AsMap(hook["objectSelector"]), a.object) || a.object == nil
	other := selector.MatchesLabels(rawjson.AsMap(hook["objectSelector"]), a.live) || a.live == nil
	switch {
	case a.object == nil && !other, a.live == nil && !one, !one && !other:
		return false
	}
	wanted := rawjson.AsMap(hook["namespaceSelector"])
	space := a.namespace
	if a.kind.collection() == "namespaces." {
		if a.object != nil {
			return selector.MatchesLabels(wanted, a.object)
		}
		space = a.name
	}
	if space == "" {
		return true
	}
	var namespace map[string]any
	if i := a.server.db.Get("namespaces.", space); i != nil {
		namespace = i.Object()
	}
	return selector.MatchesLabels(wanted, namespace)
}

// validate calls all webhooks concurrently. If several refuse the change, it returns the error of the first one in order.
func (a *admission) validate(hooks []*webhook) error {
	type verdict struct {
		warnings []string
		err      error
	}
	verdicts := make([]verdict, len(hooks))
	var asked sync.WaitGroup
	for i, h := range hooks {
		asked.Go(func() { _, verdicts[i].warnings, verdicts[i].err = a.ask(h) })
	}
	asked.Wait()
	var refusal error
	for _, v := range verdicts {
		a.warnings = append(a.warnings, v.warnings...)
		refusal = cmp.Or(refusal, v.err)
	}
	return refusal
}

// mutate calls the webhooks one after another, each with the object that the previous ones returned, if it selects that object. Webhooks with a
// reinvocation policy run again if later ones have changed the object.
func (a *admission) mutate(hooks []*webhook) error {
	changed := -1
	called := make([]bool, len(hooks))
	for i, h := range hooks {
		if called[i] = a.selects(h.spec); !called[i] {
			continue
		}
		did, err := a.mutateBy(h)
		if err != nil {
			return err
		}
		if did {
			changed = i
		}
	}
	for i, h := range hooks {
		if i < changed && h.again && called[i] && a.selects(h.spec) {
			if _, err := a.mutateBy(h); err != nil {
				return err
			}
		}
	}
	if changed < 0 || a.live == nil || a.subresource == "scale" {
		return nil
	}
	return a.rescope()
}

// rescope resets what the webhooks have changed beyond the scope of an update, such as the status in a
// request to the object itself.
func (a *admission) rescope() error {
	object, err := a.scope(a.live, maps.Clone(a.object))
	if err != nil {
		return err
	}
	clear(a.object)
	maps.Copy(a.object, object)
	return nil
}

// mutateBy calls one webhook, applies its patch, and reports whether the object has changed.
func (a *admission) mutateBy(h *webhook) (bool, error) {
	ops, warnings, err := a.ask(h)
	a.warnings = append(a.warnings, warnings...)
	if err != nil || len(ops) == 0 {
		return false, err
	}
	if a.object == nil {
		return false, apierrors.Internal(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", h.name))
	}
	shown, err := a.shown(h, a.object)
	if err != nil {
		return false, err
	}
	patched, err := patch.ApplyJSON(rawjson.Clone(shown), ops)
	if err != nil {
		return false, apierrors.Internal(err)
	}
	object, ok := patched.(map[string]any)
	if !ok {
		return false, apierrors.Internal(fmt.Errorf("admission webhook %q makes %s of the object", h.name, rawjson.KindOf(patched)))
	}
	if a.subresource == "scale" {
		if object, err = a.scaled(a.object, object); err != nil {
			return false, err
		}
	}
	if a.subresource != "scale" && a.kind.crd != nil && h.version != a.kind.resource.Version {
		if object, err = a.inVersion(object, a.kind.apiVersion()); err != nil {
			return false, apierrors.Internal(err)
		}
	}
	object["apiVersion"] = a.object["apiVersion"]
	if rawjson.AsMap(object["metadata"]) == nil {
		object["metadata"] = map[string]any{}
	}
	if why := untyped(a.kind, object); why != "" && a.subresource != "scale" && a.posted == nil {
		return false, apierrors.Internal(errors.New(why))
	}
	if rawjson.Equal(object, a.object) {
		return false, nil
	}
	clear(a.object)
	maps.Copy(a.object, object)
	a.canonical = false
	return true, nil
}

// shown returns an object in the version of the webhook, nil if it is nil.
func (a *admission) shown(h *webhook, object map[string]any) (any, error) {
	switch {
	case object == nil:
		return nil, nil
	case a.posted != nil:
		object = maps.Clone(object)
		object["apiVersion"], object["kind"] = a.posted.apiVersion(), a.posted.resource.Kind
		return object, nil
	case a.subresource == "scale":
		return a.scaleOf(object), nil
	}
	r := a.kind.resource
	r.Version = h.version
	if a.kind.crd != nil && h.version != a.kind.resource.Version {
		return a.inVersion(object, r.APIVersion())
	}
	object = maps.Clone(object)
	object["apiVersion"] = r.APIVersion()
	return object, nil
}

// ask calls one webhook, and returns its patch and its warnings. It ignores failures if the webhook
// has the failure policy Ignore.
func (a *admission) ask(h *webhook) (patch []byte, warnings []string, err error) {
	if a.dryRun && h.effects {
		return nil, nil, apierrors.BadRequest("admission webhook %q does not support dry run", h.name)
	}
	ctx, cancel := context.WithTimeout(a.ctx, h.timeout)
	defer cancel()
	uid := a.server.newUID()
	review, err := a.review(h, uid)
	if err != nil {
		return nil, nil, apierrors.Internal(err)
	}
	response, err := h.call(ctx, a.server, review)
	if err == nil {
		if patch, err = a.judge(response, uid); err != nil {
			err = fmt.Errorf("received invalid webhook response: %w", err)
		}
	}
	if err != nil {
		if h.ignore && a.ctx.Err() == nil {
			a.server.opts.Logger.Warn("An admission webhook failed; ignoring the failure", "webhook", h.name, "error", err, "help", "K1204")
			return nil, nil, nil
		}
		return nil, nil, apierrors.Internal(fmt.Errorf("failed calling webhook %q: %w", h.name, err))
	}
	warnings = unstructured.Texts(response["warnings"])
	if response["allowed"] != true {
		return nil, warnings, denial(h.name, rawjson.AsMap(response["status"]))
	}
	return patch, warnings, nil
}

// review returns the AdmissionReview for a webhook.
func (a *admission) review(h *webhook, uid string) (map[string]any, error) {
	r := &a.kind.resource
	kind := func(version string) map[string]any {
		if a.posted != nil {
			return unstructured.GroupVersionKind(a.posted.resource.Group, a.posted.resource.Version, a.posted.resource.Kind)
		}
		if a.subresource == "scale" {
			return unstructured.GroupVersionKind("autoscaling", "v1", "Scale")
		}
		return unstructured.GroupVersionKind(r.Group, version, r.Kind)
	}
	resource := func(version string) map[string]any {
		return map[string]any{"group": r.Group, "version": version, "resource": r.Plural}
	}
	request := map[string]any{
		"uid": uid, "operation": a.operation, "dryRun": a.dryRun, "userInfo": a.userInfo(), "options": a.options(),
		"kind": kind(h.version), "resource": resource(h.version), "requestKind": kind(r.Version), "requestResource": resource(r.Version),
	}
	var err error
	if request["object"], err = a.shown(h, a.object); err != nil {
		return nil, err
	}
	if request["oldObject"], err = a.shown(h, a.live); err != nil {
		return nil, err
	}
	if a.namespace != "" {
		request["namespace"] = a.namespace
	} else if a.kind.collection() == "namespaces." {
		request["namespace"] = a.name
	}
	if !a.ofCollection {
		request["name"] = a.name
	}
	if a.subresource != "" {
		request["subResource"], request["requestSubResource"] = a.subresource, a.subresource
	}
	return map[string]any{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}, nil
}

// userInfo returns the only user that sends requests.
func userInfo() map[string]any {
	return map[string]any{"username": "kopf", "groups": []any{"system:masters", "system:authenticated"}}
}

// userInfo returns the user who sends the request: a service account for the controllers in this server.
func (a *apiRequest) userInfo() map[string]any {
	if a.controller == "" {
		return userInfo()
	}
	return map[string]any{
		"username": "system:serviceaccount:kube-system:" + a.controller,
		"groups":   []any{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
	}
}

// options returns the options of the request.
func (a *admission) options() map[string]any {
	o := map[string]any{"kind": optionsOf(strings.ToLower(a.operation)), "apiVersion": "meta.k8s.io/v1"}
	if a.operation == "DELETE" && a.deletion != nil {
		a.deletion.describe(o)
	}
	for _, key := range []string{"fieldManager", "fieldValidation", "propagationPolicy"} {
		if v := a.query.Get(key); v != "" {
			o[key] = v
		}
	}
	if a.dryRun {
		o["dryRun"] = []any{"All"}
	}
	return o
}

// judge checks the response of a webhook, and returns its patch.
func (a *admission) judge(response map[string]any, uid string) ([]byte, error) {
	if response["uid"] != uid {
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, unstructured.Word(response["uid"]))
	}
	text := unstructured.Text(response, "patch")
	typ, hasType := response["patchType"].(string)
	switch {
	case text == "" && !hasType:
		return nil, nil
	case !a.mutating:
		return nil, errors.New("validating webhook may not return response.patch")
	case text != "" && !hasType:
		return nil, errors.New("webhook returned response.patch but not response.patchType")
	case text == "":
		return nil, errors.New("webhook returned response.patchType but not response.patch")
	case typ != "JSONPatch":
		return nil, fmt.Errorf("invalid value of response.patchType %q", typ)
	}
	return decodeBase64(text)
}

// denial returns the error for a change that a webhook denied, with its message and details.
func denial(webhook string, status map[string]any) error {
	e := &apierrors.StatusError{Code: 400, Details: rawjson.AsMap(status["details"])}
	if n := validation.Number(unstructured.Word(status["code"])); n > e.Code {
		e.Code = n
	}
	e.Reason = unstructured.Text(status, "reason")
	e.Message = fmt.Sprintf("admission webhook %q denied the request", webhook)
	if text, _ := status["message"].(string); text != "" {
		e.Message += ": " + text
	} else if e.Reason != "" {
		e.Message += ": " + e.Reason
	} else {
		e.Message += " without explanation"
	}
	return e
}
