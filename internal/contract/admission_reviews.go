package contract

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This suite proves how an operator answers reviews: by which handlers, with what arguments, and in which form. The leaf itself sends the reviews,
// without an API server.

var _ = ClusterSuite("admission_reviews", func(t *testing.T, c *C) {
	c.Run(t, "AC-3 the id is the function's name and the field", proveAdmissionIDs)
	c.Run(t, "AC-4 handlers get the object and the circumstances", proveAdmissionArguments)
	c.Run(t, "AC-5 the body is the new object, or the old one of a deletion, and nothing is narrowed", proveAdmissionBodies)
	c.Run(t, "AC-6 who asks is told as it was sent", proveAdmissionUsers)
	c.Run(t, "AC-T5 the patch of a validating handler is dropped, with one warning", proveAdmissionDroppedPatch)
	c.Run(t, "AC-7 warnings come back", proveAdmissionWarnings)
	c.Run(t, "DF-55 warnings have no characters that API servers refuse", proveAdmissionPrintableWarnings)
	c.Run(t, "AC-8 filters that do not fit admit", proveAdmissionFilters)
	c.Run(t, "AC-9 nothing but the patch goes into the answer", proveAdmissionPlainAnswer)
	c.Run(t, "AC-11 a resource without handlers is refused", proveAdmissionUnknownResource)
	c.Run(t, "AC-12 what is no review is refused with its code", proveAdmissionRefusals)
	c.Run(t, "AC-13 an id asks its handlers alone", proveAdmissionIDAsked)
	c.Run(t, "AC-14 no id asks all handlers in order with one patch", proveAdmissionAllAsked)
	c.Run(t, "AC-15 subresources are told apart", proveAdmissionSubresources)
	c.Run(t, "AC-16 mutating handlers see deletions only if they are for them alone", proveAdmissionDeletions)
	c.Run(t, "AC-18 all handlers are called, each once, though the first denies", proveAdmissionAllCalled)
	c.Run(t, "AC-19 any error denies and is logged, with no events", proveAdmissionErrors)
	c.Run(t, "DF-41 runtime.Goexit denies a review, and in its filter fails it", proveAdmissionGoexit)
	c.Run(t, "AC-20 the default code is 500", proveAdmissionCodes)
	c.Run(t, "AC-21 the worst error is told", proveAdmissionWorst)
	c.Run(t, "AC-24 the answer repeats version, kind and uid", proveAdmissionAnswer)
	c.Run(t, "AC-25 empty things are left out", proveAdmissionEmpty)
	c.Run(t, "AC-26 the patch is the least JSON patch", proveAdmissionPatch)
	c.Run(t, "AC-27 a patch made before a denial is in the answer", proveAdmissionPatchDenied)
	c.Run(t, "AC-T1 an unknown id is refused", proveAdmissionUnknownID)
	c.Run(t, "AC-T4 operations are checked", proveAdmissionOperations)
	c.Run(t, "AC-T5 a validating handler never patches, and shared ids are told apart", proveAdmissionSharedID)
	c.Run(t, "AC-T6 other namespaces are admitted unhandled", proveAdmissionNamespaces)
	c.Run(t, "AC-T8 the context ends before the API server gives up", proveAdmissionTimeout)
	c.Run(t, "BG-98 operations but creations share the memo of the object", proveAdmissionMemos)
	c.Run(t, "BG-T21 reviews keep memos apart for a while, and no resuming is lost", proveAdmissionMemoLife)
	c.Run(t, "AC-40 handlers without a server end the operator", proveAdmissionNoServer)
	c.Run(t, "AC-42 a server that returns ends the operator", proveAdmissionServerEnds)
})

// reviewer is an admission server to which the leaf sends reviews.
type reviewer struct {
	mu       sync.Mutex // guards following
	review   kopf.ReviewFunc
	announce func(kopf.WebhookClientConfig)
	started  time.Time
	fails    chan error
}

