package contract

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This suite proves that the in-memory API server calls the webhooks of an operator in the same process, in 3-admission-auth-client.md.

var _ = Suite("admission_in_process", func(t *testing.T, c *C) {
	c.Run(t, "AC-10 the API server in memory asks the operator beside it", inMemoryReviews)
	c.Run(t, "AC-10 a webhook cannot set the status of a new object", inMemoryStatus)
	c.Run(t, "AC-10 a webhook changes only what the request may change", inMemoryScopes)
	c.Run(t, "DF-55 a warning of several lines reaches the user", inMemoryWarnings)
	c.Run(t, "DF-52 a check can't be avoided by removing the label that it looks for", inMemoryRemovedLabel)
	c.Run(t, "AC-33 without the operator, the in-memory server obeys the failure policy", inMemoryPolicy)
	c.Run(t, "AC-19 how a handler has decided is logged", inMemoryLog)
})

// crossing is an operator, and a server that calls its webhooks.
type crossing struct {
	c        *C
	client   *kopf.Client
	warnings []string
	logs     *Logs
	runner   *kopf.Runner
}

// RoundTrip keeps the warnings in the responses.
func (x *crossing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := x.c.info.HTTPClient.Transport.RoundTrip(r)
	if err == nil {
		x.warnings = append(x.warnings, resp.Header.Values("Warning")...)
	}
	return resp, err
}

func (c *C) cross(register func(r *kopf.Registry)) *crossing {
	c.OnlyInBubble("it is about the in-memory server")
	server := newJudged(c)
	inside := *c
	inside.info = server.ConnectionInfo()
	x := &crossing{c: &inside, logs: &Logs{}}
	info := inside.ConnectionInfo()
	info.HTTPClient = &http.Client{Transport: x}
	var err error
	if x.client, err = kopf.NewClient(info, nil); err != nil {
		c.Fatal(err)
	}
	r := &kopf.Registry{}
	register(r)
	settings := kopf.NewSettings()
	settings.Admission = kopf.AdmissionSettings{Server: server.AdmissionServer(), Managed: "leaf.kopf.dev"}
	x.runner = kopf.NewRunner(c, &kopf.Operator{
		Registry: r, Settings: settings, Connection: server.ConnectionInfo(), Namespaces: []string{c.Namespace},
		Logger: c.logger(x.logs),
	}, nil)
	c.Pass(time.Second) // for the configurations to be created
	return x
}

// newJudged is a server of the leaf itself, because the server of the judge is only accessible as for clients.
func newJudged(c *C) *kopf.APIServer {
	server := kopf.NewAPIServer(nil)
	for _, manifest := range append(Manifests(), map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": c.Namespace}}) {
		data, err := json.Marshal(manifest)
		if err == nil {
			err = server.Apply(data)
		}
		if err != nil {
			c.Fatal(err)
		}
	}
	return server
}

func (x *crossing) create(name string, spec map[string]any, opts *kopf.WriteOptions) (map[string]any, error) {
	object := map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": name, "namespace": x.c.Namespace}, "spec": spec}
	err := x.client.Create(x.c.Context(), object, opts)
	return object, err
}

func (x *crossing) ref(name string) kopf.ObjectReference {
	return kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Namespace: x.c.Namespace, Name: name}
}

// badSpec are the causes of a denial.
var badSpec = []kopf.ErrorCause{{Reason: "FieldValueInvalid", Message: "it is true", Field: "spec.bad"}, {Message: "it is not good"}}

func inMemoryStatus(c *C) {
	x := c.cross(func(r *kopf.Registry) {
		r.OnMutate("poddisruptionbudgets", func(_ context.Context, a *kopf.Admission) error {
			a.Patch.Set("status.desiredHealthy", 7)
			a.Patch.Set("metadata.labels.by", "webhook")
			return nil
		}, &kopf.AdmissionOptions{ID: "mutate"})
	})
	budget := map[string]any{
		"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
		"metadata": map[string]any{"name": "new", "namespace": x.c.Namespace},
		"spec":     map[string]any{"minAvailable": 1},
	}
	if err := x.client.Create(c.Context(), budget, nil); err != nil {
		c.Fatal(err)
	}
	ref := kopf.ObjectReference{APIVersion: "policy/v1", Kind: "PodDisruptionBudget", Namespace: x.c.Namespace, Name: "new"}
	var stored kopf.Body
	if err := x.client.Get(c.Context(), ref, &stored, nil); err != nil {
		c.Fatal(err)
	}
	if stored.Labels()["by"] != "webhook" || stored.Status().Int("desiredHealthy") == 7 {
		c.Errorf("got the object %v, want the webhook's label, and not its status", &stored)
	}
}

