// Package definitions compares the CRDs of kopf with those of controller-gen, for the same structs.
package definitions

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"

	"github.com/gobuffalo/flect"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/judges/definitions/kinds"
)

// parser returns the parser of controller-gen for the package with the structs.
func parser(t *testing.T) (*crd.Parser, *loader.Package) {
	t.Helper()
	roots, err := loader.LoadRoots("./kinds")
	if err != nil {
		t.Fatal(err)
	}
	p := newParser(t)
	p.NeedPackage(roots[0])
	return p, roots[0]
}

// newParser returns a parser without packages.
func newParser(t *testing.T) *crd.Parser {
	t.Helper()
	collector := &markers.Collector{Registry: &markers.Registry{}}
	if err := (crd.Generator{}).RegisterMarkers(collector.Registry); err != nil {
		t.Fatal(err)
	}
	p := &crd.Parser{Collector: collector, Checker: &loader.TypeChecker{NodeFilters: []loader.NodeFilter{(crd.Generator{}).CheckFilter()}}}
	crd.AddKnownTypes(p)
	return p
}

// canonical returns an object without descriptions, annotations, and empty fields that come from Go types.
func canonical(t *testing.T, object any) any {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return stripped(v, false)
}

// stripped removes descriptions, but not properties of that name.
func stripped(v any, names bool) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if key == "description" && !names || key == "annotations" && !names || key == "creationTimestamp" {
				delete(v, key)
				continue
			}
			v[key] = stripped(value, key == "properties")
		}
	case []any:
		for i := range v {
			v[i] = stripped(v[i], false)
		}
	}
	return v
}

func TestDefinitions(t *testing.T) {
	p, pkg := parser(t)
	gk := schema.GroupKind{Group: "example.com", Kind: "Gallery"}
	p.GroupVersions[pkg] = schema.GroupVersion{Group: "example.com", Version: "v1"}
	p.NeedCRDFor(gk, nil)
	for _, err := range pkg.Errors {
		t.Errorf("controller-gen: %v", err)
	}
	theirs := p.CustomResourceDefinitions[gk]
	crd.FixTopLevelMetadata(theirs)
	want := canonical(t, theirs).(map[string]any)
	delete(want, "status")
	k := kopf.DefineIn[kinds.KopfGallery](&kopf.Registry{}, &kopf.Definition{
		Group: "example.com", Version: "v1", Kind: "Gallery", ShortNames: []string{"gal"}, Categories: []string{"all"},
		Scale: &kopf.Scale{Replicas: "spec.replicas", StatusReplicas: "status.replicas", Selector: "status.selector"},
	})
	got := canonical(t, json.RawMessage(k.Manifest()))
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("definitions (-controller-gen +kopf)\n%s", diff)
	}
}

// schemaOf returns the schema that controller-gen makes of a type.
func schemaOf(t *testing.T, p *crd.Parser, pkg, name string) any {
	t.Helper()
	roots, err := loader.LoadRoots(pkg)
	if err != nil {
		t.Fatal(err)
	}
	ident := crd.TypeIdent{Package: roots[0], Name: name}
	p.NeedFlattenedSchemaFor(ident)
	return canonical(t, p.FlattenedSchemata[ident])
}

// TestTypes compares the types that kopf defines itself with those of Kubernetes.
func TestTypes(t *testing.T) {
	p, _ := parser(t)
	type all struct {
		Condition kopf.Condition     `json:"condition"`
		Quantity  kopf.Quantity      `json:"quantity"`
		Port      kopf.IntOrString   `json:"port"`
		Selector  kopf.LabelSelector `json:"selector"`
		Duration  kopf.Duration      `json:"duration"`
	}
	type kind struct {
		kopf.Meta
		Spec all `json:"spec"`
	}
	k := kopf.DefineIn[kind](&kopf.Registry{}, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Thing"})
	body, err := kopf.ParseBody(k.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	properties := body.Spec().Views("versions")[0].View("schema.openAPIV3Schema.properties.spec.properties")
	for field, of := range map[string]string{
		"condition": "k8s.io/apimachinery/pkg/apis/meta/v1.Condition", "quantity": "k8s.io/apimachinery/pkg/api/resource.Quantity", "port": "k8s.io/apimachinery/pkg/util/intstr.IntOrString",
		"selector": "k8s.io/apimachinery/pkg/apis/meta/v1.LabelSelector", "duration": "k8s.io/apimachinery/pkg/apis/meta/v1.Duration",
	} {
		dot := strings.LastIndex(of, ".")
		got := canonical(t, properties.View(kopf.FieldPath(field))).(map[string]any)
		switch field {
		case "duration": // it is any text for Kubernetes
			delete(got, "pattern")
		case "port": // a larger number could not be read
			delete(got, "minimum")
			delete(got, "maximum")
		}
		want := schemaOf(t, p, of[:dot], of[dot+1:])
		if diff := cmp.Diff(want, any(got)); diff != "" {
			t.Errorf("%s (-controller-gen +kopf)\n%s", of, diff)
		}
	}
}

// TestPlurals compares the plurals of regular words with those of the library of controller-gen.
func TestPlurals(t *testing.T) {
	type kind struct {
		kopf.Meta
	}
	for _, name := range strings.Fields("Website Database Policy Gateway Proxy Class Ingress Box Branch Dish Key Cluster Machine Secret Backup Registry Address Mailbox Switch Process Repository Deployment Cache Bucket User Queue Topic Team") {
		k := kopf.DefineIn[kind](&kopf.Registry{}, &kopf.Definition{Group: "example.com", Version: "v1", Kind: name})
		want := strings.ToLower(flect.Pluralize(name))
		if got := string(k.Selector()[strings.LastIndex(string(k.Selector()), "/")+1:]); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// TestMarkers checks that the documentation covers all markers of controller-gen.
func TestMarkers(t *testing.T) {
	registry := &markers.Registry{}
	if err := (crd.Generator{}).RegisterMarkers(registry); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/controller-runtime.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Markers of controller-gen")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, d := range registry.AllDefinitions() {
		if strings.HasPrefix(d.Name, "kubebuilder:validation:items:") {
			continue // those for items share one line
		}
		if name := d.Name[strings.LastIndexByte(d.Name, ':')+1:]; !strings.Contains(section, name+"`") {
			t.Errorf("docs/controller-runtime.md does not answer the marker %s", d.Name)
		}
	}
}