func (s *reviewer) Serve(ctx context.Context, review kopf.ReviewFunc, announce func(kopf.WebhookClientConfig)) error {
	s.mu.Lock()
	s.review, s.announce, s.started = review, announce, time.Now()
	s.mu.Unlock()
	announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:1/hooks/"})
	select {
	case err := <-s.fails:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (s *reviewer) serves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.review != nil
}

// Reviewed starts an operator with a server to which the leaf sends reviews.
func (c *C) Reviewed(registry *kopf.Registry, adjust ...func(*kopf.Operator)) (*reviewer, *Running) {
	c.Helper()
	s := &reviewer{fails: make(chan error, 1)}
	op := c.Operator(registry, append([]func(*kopf.Operator){func(op *kopf.Operator) { op.Settings.Admission.Server = s }}, adjust...)...)
	c.WaitFor("the server", s.serves)
	return s, op
}

// reviewOf is the JSON of a review of a KopfExample, with changes to the request; nil removes a key.
func (c *C) reviewOf(changes map[string]any) []byte {
	request := map[string]any{
		"uid": "u1", "operation": "CREATE", "namespace": c.Namespace, "userInfo": map[string]any{"username": "joe"},
		"resource": map[string]any{"group": "kopf.dev", "version": "v1", "resource": "kopfexamples"},
		"object":   map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": "a", "namespace": c.Namespace}, "spec": map[string]any{"x": 1}},
	}
	for key, value := range changes {
		if request[key] = value; value == nil {
			delete(request, key)
		}
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
	if err != nil {
		c.Fatal(err)
	}
	return data
}

// ask sends a review, and returns the response.
func (s *reviewer) ask(c *C, id string, changes map[string]any) map[string]any {
	c.Helper()
	answer, err := s.raw(c, &kopf.ReviewRequest{Handler: id, Body: c.reviewOf(changes)})
	if err != nil {
		c.Fatalf("the review of %q: %v", id, err)
	}
	response, _ := answer["response"].(map[string]any)
	return response
}

func (s *reviewer) raw(c *C, r *kopf.ReviewRequest) (map[string]any, error) {
	data, err := s.review(c.Context(), r)
	if err != nil {
		return nil, err
	}
	var answer map[string]any
	return answer, json.Unmarshal(data, &answer)
}

// refused returns the code by which the operator refuses a review, 0 if it accepts the review.
func (s *reviewer) refused(c *C, id string, body []byte) int {
	_, err := s.review(c.Context(), &kopf.ReviewRequest{Handler: id, Body: body})
	if wrong := (*kopf.ReviewError)(nil); errors.As(err, &wrong) {
		return wrong.Code
	}
	return 0
}

// asking keeps the names of the called handlers.
type asking struct {
	mu   sync.Mutex // guards list
	list []string
}

func (l *asking) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

// handler returns a handler that keeps its name, and returns the error.
func (l *asking) handler(name string, err error) kopf.AdmissionFunc {
	return func(context.Context, *kopf.Admission) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.list = append(l.list, name)
		return err
	}
}

var admitted = map[string]any{"uid": "u1", "allowed": true}

func expect(c *C, what string, got, want any) {
	c.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		c.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func namedAdmission(context.Context, *kopf.Admission) error { return kopf.Deny("it was asked", 0) }

func proveAdmissionIDs(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, namedAdmission, nil)
	registry.OnValidate(Examples, namedAdmission, &kopf.AdmissionOptions{Field: "spec.x"})
	registry.OnValidate(Examples, namedAdmission, &kopf.AdmissionOptions{ID: "own"})
	s, _ := c.Reviewed(registry)
	for _, id := range []string{"namedAdmission", "namedAdmission/spec.x", "own"} {
		if s.ask(c, id, nil)["allowed"] != false {
			c.Errorf("the handler %q was not called", id)
		}
	}
}

func proveAdmissionArguments(c *C) {
	registry := &kopf.Registry{}
	var got *kopf.Admission
	var started time.Time
	registry.OnMutate(Examples, func(_ context.Context, a *kopf.Admission) error {
		got, started = a, time.Now()
		return nil
	}, &kopf.AdmissionOptions{ID: "fn", Param: 7, Subresource: "*"})
	s, _ := c.Reviewed(registry)
	s.ask(c, "fn", map[string]any{"subResource": "status", "dryRun": true, "object": map[string]any{
		"metadata": map[string]any{"generateName": "a-", "labels": map[string]any{"l": "1"}, "annotations": map[string]any{"n": "2"}}, "spec": map[string]any{"x": 5}, "status": map[string]any{"y": 6},
	}})
	expect(c, "the arguments", map[string]any{
		"name": got.Name(), "labels": got.Labels(), "annotations": got.Annotations(), "spec": got.Spec().Int("x"), "status": got.Status().Int("y"), "param": got.Param,
		"operation": got.Operation, "sub": got.Subresource, "dry": got.DryRun, "retry": got.Retry, "resource": got.Resource.Name(), "patch": got.Patch != nil,
		"client": got.Client != nil, "logger": got.Logger != nil, "memo": got.Memo() != nil, "started": !got.Started.IsZero() && !got.Started.After(started),
	}, map[string]any{
		"name": "", "labels": map[string]string{"l": "1"}, "annotations": map[string]string{"n": "2"}, "spec": int64(5), "status": int64(6), "param": 7,
		"operation": kopf.OperationCreate, "sub": "status", "dry": true, "retry": 0, "resource": "kopfexamples.v1.kopf.dev", "patch": true,
		"client": true, "logger": true, "memo": true, "started": true,
	})
}

func proveAdmissionBodies(c *C) {
	registry := &kopf.Registry{}
	var got []string
	registry.OnValidate(Examples, func(_ context.Context, a *kopf.Admission) error {
		got = []string{fmt.Sprint(a.Spec().Get("x")), fmt.Sprint(a.Old.Get("spec.x")), fmt.Sprint(a.New.Get("spec.x")), fmt.Sprint(a.Diff())}
		return nil
	}, &kopf.AdmissionOptions{ID: "fn", Field: "spec"})
	s, _ := c.Reviewed(registry)
	before := map[string]any{"metadata": map[string]any{"name": "a", "generation": 1}, "spec": map[string]any{"x": 1}}
	after := map[string]any{"metadata": map[string]any{"name": "a", "generation": 2}, "spec": map[string]any{"x": 2}}
	s.ask(c, "fn/spec", map[string]any{"operation": "UPDATE", "object": after, "oldObject": before})
	if !strings.Contains(got[3], "metadata") || !strings.Contains(got[3], "generation") || !strings.Contains(got[3], "x") {
		c.Errorf("the difference of an update is %s", got[3])
	}
	expect(c, "an update", got[:3], []string{"2", "1", "2"})
	s.ask(c, "fn/spec", map[string]any{"operation": "DELETE", "object": nil, "oldObject": before})
	expect(c, "a deletion", got[:3], []string{"1", "1", "<nil>"})
	s.ask(c, "fn/spec", map[string]any{"object": after})
	expect(c, "a creation", got[:3], []string{"2", "<nil>", "2"})
}

func proveAdmissionUsers(c *C) {
	registry := &kopf.Registry{}
	var got *kopf.Admission
	registry.OnValidate(Examples, func(_ context.Context, a *kopf.Admission) error { got = a; return nil }, &kopf.AdmissionOptions{ID: "fn"})
	s, _ := c.Reviewed(registry)
	user := map[string]any{"username": "joe", "groups": []any{"g"}, "extra": map[string]any{"k": []any{"v"}}, "new": "field"}
	if _, err := s.raw(c, &kopf.ReviewRequest{Handler: "fn", Body: c.reviewOf(map[string]any{"userInfo": user}), Header: http.Header{"X-A": {"b"}}}); err != nil {
		c.Fatal(err)
	}
	expect(c, "the user", got.UserInfo.Map(), user)
	expect(c, "the rest", []any{got.DryRun, got.Subresource, got.Request.Header.Get("X-A"), got.Request.Peer == nil}, []any{false, "", "b", true})
	s.ask(c, "fn", nil)
	if got.Request.Header.Get("X-A") != "" {
		c.Error("there are headers that were not sent")
	}
}

func proveAdmissionDroppedPatch(c *C) {
	registry := &kopf.Registry{}
	seen := 0
	for _, id := range []kopf.HandlerID{"one", "two"} {
		registry.OnValidate(Examples, func(_ context.Context, a *kopf.Admission) error {
			seen += len(a.Patch.Map())
			if id == "one" {
				a.Patch.Set("spec.x", 77)
			}
			return nil
		}, &kopf.AdmissionOptions{ID: id})
	}
	registry.OnMutate(Examples, func(_ context.Context, a *kopf.Admission) error {
		a.Patch.Set("spec.x", 77)
		return nil
	}, &kopf.AdmissionOptions{ID: "mutate"})
	s, op := c.Reviewed(registry)
	for range 2 {
		s.ask(c, "one", nil)
		s.ask(c, "two", nil)
		s.ask(c, "mutate", nil)
	}
	expect(c, "the changes before the calls", seen, 0)
	lines := op.Logs.Find("The patch of a validating handler was dropped")
	if len(lines) != 1 || lines[0].Attrs["handler"] != "one" || lines[0].Attrs["help"] != "K1022" {
		c.Errorf("got the lines %v, want one of the handler one", lines)
	}
}

func proveAdmissionWarnings(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, func(_ context.Context, a *kopf.Admission) error {
		a.Warn("first")
		a.Warn(strings.Repeat("word ", 60))
		a.Warn(strings.Repeat("é", 300))
		a.Warn(strings.Repeat("x", 256))
		return kopf.Deny("no", 0)
	}, &kopf.AdmissionOptions{ID: "fn"})
	s, _ := c.Reviewed(registry)
	expect(c, "the warnings", s.ask(c, "fn", nil)["warnings"], []any{
		"first", strings.Repeat("word ", 50) + "word…", strings.Repeat("é", 255) + "…", strings.Repeat("x", 256),
	})
}

