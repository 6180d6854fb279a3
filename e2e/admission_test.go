package e2e

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// The output of kubectl about an operator that kube-apiserver calls, with configurations and certificates by the operator itself.

// admitting runs an operator with admission handlers for config maps of a new namespace, which is also the name of its configuration. The returned function
// kills it: none of its requests reach the API server anymore.
func admitting(t *testing.T, c *cluster.Cluster, name string, ignore bool) (kill func()) {
	t.Helper()
	c.Create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}})
	registry := &kopf.Registry{}
	registry.OnMutate("configmaps", func(_ context.Context, a *kopf.Admission) error {
		a.Patch.Set("data.mutated", "for "+a.UserInfo.String("username"))
		return nil
	}, &kopf.AdmissionOptions{ID: "mutate", IgnoreFailures: ignore, Operations: []kopf.Operation{kopf.OperationCreate}})
	registry.OnValidate("configmaps", func(_ context.Context, a *kopf.Admission) error {
		if data := a.Body.View("data"); data.Has("warn") {
			a.Warn("this is deprecated")
		} else if data.Has("bad") {
			return kopf.Deny("bad data of "+a.Name(), http.StatusTeapot)
		}
		return nil
	}, &kopf.AdmissionOptions{ID: "check", IgnoreFailures: ignore})
	settings := kopf.NewSettings()
	settings.Admission = kopf.AdmissionSettings{Server: &kopf.WebhookServer{Addr: "127.0.0.1"}, Managed: name + ".kopf.dev"}
	info := c.ConnectionInfo()
	gate := &gatedTransport{base: c.HTTPClient().Transport}
	info.HTTPClient = &http.Client{Transport: gate}
	runner := kopf.NewRunner(t, &kopf.Operator{Registry: registry, Settings: settings, Namespaces: []string{name}, Connection: info}, nil)
	client, err := kopf.NewClient(c.ConnectionInfo(), nil)
	if err != nil {
		t.Fatal(err)
	}
	configurations := []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
	t.Cleanup(func() {
		for _, kind := range configurations {
			ref := kopf.ObjectReference{APIVersion: "admissionregistration.k8s.io/v1", Kind: kind, Name: name + ".kopf.dev"}
			if err := client.Delete(context.WithoutCancel(t.Context()), ref, nil); err != nil {
				t.Error(err)
			}
		}
	})
	eventually(t, "the webhooks to be asked", func() bool {
		_, err := c.TryKubectl("", "-n", name, "create", "configmap", "probe", "--from-literal=bad=yes", "--dry-run=server")
		out, _ := c.TryKubectl("", "-n", name, "create", "configmap", "probe", "--dry-run=server", "-o", "jsonpath={.data.mutated}")
		return err != nil && strings.Contains(err.Error(), "bad data of probe") && out != "" // both were called
	})
	return func() {
		gate.shut.Store(true)
		_ = runner.Stop() // its requests fail
	}
}

func TestAdmission(t *testing.T) {
	c := theCluster(t)
	t.Run("AC-10 kube-apiserver asks the handlers, and kubectl tells what they say", func(t *testing.T) {
		kill := admitting(t, c, "admitting", false)
		kubectl := func(args ...string) (string, error) {
			return c.TryKubectl("", append([]string{"-n", "admitting"}, args...)...)
		}
		out, err := kubectl("create", "configmap", "good", "--from-literal=a=b")
		if err != nil || out != "configmap/good created\n" {
			t.Errorf("a good one: %q, %v", out, err)
		}
		if out, _ = kubectl("get", "configmap", "good", "-o", "jsonpath={.data.mutated}"); !strings.HasPrefix(out, "for ") || len(out) < 6 {
			t.Errorf("it was not mutated: %q", out)
		}
		_, err = kubectl("create", "configmap", "bad", "--from-literal=bad=yes")
		if want := `admission webhook "check.admitting.kopf.dev" denied the request: bad data of bad`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a bad one: %v, want %q", err, want)
		}
		_, err = c.Request(t.Context(), http.MethodPost, "/api/v1/namespaces/admitting/configmaps", []byte(`{"metadata":{"name":"bad"},"data":{"bad":"yes"}}`))
		if err == nil || !strings.Contains(err.Error(), "418") {
			t.Errorf("the code of the denial: %v", err)
		}
		answer, err := c.HTTPClient().Post(c.URL()+"/api/v1/namespaces/admitting/configmaps", "application/json", strings.NewReader(`{"metadata":{"name":"old"},"data":{"warn":"yes"}}`))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if want := `299 - "this is deprecated"`; answer.StatusCode != http.StatusCreated || answer.Header.Get("Warning") != want {
			t.Errorf("one with a warning: %s, %q, want %q", answer.Status, answer.Header.Get("Warning"), want)
		}
		kill()
		_, err = kubectl("create", "configmap", "late", "--from-literal=a=b")
		if err == nil || !strings.Contains(err.Error(), `failed calling webhook "mutate.admitting.kopf.dev"`) {
			t.Errorf("without the operator: %v", err)
		}
	})
	t.Run("AC-33 without the operator, failures are ignored if the handlers say so", func(t *testing.T) {
		kill := admitting(t, c, "ignoring", true)
		kill()
		out, err := c.TryKubectl("", "-n", "ignoring", "create", "configmap", "late", "--from-literal=bad=yes")
		if err != nil || out != "configmap/late created\n" {
			t.Errorf("without the operator: %q, %v", out, err)
		}
	})
}

// gatedTransport passes requests on until it is closed.
type gatedTransport struct {
	base http.RoundTripper
	shut atomic.Bool
}

func (g *gatedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.shut.Load() {
		return nil, errors.New("the operator was killed")
	}
	return g.base.RoundTrip(r)
}
