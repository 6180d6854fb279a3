package installation

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/rights"
	"github.com/kopf-go/kopf/internal/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// definition has texts that are hard to write: braces, lines, and a property named after a keyword.
const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"websites.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
"names":{"kind":"Website","plural":"websites"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","description":"A {{ page }}.\nIt is served.",
"properties":{"spec":{"type":"object","properties":{"description":{"type":"string","description":"what it shows","default":"{{ none }}"},"size":{"type":"integer","maximum":9007199254740993}}}}}}}]}}`

// models returns the operators whose manifests are in the folder testdata.
func models(t *testing.T) map[string]*Model {
	t.Helper()
	crd, err := rawjson.DecodeObject([]byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	served := func(scope rights.Scope, narrow bool) []rights.Right {
		all := []rights.Right{
			{Group: "example.com", Resource: "websites", Verbs: []string{"list", "watch", "patch"}, Scope: scope, Reason: "OnReconcile website"},
			{Group: "example.com", Resource: "websites/status", Verbs: []string{"patch"}, Scope: scope, Reason: "OnReconcile website"},
			{Group: "apps", Resource: "deployments", Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}, Scope: scope, Reason: "OnReconcile website"},
			{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Verbs: []string{"list", "watch"}, Reason: "to notice new and changed custom resource definitions"},
		}
		if narrow {
			all = append(all, rights.Right{Resource: "namespaces", Verbs: []string{"list", "watch"}, Reason: "kopf sees which namespaces come"})
		}
		return all
	}
	elected := rights.Right{Group: "coordination.k8s.io", Resource: "leases", Name: "website-operator", Verbs: []string{"get", "update"}, Scope: rights.Home, Reason: "replicas elect a leader"}
	return map[string]*Model{
		"namespaced": {
			Name: "website-operator", Image: "example.com/website-operator:1", Home: "ops", Namespaces: []string{"web", "shop"}, Replicas: 2, Lease: "website-operator", Args: []string{"--peering=default"}, Monitoring: true,
			Rights: append(served(rights.Served, true), elected), Otherwise: append(served(rights.Served, false), elected),
			Webhooks: &Webhooks{Port: 9443, Configuration: "website-operator.kopf.dev", Kinds: []string{"ValidatingWebhookConfiguration"}}, Definitions: []map[string]any{crd},
		},
		"clusterwide": {
			Name: "web", Image: "web", Home: "default", Replicas: 1, Args: []string{"--standalone"}, Rights: served(rights.Served, false), Otherwise: served(rights.Served, true), Definitions: []map[string]any{crd},
		},
		"patterns": {
			Name: "web", Image: "web", Home: "default", Namespaces: []string{"team-*"}, Patterns: true, Replicas: 1, Rights: served(rights.Served, true), Otherwise: served(rights.Served, false),
		},
	}
}

func TestGolden(t *testing.T) {
	for name, m := range models(t) {
		for format, files := range map[string]Files{"yaml": m.YAMLFiles(m.Objects()), "kustomize": m.KustomizeFiles(m.Objects()), "helm": m.ChartFiles()} {
			if format == "yaml" {
				files = Files{"all.yaml": Documents(m.Objects())}
			}
			t.Run(name+"/"+format, func(t *testing.T) {
				folder := filepath.Join("testdata", name, format)
				if *update {
					if err := os.RemoveAll(folder); err != nil {
						t.Fatal(err)
					}
					if _, err := (&Folder{Path: folder}).Write(files); err != nil {
						t.Fatal(err)
					}
				}
				for path, text := range files {
					want, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(path)))
					if err != nil {
						t.Error(err)
					}
					if diff := cmp.Diff(string(want), text); diff != "" {
						t.Errorf("%s (-want +got)\n%s", path, diff)
					}
				}
				present, _, err := (&Folder{Path: folder}).read()
				if err != nil || len(present) != len(files) {
					t.Errorf("there are %d files, want %d (%v)", len(present), len(files), err)
				}
			})
		}
	}
}

// TestFormats checks that all formats contain the same objects, and that parsing the output gives the objects again.
func TestFormats(t *testing.T) {
	for name, m := range models(t) {
		objects := m.Objects()
		text := Documents(objects)
		read, err := yaml.ParseManifests([]byte(text))
		if err != nil || len(read) != len(objects) {
			t.Fatalf("%s: %d of %d objects can be read: %v", name, len(read), len(objects), err)
		}
		var joined []string
		files := m.YAMLFiles(objects)
		for _, path := range files.Names() {
			joined = append(joined, files[path])
		}
		again, err := yaml.ParseManifests([]byte(strings.Join(joined, "---\n")))
		if err != nil || len(again) != len(read) {
			t.Errorf("%s: the files have %d objects, want %d: %v", name, len(again), len(read), err)
		}
		if m.Clone(); text != Documents(m.Objects()) {
			t.Errorf("%s: the model has changed", name)
		}
	}
}

func TestOnly(t *testing.T) {
	m := models(t)["namespaced"]
	for asked, want := range map[string]string{
		"Role": "Role Role Role", "clusterroles,Deployment": "ClusterRole Deployment", "NetworkPolicies": "NetworkPolicy", "service": "Service",
	} {
		got, err := Only(m.Objects(), strings.Split(asked, ","))
		var kinds []string
		for _, o := range got {
			kinds = append(kinds, o.Kind())
		}
		if err != nil || strings.Join(kinds, " ") != want {
			t.Errorf("%s: got %q, %v, want %q", asked, kinds, err, want)
		}
	}
	_, err := Only(m.Objects(), []string{"MutatingWebhookConfiguration"})
	if want := `invalid kind "MutatingWebhookConfiguration" for --only: this operator has CustomResourceDefinition, ServiceAccount, Role, `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	for name, m := range models(t) {
		for _, o := range m.Objects() {
			if err := CheckKind(o.Kind()); err != nil {
				t.Errorf("%s: %s: %v", name, o.Kind(), err)
			}
		}
	}
}

func TestWithoutDescriptions(t *testing.T) {
	m := models(t)["clusterwide"]
	text := YAML(m.Clone().Definitions[0])
	for part, want := range map[string]bool{"what it shows": false, "It is served": false, "description:": true, "{{ none }}": true, "9007199254740993": true} {
		if strings.Contains(text, part) != want {
			t.Errorf("it has %q: %t, want %t\n%s", part, !want, want, text)
		}
	}
	if text := YAML(m.Definitions[0]); !strings.Contains(text, "what it shows") {
		t.Error("the original has changed")
	}
	t.Run("TD-21 fields with the names of keywords, lists of schemas, and columns", func(t *testing.T) {
		const schema = `"type":"object","description":"D","properties":{"default":{"type":"string","description":"D"},"enum":{"description":"D","type":"object","properties":{"description":{"type":"string","description":"D","default":"keep"}}},
"example":{"items":{"description":"D","x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer","description":"D"},{"type":"string"}]},"type":"array","default":[{"description":"keep"}],"enum":[{"description":"keep"}]},
"map":{"type":"object","additionalProperties":{"description":"D","not":{"description":"D"}}},"any":{"additionalProperties":true}}`
		const whole = `{"spec":{"versions":[{"name":"v1","additionalPrinterColumns":[{"name":"A","description":"D","jsonPath":".a"}],"schema":{"openAPIV3Schema":{` + schema + `}}},{"name":"v2"}]}}`
		definition, err := rawjson.DecodeObject([]byte(whole))
		if err != nil {
			t.Fatal(err)
		}
		want, err := rawjson.DecodeObject([]byte(strings.NewReplacer(`"description":"D",`, "", `,"description":"D"`, "", `"description":"D"`, "").Replace(whole)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, WithoutDescriptions(definition)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}