func proveAdmissionPrintableWarnings(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, func(_ context.Context, a *kopf.Admission) error {
		a.Warn(errors.Join(errors.New("one problem"), errors.New("another one")).Error() + "\n")
		a.Warn("a\ttable\r\n\r\nof \"two\" \\ lines")
		a.Warn("\x1b[31mred\x1b[0m\u0085é")
		a.Warn("latin-1: \xe9")
		a.Warn(strings.Repeat("word\n", 60))
		a.Warn("")
		a.Warn(" \n\x00")
		return nil
	}, &kopf.AdmissionOptions{ID: "fn"})
	s, _ := c.Reviewed(registry)
	expect(c, "the warnings", s.ask(c, "fn", nil)["warnings"], []any{
		"one problem another one", `a table of "two" \ lines`, "[31mred [0m é", "latin-1: \ufffd", strings.Repeat("word ", 50) + "word…",
	})
}

func proveAdmissionFilters(c *C) {
	registry := &kopf.Registry{}
	deny := func(context.Context, *kopf.Admission) error { return kopf.Deny("called", 400) }
	registry.OnValidate(Examples, deny, &kopf.AdmissionOptions{ID: "labels", Labels: kopf.Match{"l": "1"}})
	registry.OnValidate(Examples, deny, &kopf.AdmissionOptions{ID: "annotations", Annotations: kopf.Match{"n": kopf.Present}})
	registry.OnValidate(Examples, deny, &kopf.AdmissionOptions{ID: "value", Field: "spec.x", Value: 5})
	registry.OnValidate(Examples, deny, &kopf.AdmissionOptions{ID: "when", When: func(a *kopf.Admission) bool {
		return a.Operation == kopf.OperationCreate && a.UserInfo.String("username") == "ann" && a.Param == 1
	}, Param: 1})
	registry.OnValidate(Examples, deny, &kopf.AdmissionOptions{ID: "panics", When: func(*kopf.Admission) bool { panic("oops") }})
	s, _ := c.Reviewed(registry)
	object := map[string]any{"metadata": map[string]any{"name": "a", "labels": map[string]any{"l": "1"}, "annotations": map[string]any{"n": ""}}, "spec": map[string]any{"x": 5}}
	for _, id := range []string{"labels", "annotations", "value/spec.x", "when"} {
		if diff := cmp.Diff(admitted, s.ask(c, id, nil)); diff != "" {
			c.Errorf("%s does not fit (-want +got):\n%s", id, diff)
		}
		if s.ask(c, id, map[string]any{"object": object, "userInfo": map[string]any{"username": "ann"}})["allowed"] != false {
			c.Errorf("%s fits, and is not called", id)
		}
	}
	if _, err := s.raw(c, &kopf.ReviewRequest{Handler: "panics", Body: c.reviewOf(nil)}); err == nil {
		c.Error("a review was answered though its filter has panicked")
	}
}

