// Package helm tests the charts of the command manifests with Helm itself.
package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"sigs.k8s.io/yaml"

	"github.com/kopf-go/kopf"
)

// operators are the operators of the charts.
var operators = map[string]func(*kopf.Registry){
	"changes": func(r *kopf.Registry) {
		r.OnCreate("kopfexamples", func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "create"})
		r.Needs("pods/log", "get")
	},
	"children": func(r *kopf.Registry) {
		r.OnReconcile("kopfexamples", func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"deployments", "services"}})
	},
	"webhooks": func(r *kopf.Registry) {
		r.OnMutate("kopfexamples", func(context.Context, *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "complete"})
		r.OnValidate("kopfexamples", func(context.Context, *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "check"})
	},
}

// installations are the arguments, and the values with which any other chart makes the same installation.
var installations = []struct {
	name, args string
	values     map[string]any
}{
	{"clusterwide", "", map[string]any{"namespaces": []any{}}},
	{"one namespace", "-n ops", map[string]any{"namespaces": []any{"ops"}}},
	{"namespaces", "-n a -n b", map[string]any{"namespaces": []any{"a", "b"}}},
	{"replicas", "--replicas 2", nil},
	{"patterns", "-n team-*", nil},
	{"monitoring", "--service-monitor", map[string]any{"monitoring": true}},
	{"no descriptions", "--no-descriptions", nil},
	{"image", "--image example.com/a:1", map[string]any{"image": "example.com/a:1"}},
}

// command runs the command of an operator.
func command(t *testing.T, register func(*kopf.Registry), args ...string) string {
	t.Helper()
	registry := &kopf.Registry{}
	register(registry)
	before := kopf.DefaultRegistry()
	kopf.SetDefaultRegistry(registry)
	defer kopf.SetDefaultRegistry(before)
	var out, errs bytes.Buffer
	args = append([]string{"manifests", "--name=web", "--install-namespace=ops", "--definitions=../../../examples/crd.yaml"}, args...)
	if code := kopf.Command(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("%q: exit code %d: %s", args, code, &errs)
	}
	return out.String()
}

// chart creates a chart, and returns its folder.
func chart(t *testing.T, register func(*kopf.Registry), args string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "web")
	command(t, register, append(strings.Fields(args), "--format=helm", "--out", folder)...)
	return folder
}

// template returns the output of Helm for a chart.
func template(t *testing.T, folder string, values map[string]any) (string, error) {
	t.Helper()
	c, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	configuration := &action.Configuration{
		Releases: storage.Init(driver.NewMemory()), KubeClient: &kubefake.PrintingKubeClient{Out: io.Discard}, Capabilities: chartutil.DefaultCapabilities, Log: t.Logf,
	}
	install := action.NewInstall(configuration)
	install.ReleaseName, install.Namespace, install.DryRun, install.ClientOnly, install.Replace = "release", "ops", true, true, true
	release, err := install.RunWithContext(t.Context(), c, values)
	if err != nil {
		return "", err
	}
	return release.Manifest, nil
}

// canonical returns the objects of a text as JSON, sorted, without the annotation for Helm.
func canonical(t *testing.T, text string) (all []string) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if object == nil {
			continue
		}
		meta := object["metadata"].(map[string]any)
		if annotations, _ := meta["annotations"].(map[string]any); annotations != nil {
			if delete(annotations, "helm.sh/resource-policy"); len(annotations) == 0 {
				delete(meta, "annotations")
			}
		}
		data, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(data))
	}
	slices.Sort(all)
	return all
}

// same compares the objects of two texts.
func same(t *testing.T, want, got string) {
	t.Helper()
	a, b := canonical(t, want), canonical(t, got)
	for _, object := range a {
		if !slices.Contains(b, object) {
			t.Errorf("the chart lacks %s", object)
		}
	}
	for _, object := range b {
		if !slices.Contains(a, object) {
			t.Errorf("the chart has %s", object)
		}
	}
	if len(a) != len(b) || len(a) < 5 {
		t.Errorf("the manifests have %d objects, the chart %d", len(a), len(b))
	}
}

