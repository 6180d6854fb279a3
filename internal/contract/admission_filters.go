package contract

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kopf-go/kopf"
)

// This suite proves which objects the filters of admission handlers look at, and how these objects
// are named. The leaf itself sends the reviews, as in admission_reviews.go.

var _ = ClusterSuite("admission_filters", func(t *testing.T, c *C) {
	c.Run(t, "DF-52 an update is reviewed if the old or the new object matches the filters", proveAdmissionFormerFilters)
	c.Run(t, "DF-52 the filters of other operations look at their only object", proveAdmissionOnlyFilters)
	c.Run(t, "DF-56 an object without metadata has the name and the namespace of the request", proveAdmissionNames)
})

// protecting registers a denying handler for each kind of filter, and returns their paths.
func protecting(registry *kopf.Registry) (ids []string) {
	deny := func(context.Context, *kopf.Admission) error { return kopf.Deny("called", 403) }
	isFive := func(v *kopf.FieldValue) bool { return v.Present && v.Object.Spec().Int("x") == 5 }
	for id, opts := range map[string]kopf.AdmissionOptions{
		"labels":       {Labels: kopf.Match{"l": "1"}},
		"annotations":  {Annotations: kopf.Match{"n": kopf.Present}},
		"value/spec.x": {Field: "spec.x", Value: 5},
		"field/spec.y": {Field: "spec.y"},
		"of/spec.x":    {Field: "spec.x", Value: isFive},
		"when":         {When: func(a *kopf.Admission) bool { return a.Spec().Int("x") == 5 }},
		"all/spec.x":   {Labels: kopf.Match{"l": "1"}, Field: "spec.x", When: func(a *kopf.Admission) bool { return a.Body.Has("spec.y") }},
	} {
		ids = append(ids, id)
		opts.ID = kopf.HandlerID(strings.Split(id, "/")[0])
		registry.OnValidate(Examples, deny, &opts)
	}
	return ids
}

func proveAdmissionFormerFilters(c *C) {
	registry, l := &kopf.Registry{}, &asking{}
	ids := protecting(registry)
	registry.OnMutate(Examples, l.handler("mutate", nil), &kopf.AdmissionOptions{ID: "mutate", Labels: kopf.Match{"l": "1"}})
	registry.OnValidate(Examples, func(_ context.Context, a *kopf.Admission) error {
		return l.handler(fmt.Sprintf("%v %v %v", a.Spec().Get("x"), a.Old.Get("spec.x"), a.New.Get("spec.x")), nil)(nil, nil)
	}, &kopf.AdmissionOptions{ID: "args", Annotations: kopf.Match{"n": kopf.Present}})
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "panics", When: func(a *kopf.Admission) bool {
		if a.Spec().Int("x") == 5 {
			panic("oops")
		}
		return false
	}})
	s, _ := c.Reviewed(registry)
	plain := map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"x": 1}}
	marked := map[string]any{
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"l": "1"}, "annotations": map[string]any{"n": ""}},
		"spec":     map[string]any{"x": 5, "y": nil},
	}
	update := func(before, after map[string]any) map[string]any {
		return map[string]any{"operation": "UPDATE", "object": after, "oldObject": before}
	}
	for _, id := range ids {
		for what, review := range map[string]map[string]any{
			"loses":  update(marked, plain),
			"gets":   update(plain, marked),
			"keeps":  update(marked, marked),
			"misses": update(plain, plain),
		} {
			if called := s.ask(c, id, review)["allowed"] == false; called != (what != "misses") {
				c.Errorf("%s: an update that %s the match: called is %t", id, what, called)
			}
		}
	}
	half := map[string]any{"metadata": map[string]any{"name": "a", "labels": map[string]any{"l": "1"}}, "spec": map[string]any{"x": 1}}
	rest := map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"x": 1, "y": 2}}
	expect(c, "objects that match only together", s.ask(c, "all/spec.x", update(half, rest)), admitted)
	s.ask(c, "mutate", update(marked, plain))
	s.ask(c, "args", update(marked, plain))
	expect(c, "the calls", l.take(), []string{"mutate", "1 5 1"})
	if _, err := s.raw(c, &kopf.ReviewRequest{Handler: "panics", Body: c.reviewOf(update(marked, plain))}); err == nil {
		c.Error("a review was answered though its filter has panicked with the old object")
	}
}