func proveAdmissionPlainAnswer(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "fn"})
	s, op := c.Reviewed(registry)
	expect(c, "the answer", s.ask(c, "fn", nil), admitted)
	op.Stop()
	if writes := op.Wire.Writes(); len(writes) > 0 {
		c.Errorf("something was written: %v", writes)
	}
}

func proveAdmissionUnknownResource(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "fn"})
	s, _ := c.Reviewed(registry)
	for _, r := range [][3]string{{"kopf.dev", "v1", "others"}, {"kopf.dev", "v2", "kopfexamples"}, {"", "v1", "kopfexamples"}, {"kopf.dev", "v1", "kopfstatusexamples"}} {
		body := c.reviewOf(map[string]any{"resource": map[string]any{"group": r[0], "version": r[1], "resource": r[2]}})
		for _, id := range []string{"", "fn"} {
			if code := s.refused(c, id, body); code != 404 {
				c.Errorf("%v by %q: the code is %d, want 404", r, id, code)
			}
		}
	}
}

func proveAdmissionRefusals(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "fn"})
	s, _ := c.Reviewed(registry)
	for _, test := range []struct {
		what string
		body []byte
		want int
	}{
		{"no JSON", []byte(`{"request":`), 400},
		{"something else", []byte(`[]`), 400},
		{"no request", []byte(`{}`), 500},
		{"a null request", []byte(`{"request":null}`), 500},
		{"no resource", c.reviewOf(map[string]any{"resource": nil}), 500},
		{"no user", c.reviewOf(map[string]any{"userInfo": nil}), 400},
		{"no object", c.reviewOf(map[string]any{"object": nil}), 400},
		{"an object that is none", c.reviewOf(map[string]any{"object": "text"}), 400},
		{"a review", c.reviewOf(nil), 0},
	} {
		if code := s.refused(c, "fn", test.body); code != test.want {
			c.Errorf("%s: the code is %d, want %d", test.what, code, test.want)
		}
	}
}

func proveAdmissionIDAsked(c *C) {
	registry, l := &kopf.Registry{}, &asking{}
	registry.OnValidate(Examples, l.handler("one", nil), &kopf.AdmissionOptions{ID: "one"})
	registry.OnValidate(Examples, l.handler("both-v", nil), &kopf.AdmissionOptions{ID: "both"})
	registry.OnMutate(Examples, l.handler("both-m", nil), &kopf.AdmissionOptions{ID: "both"})
	s, _ := c.Reviewed(registry)
	s.ask(c, "one", nil)
	expect(c, "one", l.take(), []string{"one"})
	s.ask(c, "both", nil)
	expect(c, "both", l.take(), []string{"both-v", "both-m"})
}

func proveAdmissionAllAsked(c *C) {
	registry := &kopf.Registry{}
	put := func(key string) kopf.AdmissionFunc {
		return func(_ context.Context, a *kopf.Admission) error {
			_, seen := a.Patch.Get("spec.v")
			a.Patch.Set(kopf.Path("spec", key), seen)
			a.Warn(key)
			return nil
		}
	}
	registry.OnValidate(Examples, put("v"), &kopf.AdmissionOptions{ID: "v"})
	registry.OnMutate(Examples, put("m"), &kopf.AdmissionOptions{ID: "m"})
	s, _ := c.Reviewed(registry)
	response := s.ask(c, "", nil)
	expect(c, "the warnings", response["warnings"], []any{"v", "m"})
	expect(c, "the patch", patchIn(c, response), []any{
		map[string]any{"op": "add", "path": "/spec/m", "value": true}, map[string]any{"op": "add", "path": "/spec/v", "value": false},
	})
}

// patchIn returns the decoded patch of a response.
func patchIn(c *C, response map[string]any) any {
	c.Helper()
	text, _ := response["patch"].(string)
	data, err := base64.StdEncoding.DecodeString(text)
	if text == "" || err != nil || response["patchType"] != "JSONPatch" {
		c.Fatalf("there is no patch in %v: %v", response, err)
	}
	var patch any
	if err := json.Unmarshal(data, &patch); err != nil {
		c.Fatal(err)
	}
	return patch
}

func proveAdmissionSubresources(c *C) {
	registry, l := &kopf.Registry{}, &asking{}
	for name, sub := range map[string]string{"main": "", "status": "status", "all": "*"} {
		registry.OnValidate(Examples, l.handler(name, nil), &kopf.AdmissionOptions{ID: kopf.HandlerID(name), Subresource: sub})
	}
	s, _ := c.Reviewed(registry)
	for sub, want := range map[string][]string{"": {"all", "main"}, "status": {"all", "status"}, "scale": {"all"}} {
		s.ask(c, "", map[string]any{"subResource": sub})
		got := l.take()
		slices.Sort(got)
		expect(c, "subresource "+sub, got, want)
	}
}

func proveAdmissionDeletions(c *C) {
	registry, l := &kopf.Registry{}, &asking{}
	registry.OnMutate(Examples, l.handler("any", nil), &kopf.AdmissionOptions{ID: "any"})
	registry.OnMutate(Examples, l.handler("also", nil), &kopf.AdmissionOptions{ID: "also", Operations: []kopf.Operation{"CREATE", "DELETE"}})
	registry.OnMutate(Examples, l.handler("only", nil), &kopf.AdmissionOptions{ID: "only", Operations: []kopf.Operation{"DELETE"}})
	registry.OnValidate(Examples, l.handler("validating", nil), &kopf.AdmissionOptions{ID: "validating"})
	s, _ := c.Reviewed(registry)
	s.ask(c, "", map[string]any{"operation": "DELETE", "object": nil, "oldObject": map[string]any{"metadata": map[string]any{"name": "a"}}})
	expect(c, "a deletion", l.take(), []string{"only", "validating"})
}