func TestChart(t *testing.T) {
	for name, register := range operators {
		for _, how := range installations {
			t.Run(name+"/"+how.name, func(t *testing.T) {
				folder := chart(t, register, how.args)
				want := command(t, register, strings.Fields(how.args)...)
				t.Run("TD-44 lint", func(t *testing.T) {
					result := action.NewLint().Run([]string{folder}, nil)
					for _, message := range result.Messages {
						if message.Severity > support.InfoSev {
							t.Errorf("%v", message)
						}
					}
					if len(result.Errors) > 0 || result.TotalChartsLinted != 1 {
						t.Errorf("got %+v", result)
					}
				})
				t.Run("TD-44 with its values, it makes the manifests", func(t *testing.T) {
					got, err := template(t, folder, nil)
					if err != nil {
						t.Fatal(err)
					}
					same(t, want, got)
				})
				t.Run("TD-T5 with these values, the chart of another installation makes them as well", func(t *testing.T) {
					if how.values == nil {
						t.Skip("it is another chart")
					}
					got, err := template(t, chart(t, register, ""), how.values)
					if err != nil {
						t.Fatal(err)
					}
					same(t, want, got)
				})
			})
		}
	}
}

func TestValues(t *testing.T) {
	folder := chart(t, operators["changes"], "")
	t.Run("TD-44 what they change", func(t *testing.T) {
		got, err := template(t, folder, map[string]any{
			"logFormat": "plain", "tolerations": []any{map[string]any{"key": "x", "operator": "Exists"}}, "resources": map[string]any{"limits": map[string]any{"cpu": "1"}}, "crds": map[string]any{"enabled": false},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"--log-format=plain", `tolerations: [{"key":"x","operator":"Exists"}]`, `"cpu":"1"`} {
			if !strings.Contains(got, part) {
				t.Errorf("it lacks %s", part)
			}
		}
		if strings.Contains(got, "CustomResourceDefinition") {
			t.Error("it has the definitions")
		}
	})
	t.Run("TD-T6 definitions are kept", func(t *testing.T) {
		got, err := template(t, folder, nil)
		if err != nil || !strings.Contains(got, "helm.sh/resource-policy: keep") {
			t.Errorf("got %v and\n%s", err, got)
		}
	})
	t.Run("TD-44 what they cannot be", func(t *testing.T) {
		for _, values := range []map[string]any{{"replicas": 2}, {"logFormat": "xml"}, {"namespaces": []any{"team-*"}}, {"image": ""}} {
			if _, err := template(t, folder, values); err == nil {
				t.Errorf("%v are taken", values)
			}
		}
		if _, err := template(t, chart(t, operators["changes"], "--replicas=2"), map[string]any{"replicas": 3}); err != nil {
			t.Errorf("with an election: %v", err)
		}
		if _, err := template(t, chart(t, operators["changes"], "-n=team-*"), map[string]any{"namespaces": []any{}}); err == nil {
			t.Error("a chart of patterns serves no namespaces")
		}
	})
}

// TestGoldens renders the golden charts of the package installation.
func TestGoldens(t *testing.T) {
	const folder = "../../../internal/installation/testdata"
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() == "fuzz" {
			continue
		}
		want, err := os.ReadFile(filepath.Join(folder, entry.Name(), "yaml", "all.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := template(t, filepath.Join(folder, entry.Name(), "helm"), nil)
		if err != nil {
			t.Fatal(err)
		}
		home := map[string]string{"namespaced": "ops"}[entry.Name()]
		if home == "" {
			got = strings.ReplaceAll(got, "ops", "default") // the namespace of the release
		}
		t.Run(entry.Name(), func(t *testing.T) { same(t, string(want), got) })
	}
}