func proveAdmissionOnlyFilters(c *C) {
	registry := &kopf.Registry{}
	deny := func(context.Context, *kopf.Admission) error { return kopf.Deny("called", 403) }
	registry.OnValidate(Examples, deny, &kopf.AdmissionOptions{ID: "labels", Labels: kopf.Match{"l": "1"}, Subresource: "*"})
	registry.OnValidate(Examples, deny, &kopf.AdmissionOptions{ID: "missing", Labels: kopf.Match{"l": kopf.Absent}, Subresource: "*"})
	registry.OnValidate(Examples, deny, &kopf.AdmissionOptions{ID: "options", Field: "command", Subresource: "*"})
	s, _ := c.Reviewed(registry)
	labelled := map[string]any{"metadata": map[string]any{"name": "a", "labels": map[string]any{"l": "1"}}}
	options := map[string]any{"apiVersion": "v1", "kind": "PodExecOptions", "command": []any{"sh"}}
	for what, tt := range map[string]struct {
		review map[string]any
		want   []bool // whether the handlers are called
	}{
		"a creation":   {map[string]any{"object": labelled}, []bool{true, false, false}},
		"a deletion":   {map[string]any{"operation": "DELETE", "object": nil, "oldObject": labelled}, []bool{true, false, false}},
		"a connection": {map[string]any{"operation": "CONNECT", "subResource": "exec", "object": options}, []bool{false, true, true}},
	} {
		var called []bool
		for _, id := range []string{"labels", "missing", "options/command"} {
			called = append(called, s.ask(c, id, tt.review)["allowed"] == false)
		}
		expect(c, what, called, tt.want)
	}
}

func proveAdmissionNames(c *C) {
	registry := &kopf.Registry{}
	var got []string
	see := func(_ context.Context, a *kopf.Admission) error {
		got = []string{a.Name(), a.Namespace(), a.Body.Name(), a.Body.Reference().String()}
		return nil
	}
	registry.OnValidate(Examples, see, &kopf.AdmissionOptions{ID: "fn", Subresource: "*"})
	registry.OnValidate("kopfclusterexamples", see, &kopf.AdmissionOptions{ID: "cluster", Subresource: "*"})
	s, _ := c.Reviewed(registry)
	options := map[string]any{"apiVersion": "v1", "kind": "PodExecOptions", "command": []any{"sh"}}
	connect := map[string]any{"operation": "CONNECT", "subResource": "exec", "name": "web", "object": options}
	s.ask(c, "fn", connect)
	expect(c, "a connection", got, []string{"web", c.Namespace, "web", c.Namespace + "/web"})
	s.ask(c, "fn", map[string]any{"subResource": "token", "name": "web", "object": map[string]any{"metadata": map[string]any{"creationTimestamp": nil}}})
	expect(c, "a request for a token", got, []string{"web", c.Namespace, "web", c.Namespace + "/web"})
	s.ask(c, "fn", map[string]any{"operation": "DELETE", "name": "web", "object": nil, "oldObject": map[string]any{"spec": nil}})
	expect(c, "a deletion", got, []string{"web", c.Namespace, "web", c.Namespace + "/web"})
	s.ask(c, "fn", map[string]any{"name": "other", "object": map[string]any{"metadata": map[string]any{"name": "own", "namespace": "here"}}})
	expect(c, "an object with its own name", got, []string{"own", "here", "own", "here/own"})
	s.ask(c, "fn", map[string]any{"object": map[string]any{"metadata": map[string]any{"generateName": "a-"}}})
	expect(c, "an object without a name", got, []string{"", c.Namespace, "", c.Namespace + "/a-"})
	resource := map[string]any{"group": "kopf.dev", "version": "v1", "resource": "kopfclusterexamples"}
	s.ask(c, "cluster", map[string]any{"resource": resource, "name": "web", "namespace": "web", "object": map[string]any{"spec": nil}})
	expect(c, "an object outside of namespaces", got, []string{"web", "", "web", "web"})
}