func proveAdmissionAllCalled(c *C) {
	registry, l := &kopf.Registry{}, &asking{}
	twice := l.handler("twice", kopf.Deny("no", 0))
	registry.OnValidate(Examples, twice, &kopf.AdmissionOptions{ID: "fn"})
	registry.OnValidate(Examples, twice, &kopf.AdmissionOptions{ID: "fn"})
	registry.OnValidate(Examples, l.handler("next", nil), &kopf.AdmissionOptions{ID: "fn"})
	registry.OnValidate(Examples, l.handler("other", errors.New("no")), &kopf.AdmissionOptions{ID: "other"})
	s, _ := c.Reviewed(registry)
	s.ask(c, "", nil)
	expect(c, "the calls", l.take(), []string{"twice", "next", "other"})
}

func proveAdmissionErrors(c *C) {
	registry := &kopf.Registry{}
	for id, err := range map[string]error{
		"denied": kopf.Deny("d", 403), "permanent": kopf.Permanent(errors.New("p")), "temporary": kopf.Temporary(errors.New("t"), time.Hour), "arbitrary": errors.New("a"), "fine": nil,
	} {
		registry.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return err }, &kopf.AdmissionOptions{ID: kopf.HandlerID(id)})
	}
	registry.OnValidate(Examples, func(context.Context, *kopf.Admission) error { panic("boom") }, &kopf.AdmissionOptions{ID: "panics"})
	registry.OnValidate(Examples, func(_ context.Context, a *kopf.Admission) error { a.Patch.Set("spec.f", func() {}); return nil }, &kopf.AdmissionOptions{ID: "bad-patch"})
	s, op := c.Reviewed(registry, func(op *kopf.Operator) { op.Settings.Posting.Enabled = true })
	for id, level := range map[string]string{"denied": "INFO", "permanent": "ERROR", "temporary": "WARN", "arbitrary": "ERROR", "panics": "ERROR", "bad-patch": "ERROR"} {
		if s.ask(c, id, nil)["allowed"] != false {
			c.Errorf("%s: the operation is admitted", id)
		}
		if lines := op.Logs.Find("Webhook '" + id + "' failed"); len(lines) != 1 || lines[0].Level.String() != level {
			c.Errorf("%s: the log has %v", id, lines)
		}
	}
	if lines := op.Logs.Find("Webhook 'panics' failed"); len(lines) == 1 && !strings.Contains(lines[0].Attrs["stack"], "admission_reviews.go") {
		c.Errorf("the stack is %q", lines[0].Attrs["stack"])
	}
	expect(c, "the answer of a success", s.ask(c, "fine", nil), admitted)
	if lines := op.Logs.Find("Webhook 'fine' succeeded."); len(lines) != 1 || lines[0].Level.String() != "INFO" {
		c.Errorf("the success is logged as %v", lines)
	}
	op.Stop()
	if posts := op.Wire.Requests("POST"); len(posts) > 0 {
		c.Errorf("events were posted: %v", posts)
	}
}

func proveAdmissionGoexit(c *C) {
	r := &kopf.Registry{}
	exit := func(context.Context, *kopf.Admission) error { runtime.Goexit(); return nil }
	r.OnValidate(Examples, exit, &kopf.AdmissionOptions{ID: "exits"})
	r.OnMutate(Examples, func(_ context.Context, a *kopf.Admission) error {
		a.Patch.Transform(func(map[string]any) error { runtime.Goexit(); return nil })
		return nil
	}, &kopf.AdmissionOptions{ID: "transforms"})
	when := func(*kopf.Admission) bool { runtime.Goexit(); return true }
	r.OnValidate(Examples, exit, &kopf.AdmissionOptions{ID: "filtered", When: when})
	s, _ := c.Reviewed(r)
	for _, id := range []string{"exits", "transforms"} {
		if s.ask(c, id, nil)["allowed"] != false {
			c.Errorf("%s: the operation is admitted", id)
		}
	}
	if _, err := s.raw(c, &kopf.ReviewRequest{Handler: "filtered", Body: c.reviewOf(nil)}); err == nil {
		c.Error("a review was answered though its filter has ended its goroutine")
	}
}

func proveAdmissionCodes(c *C) {
	registry := &kopf.Registry{}
	for id, err := range map[string]error{"none": kopf.Deny("m", 0), "own": fmt.Errorf("outer: %w", kopf.Deny("m", 409)), "low": kopf.Deny("m", 200), "made": &kopf.AdmissionError{Message: "m", Code: 302}, "silent": kopf.Deny("", 0),
		"caused": kopf.Deny("m", 422, kopf.ErrorCause{Reason: "FieldValueInvalid", Message: "too large", Field: "spec.size"}, kopf.ErrorCause{Message: "too old"})} {
		registry.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return err }, &kopf.AdmissionOptions{ID: kopf.HandlerID(id)})
	}
	s, _ := c.Reviewed(registry)
	for id, want := range map[string]map[string]any{
		"none":   {"message": "m", "code": 500.0},
		"own":    {"message": "outer: m", "code": 409.0},
		"low":    {"message": "invalid code 200 of a denial: want 400 to 599 (m)", "code": 500.0},
		"made":   {"message": "m", "code": 500.0},
		"silent": {"message": "the operation is denied", "code": 500.0},
		"caused": {"message": "m", "code": 422.0, "details": map[string]any{"causes": []any{
			map[string]any{"reason": "FieldValueInvalid", "message": "too large", "field": "spec.size"}, map[string]any{"message": "too old"},
		}}},
	} {
		expect(c, id, s.ask(c, id, nil)["status"], any(want))
	}
	if denied := (*kopf.AdmissionError)(nil); errors.As(kopf.Deny("m", 399), &denied) || !errors.As(kopf.Deny("m", 400), &denied) {
		c.Error("codes are refused from elsewhere than 400 on")
	}
}