// inMemoryScopes has a webhook that changes the spec, the status and metadata in all requests.
func inMemoryScopes(c *C) {
	intrusive := func(_ context.Context, a *kopf.Admission) error {
		if a.Operation == kopf.OperationCreate {
			a.Patch.Set("metadata.generation", 9)
			return nil
		}
		a.Patch.Set("spec.duration", "7m")
		a.Patch.Set("status.phase", "webhook")
		a.Patch.Set("metadata.labels.by", "webhook")
		a.Patch.Set("metadata.generation", 9)
		return nil
	}
	x := c.cross(func(r *kopf.Registry) {
		r.OnMutate(statusExamples, intrusive, &kopf.AdmissionOptions{ID: "main"})
		r.OnMutate(statusExamples, intrusive, &kopf.AdmissionOptions{ID: "status", Subresource: "status"})
	})
	object := map[string]any{
		"apiVersion": "kopf.dev/v1", "kind": "KopfStatusExample",
		"metadata": map[string]any{"name": "a", "namespace": x.c.Namespace}, "spec": map[string]any{"duration": "1m"},
	}
	if err := x.client.Create(c.Context(), object, nil); err != nil {
		c.Fatal(err)
	}
	want := func(subresource string, patch map[string]any, duration, phase, label string, generation int) {
		c.Helper()
		ref := kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfStatusExample", Namespace: x.c.Namespace, Name: "a"}
		got, err := x.client.Patch(c.Context(), ref, patch, &kopf.PatchOptions{Subresource: subresource})
		if err != nil {
			c.Fatal(err)
		}
		expect(c, "the object after a patch of "+subresource,
			[]any{got.Spec().String("duration"), got.Status().String("phase"), got.Labels()["by"], got.Get("metadata.generation")},
			[]any{duration, phase, label, json.Number(strconv.Itoa(generation))})
	}
	want("status", map[string]any{"status": map[string]any{"phase": "client"}}, "1m", "webhook", "", 1)
	want("", map[string]any{"spec": map[string]any{"duration": "2m"}}, "7m", "webhook", "webhook", 2)
	want("status", map[string]any{"status": map[string]any{"phase": "client", "x": 1}}, "7m", "webhook", "webhook", 2)
	want("", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}}, "7m", "webhook", "webhook", 2)
}

func inMemoryReviews(c *C) {
	var l calls
	x := c.cross(func(r *kopf.Registry) {
		r.OnMutate(Examples, func(ctx context.Context, a *kopf.Admission) error {
			l.add("mutate %s %s dry=%t", a.Operation, a.Name(), a.DryRun)
			a.Patch.Set("spec.duration", "1m")
			a.Patch.Set("metadata.labels.by", a.UserInfo.String("username"))
			return nil
		}, &kopf.AdmissionOptions{ID: "mutate", Operations: []kopf.Operation{kopf.OperationCreate}})
		r.OnValidate(Examples, func(ctx context.Context, a *kopf.Admission) error {
			l.add("validate %s %s duration=%s", a.Operation, a.Name(), a.Spec().String("duration"))
			switch {
			case a.Spec().Bool("bad"):
				return kopf.Deny("it is bad", http.StatusTeapot, badSpec...)
			case a.Spec().Bool("old"):
				a.Warn("it is old")
			}
			return nil
		}, &kopf.AdmissionOptions{ID: "validate"})
	})
	expect := func(want ...string) {
		c.Helper()
		if got := l.all(); !slices.Equal(got, want) {
			c.Errorf("got the calls %q, want %q", got, want)
		}
		l.mu.Lock()
		l.list = nil
		l.mu.Unlock()
	}
	object, err := x.create("good", map[string]any{"old": true}, nil)
	if err != nil {
		c.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"duration": "1m", "old": true}, object["spec"]); diff != "" {
		c.Errorf("the spec that was stored (-want +got):\n%s", diff)
	}
	if want := []string{`299 - "it is old"`}; !slices.Equal(x.warnings, want) {
		c.Errorf("got the warnings %q, want %q", x.warnings, want)
	}
	expect("mutate CREATE good dry=false", "validate CREATE good duration=1m")
	_, err = x.create("bad", map[string]any{"bad": true}, nil)
	if kopf.StatusCode(err) != http.StatusTeapot || !strings.Contains(err.Error(), `admission webhook "validate.leaf.kopf.dev" denied the request: it is bad`) {
		c.Errorf("a bad one: %v", err)
	}
	if api := (*kopf.APIError)(nil); !errors.As(err, &api) || !slices.Equal(api.Causes, badSpec) {
		c.Errorf("the causes of %#v are not %+v", err, badSpec)
	}
	expect("mutate CREATE bad dry=false", "validate CREATE bad duration=1m")
	if _, err = x.create("tried", map[string]any{}, &kopf.WriteOptions{DryRun: true}); err != nil {
		c.Error(err)
	}
	expect("mutate CREATE tried dry=true", "validate CREATE tried duration=1m")
	if _, err = x.client.Patch(c.Context(), x.ref("good"), map[string]any{"spec": map[string]any{"duration": "2m"}}, nil); err != nil {
		c.Error(err)
	}
	expect("validate UPDATE good duration=2m")
	if err := x.client.Delete(c.Context(), x.ref("good"), nil); err != nil {
		c.Error(err)
	}
	expect("validate DELETE good duration=2m")
}