func proveAdmissionWorst(c *C) {
	all := []struct {
		id  string
		err error
	}{
		{"a1", errors.New("a1")}, {"t1", kopf.Temporary(errors.New("t1"), 1)}, {"p1", kopf.Permanent(errors.New("p1"))}, {"d1", kopf.Deny("d1", 422)},
		{"a2", errors.New("a2")}, {"t2", kopf.Temporary(errors.New("t2"), 1)}, {"p2", kopf.Permanent(errors.New("p2"))}, {"d2", kopf.Deny("d2", 423)},
	}
	registry := &kopf.Registry{}
	for _, h := range all {
		registry.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return h.err }, &kopf.AdmissionOptions{ID: kopf.HandlerID(h.id), When: func(a *kopf.Admission) bool {
			return strings.Contains(a.UserInfo.String("username"), h.id)
		}})
	}
	registry.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return errors.New("") }, &kopf.AdmissionOptions{ID: "e", When: func(a *kopf.Admission) bool { return a.UserInfo.String("username") == "e" }})
	s, _ := c.Reviewed(registry)
	for _, test := range []struct {
		who, message string
		code         float64
	}{
		{"a1 t1 p1 d1 a2 t2 p2 d2", "d1", 422}, {"a1 t1 p1 a2 t2 p2", "p1", 500}, {"a1 t1 a2 t2", "t1", 500}, {"a1 a2", "a1", 500}, {"d2", "d2", 423}, {"e", "*errors.errorString", 500},
	} {
		expect(c, test.who, s.ask(c, "", map[string]any{"userInfo": map[string]any{"username": test.who}})["status"], any(map[string]any{"message": test.message, "code": test.code}))
	}
}

func proveAdmissionAnswer(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "fn", Operations: []kopf.Operation{"UPDATE"}})
	s, _ := c.Reviewed(registry)
	got, err := s.raw(c, &kopf.ReviewRequest{Handler: "fn", Body: []byte(strings.Replace(string(c.reviewOf(nil)), "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1))})
	if err != nil {
		c.Fatal(err)
	}
	expect(c, "the answer", got, map[string]any{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": admitted})
	var bare map[string]any
	if err := json.Unmarshal(c.reviewOf(map[string]any{"uid": nil}), &bare); err != nil {
		c.Fatal(err)
	}
	delete(bare, "apiVersion")
	delete(bare, "kind")
	data, _ := json.Marshal(bare)
	if got, err = s.raw(c, &kopf.ReviewRequest{Handler: "fn", Body: data}); err != nil {
		c.Fatal(err)
	}
	expect(c, "the default answer", got, map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": map[string]any{"uid": "", "allowed": true}})
}

func proveAdmissionEmpty(c *C) {
	registry := &kopf.Registry{}
	registry.OnMutate(Examples, func(_ context.Context, a *kopf.Admission) error {
		a.Patch.Set("spec.x", 1) // unchanged
		a.Patch.Remove("spec.nothing")
		return nil
	}, &kopf.AdmissionOptions{ID: "fn"})
	registry.OnMutate(Examples, func(context.Context, *kopf.Admission) error { return kopf.Deny("no", 418) }, &kopf.AdmissionOptions{ID: "no"})
	s, _ := c.Reviewed(registry)
	expect(c, "a success", s.ask(c, "fn", nil), admitted)
	expect(c, "a denial", s.ask(c, "no", nil), map[string]any{"uid": "u1", "allowed": false, "status": map[string]any{"message": "no", "code": 418.0}})
}

func proveAdmissionPatch(c *C) {
	registry := &kopf.Registry{}
	registry.OnMutate(Examples, func(_ context.Context, a *kopf.Admission) error {
		a.Patch.SetPath("v", "metadata", "annotations", "a/b~c")
		a.Patch.Remove("spec.gone")
		a.Patch.Set("spec.list", []int{1, 2, 3})
		a.Patch.Set("spec.map.y", 2)
		a.Patch.Set("spec.same", "s")
		a.Patch.Transform(func(o map[string]any) error { o["spec"].(map[string]any)["first"] = "yes"; return nil })
		a.Patch.Transform(func(o map[string]any) error {
			spec := o["spec"].(map[string]any)
			spec["second"] = spec["first"]
			return nil
		})
		return nil
	}, &kopf.AdmissionOptions{ID: "fn"})
	s, _ := c.Reviewed(registry)
	got := patchIn(c, s.ask(c, "fn", map[string]any{"object": map[string]any{
		"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"gone": 1, "list": "text", "map": map[string]any{"x": 1}, "same": "s"},
	}}))
	expect(c, "the patch", got, []any{
		map[string]any{"op": "add", "path": "/metadata/annotations", "value": map[string]any{"a/b~c": "v"}},
		map[string]any{"op": "add", "path": "/spec/first", "value": "yes"},
		map[string]any{"op": "remove", "path": "/spec/gone"},
		map[string]any{"op": "replace", "path": "/spec/list", "value": []any{1.0, 2.0, 3.0}},
		map[string]any{"op": "add", "path": "/spec/map/y", "value": 2.0},
		map[string]any{"op": "add", "path": "/spec/second", "value": "yes"},
	})
	got = patchIn(c, s.ask(c, "fn", map[string]any{"object": map[string]any{
		"metadata": map[string]any{"name": "a", "annotations": map[string]any{"z": "1"}}, "spec": map[string]any{"list": []any{1, 2, 3}, "map": map[string]any{"y": 2}, "same": "s", "first": "yes", "second": "yes"},
	}}))
	expect(c, "the escaped patch", got, []any{map[string]any{"op": "add", "path": "/metadata/annotations/a~1b~0c", "value": "v"}})
}

func proveAdmissionPatchDenied(c *C) {
	registry := &kopf.Registry{}
	registry.OnMutate(Examples, func(_ context.Context, a *kopf.Admission) error { a.Patch.Set("spec.y", 1); return nil }, &kopf.AdmissionOptions{ID: "m"})
	registry.OnMutate(Examples, func(context.Context, *kopf.Admission) error { return kopf.Deny("no", 0) }, &kopf.AdmissionOptions{ID: "n"})
	s, _ := c.Reviewed(registry)
	response := s.ask(c, "", nil)
	expect(c, "whether it is allowed", response["allowed"], any(false))
	expect(c, "the patch", patchIn(c, response), []any{map[string]any{"op": "add", "path": "/spec/y", "value": 1.0}})
}

func proveAdmissionUnknownID(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return kopf.Deny("no", 0) }, &kopf.AdmissionOptions{ID: "fn"})
	s, _ := c.Reviewed(registry)
	for _, id := range []string{"nf", "fn/", "mutating:fn", "FN"} {
		if code := s.refused(c, id, c.reviewOf(nil)); code != 404 {
			c.Errorf("%q: the code is %d, want 404", id, code)
		}
	}
	if s.ask(c, "", nil)["allowed"] != false {
		c.Error("the bare path does not ask the handlers")
	}
}

func proveAdmissionOperations(c *C) {
	registry, l := &kopf.Registry{}, &asking{}
	registry.OnValidate(Examples, l.handler("create", nil), &kopf.AdmissionOptions{ID: "create", Operations: []kopf.Operation{"CREATE"}})
	registry.OnValidate(Examples, l.handler("any", nil), &kopf.AdmissionOptions{ID: "any"})
	s, _ := c.Reviewed(registry)
	s.ask(c, "create", map[string]any{"operation": "UPDATE"})
	s.ask(c, "any", map[string]any{"operation": "UPDATE"})
	expect(c, "an update", l.take(), []string{"any"})
	s.ask(c, "create", nil)
	expect(c, "a creation", l.take(), []string{"create"})
}

func proveAdmissionSharedID(c *C) {
	registry, l := &kopf.Registry{}, &asking{}
	registry.OnValidate(Examples, func(ctx context.Context, a *kopf.Admission) error {
		a.Patch.Set("spec.y", 1)
		return l.handler("v", nil)(ctx, a)
	}, &kopf.AdmissionOptions{ID: "fn"})
	registry.OnMutate(Examples, l.handler("m", nil), &kopf.AdmissionOptions{ID: "fn"})
	s, _ := c.Reviewed(registry)
	expect(c, "the validating answer", s.ask(c, "validating:fn", nil), admitted)
	expect(c, "the validating calls", l.take(), []string{"v"})
	s.ask(c, "mutating:fn", nil)
	expect(c, "the mutating calls", l.take(), []string{"m"})
	s.ask(c, "fn", nil)
	expect(c, "the calls of the plain id", l.take(), []string{"v", "m"})
}

func proveAdmissionNamespaces(c *C) {
	registry, l := &kopf.Registry{}, &asking{}
	registry.OnValidate(Examples, l.handler("fn", kopf.Deny("no", 0)), &kopf.AdmissionOptions{ID: "fn"})
	registry.OnValidate("kopfclusterexamples.v1.kopf.dev", l.handler("cluster", nil), &kopf.AdmissionOptions{ID: "cluster"})
	s, _ := c.Reviewed(registry)
	expect(c, "the answer elsewhere", s.ask(c, "fn", map[string]any{"namespace": "elsewhere"}), admitted)
	expect(c, "the calls elsewhere", l.take(), []string(nil))
	s.ask(c, "fn", nil)
	expect(c, "the calls here", l.take(), []string{"fn"})
	s.ask(c, "cluster", map[string]any{"namespace": nil, "resource": map[string]any{"group": "kopf.dev", "version": "v1", "resource": "kopfclusterexamples"}})
	expect(c, "the calls outside of namespaces", l.take(), []string{"cluster"})
}

func proveAdmissionTimeout(c *C) {
	c.OnlyInBubble("it takes half a minute")
	registry := &kopf.Registry{}
	wait := func(ctx context.Context, _ *kopf.Admission) error { <-ctx.Done(); return context.Cause(ctx) }
	registry.OnValidate(Examples, wait, &kopf.AdmissionOptions{ID: "short", Timeout: 1500 * time.Millisecond})
	registry.OnValidate(Examples, wait, &kopf.AdmissionOptions{ID: "long"})
	s, op := c.Reviewed(registry)
	for id, want := range map[string]time.Duration{"short": 1800 * time.Millisecond, "long": 29 * time.Second} {
		began := time.Now()
		if s.ask(c, id, nil)["allowed"] != false {
			c.Errorf("%s: it is admitted", id)
		}
		if took := time.Since(began); took != want {
			c.Errorf("%s: the context ended after %s, want %s", id, took, want)
		}
	}
	began, done := time.Now(), make(chan time.Duration)
	go func() { s.ask(c, "long", nil); done <- time.Since(began) }()
	c.Pass(time.Second)
	op.Stop()
	if took := <-done; took > 10*time.Second {
		c.Errorf("the context ended %s after the review began, though the operator has stopped", took)
	}
}

func proveAdmissionMemos(c *C) {
	registry := &kopf.Registry{}
	var seen []any
	registry.OnValidate(Examples, func(_ context.Context, a *kopf.Admission) error {
		v, _ := a.Memo().Load("n")
		seen = append(seen, v)
		a.Memo().Store("n", fmt.Sprint(v, "+", a.Operation))
		return nil
	}, &kopf.AdmissionOptions{ID: "fn"})
	var mu sync.Mutex
	memos := map[string]any{}
	registry.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
		mu.Lock()
		defer mu.Unlock()
		memos[e.Name()], _ = e.Memo().Load("n")
		return nil
	}, &kopf.EventOptions{ID: "seen"})
	memo := &kopf.Memo{}
	memo.Store("n", "op")
	s, _ := c.Reviewed(registry, func(op *kopf.Operator) { op.Memo = memo })
	object := func(uid string) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "a", "uid": uid}}
	}
	for range 2 {
		s.ask(c, "fn", map[string]any{"object": object("x")})
	}
	for range 2 {
		s.ask(c, "fn", map[string]any{"operation": "UPDATE", "object": object("x")})
	}
	s.ask(c, "fn", map[string]any{"operation": "DELETE", "object": nil, "oldObject": object("x")})
	expect(c, "what was remembered", seen, []any{"op", "op", "op", "op+UPDATE", "op+UPDATE+UPDATE"})
	body := c.Create("b", nil)
	c.WaitFor("the event", func() bool { mu.Lock(); defer mu.Unlock(); _, ok := memos["b"]; return ok })
	s.ask(c, "fn", map[string]any{"operation": "UPDATE", "object": object(body.UID())})
	c.Patch("b", map[string]any{"spec": map[string]any{"x": 1}})
	c.WaitFor("the memo of the review among the events", func() bool { mu.Lock(); defer mu.Unlock(); return memos["b"] == "op+UPDATE" })
}