func inMemoryWarnings(c *C) {
	x := c.cross(func(r *kopf.Registry) {
		r.OnValidate(Examples, func(ctx context.Context, a *kopf.Admission) error {
			a.Warn("é:\n\tit is \"old\"")
			if a.Spec().Bool("bad") {
				return kopf.Deny("it is bad", http.StatusTeapot)
			}
			return nil
		}, &kopf.AdmissionOptions{ID: "validate"})
	})
	if _, err := x.create("good", nil, nil); err != nil {
		c.Error(err)
	}
	if _, err := x.create("bad", map[string]any{"bad": true}, nil); kopf.StatusCode(err) != http.StatusTeapot {
		c.Errorf("a bad one: %v", err)
	}
	const want = `299 - "é: it is \"old\""`
	if !slices.Equal(x.warnings, []string{want, want}) {
		c.Errorf("got the warnings %q, want twice %q", x.warnings, want)
	}
}

func inMemoryRemovedLabel(c *C) {
	x := c.cross(func(r *kopf.Registry) {
		r.OnValidate(Examples, func(context.Context, *kopf.Admission) error {
			return kopf.Deny("it is protected", http.StatusForbidden)
		}, &kopf.AdmissionOptions{ID: "protect", Labels: kopf.Match{"protected": "yes"}, Operations: []kopf.Operation{kopf.OperationUpdate}})
	})
	labels := func(value any) map[string]any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{"protected": value}}}
	}
	if _, err := x.create("free", nil, nil); err != nil {
		c.Fatal(err)
	}
	if _, err := x.client.Patch(c.Context(), x.ref("free"), map[string]any{"spec": map[string]any{"x": 1}}, nil); err != nil {
		c.Errorf("a change of another object: %v", err)
	}
	if _, err := x.client.Patch(c.Context(), x.ref("free"), labels("yes"), nil); kopf.StatusCode(err) != http.StatusForbidden {
		c.Errorf("a change that adds the label: %v", err)
	}
	marked := map[string]any{
		"apiVersion": "kopf.dev/v1", "kind": "KopfExample",
		"metadata": map[string]any{"name": "marked", "namespace": c.Namespace, "labels": map[string]any{"protected": "yes"}},
	}
	if err := x.client.Create(c.Context(), marked, nil); err != nil {
		c.Fatal(err)
	}
	if _, err := x.client.Patch(c.Context(), x.ref("marked"), labels(nil), nil); kopf.StatusCode(err) != http.StatusForbidden {
		c.Errorf("a change that removes the label: %v", err)
	}
	if err := x.client.Delete(c.Context(), x.ref("marked"), nil); err != nil {
		c.Errorf("a deletion, which the handler does not review: %v", err)
	}
}

func inMemoryPolicy(c *C) {
	for _, ignore := range []bool{false, true} {
		x := c.cross(func(r *kopf.Registry) {
			r.OnValidate(Examples, func(ctx context.Context, a *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "check", IgnoreFailures: ignore, Persistent: true})
		})
		if _, err := x.create("before", nil, nil); err != nil {
			c.Errorf("with the operator: %v", err)
		}
		if err := x.runner.Stop(); err != nil {
			c.Fatal(err)
		}
		_, err := x.create("after", nil, nil)
		switch {
		case ignore && err != nil:
			c.Errorf("without the operator, failures ignored: %v", err)
		case !ignore && (err == nil || !strings.Contains(err.Error(), `failed calling webhook "check.leaf.kopf.dev": failed to call webhook`)):
			c.Errorf("without the operator: %v", err)
		}
	}
}

func inMemoryLog(c *C) {
	x := c.cross(func(r *kopf.Registry) {
		r.OnValidate(Examples, func(ctx context.Context, a *kopf.Admission) error {
			switch a.Name() {
			case "denied":
				return kopf.Deny("not today", 0)
			case "permanent":
				return kopf.Permanent(errOops)
			case "temporary":
				return kopf.Temporary(errOops, time.Minute)
			case "arbitrary":
				return errOops
			}
			return nil
		}, &kopf.AdmissionOptions{ID: "check"})
	})
	for name, want := range map[string]string{
		"good":      "INFO Webhook 'check' succeeded.",
		"denied":    "INFO Webhook 'check' failed with a denial: not today",
		"permanent": "ERROR Webhook 'check' failed permanently: oops",
		"temporary": "WARN Webhook 'check' failed temporarily: oops",
		"arbitrary": "ERROR Webhook 'check' failed with an exception and will stop now.",
	} {
		before := len(x.logs.messages("Webhook 'check'"))
		_, err := x.create(name, nil, nil)
		if (err == nil) != (name == "good") {
			c.Errorf("%s: %v", name, err)
		}
		told := x.logs.messages("Webhook 'check'")[before:]
		if len(told) == 0 || !strings.HasPrefix(told[len(told)-1], want) {
			c.Errorf("%s: got the lines %q, want %q", name, told, want)
		}
	}
}