func proveAdmissionMemoLife(c *C) {
	c.OnlyInBubble("it takes ten minutes")
	body := c.Create("a", nil)
	registry, l := &kopf.Registry{}, &asking{}
	var last any
	registry.OnValidate(Examples, func(_ context.Context, a *kopf.Admission) error {
		last, _ = a.Memo().Load("n")
		a.Memo().Store("n", "kept")
		return nil
	}, &kopf.AdmissionOptions{ID: "fn"})
	registry.OnResume(Examples, func(context.Context, *kopf.Change) error { return l.handler("resumed", nil)(nil, nil) }, &kopf.ChangeOptions{ID: "resumed"})
	registry.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "created"})
	first := c.Operator(registry, func(op *kopf.Operator) { op.Settings.Admission.Server = &reviewer{} })
	c.WaitFor("the handling", func() bool { return len(c.Get("a").Annotations()) > 0 })
	first.Stop()
	l.take()
	hold := make(chan struct{})
	s := &reviewer{}
	op := c.Operator(registry, func(op *kopf.Operator) {
		op.Settings.Admission.Server = s
		op.Ready = func() { // before the first list
			for !s.serves() {
				time.Sleep(time.Millisecond)
			}
			s.ask(c, "fn", map[string]any{"operation": "UPDATE", "object": map[string]any{"metadata": map[string]any{"name": "a", "uid": body.UID()}}})
			close(hold)
		}
	})
	<-hold
	c.WaitFor("the resuming", func() bool { return slices.Contains(l.take(), "resumed") })
	update := func() {
		s.ask(c, "fn", map[string]any{"operation": "UPDATE", "object": map[string]any{"metadata": map[string]any{"name": "x", "uid": "x"}}})
	}
	update()
	c.Pass(9 * time.Minute)
	update()
	expect(c, "what is remembered after nine minutes", last, any("kept"))
	c.Pass(11 * time.Minute)
	update()
	expect(c, "what is remembered after eleven more", last, any(nil))
	op.Stop()
}

func proveAdmissionNoServer(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, namedAdmission, nil)
	op := &kopf.Operator{Registry: registry, Namespaces: []string{c.Namespace}, Settings: kopf.NewSettings(), Connection: c.ConnectionInfo()}
	err := op.Run(c.Context())
	if err == nil || !strings.Contains(err.Error(), "admission handlers exist, but no admission server is configured") {
		c.Errorf("the operator has ended with %v", err)
	}
	other := &kopf.Registry{} // set before it is used
	other.OnValidate(Examples, namedAdmission, nil)
	s := &reviewer{}
	other.OnStartup(func(_ context.Context, a *kopf.Activity) error { a.Settings.Admission.Server = s; return nil }, &kopf.ActivityOptions{ID: "start"})
	c.Operator(other).Stop()
}

func proveAdmissionServerEnds(c *C) {
	for _, failure := range []error{nil, errors.New("no port")} {
		registry := &kopf.Registry{}
		registry.OnValidate(Examples, namedAdmission, nil)
		s, op := c.Reviewed(registry)
		s.fails <- failure
		c.WaitFor("the warning", func() bool { return len(op.Logs.Find("The admission server has stopped unexpectedly")) == 1 })
		<-op.runner.Context().Done()
		err := op.Err()
		if err == nil || !strings.Contains(err.Error(), "the admission server has finished unexpectedly") || failure != nil && !errors.Is(err, failure) {
			c.Errorf("the operator has ended with %v", err)
		}
	}
}
