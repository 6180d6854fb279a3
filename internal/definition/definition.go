// Package definition generates CustomResourceDefinitions from Go types, and compares them with those of a cluster.
package definition

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/structschema"
	"github.com/kopf-go/kopf/internal/validation"
)

// Options has the parts of a definition that are not in the types.
type Options struct {
	Group, Version                   string
	Kind, Plural, Singular, ListKind string // "" for the default
	ShortNames, Categories           []string
	Cluster                          bool
	Description                      string
	Scale                            *Scale // nil for none
	EmbeddedObjectMeta               bool   // see [structschema.Options]
}

// Scale has the paths of the scale subresource, such as "spec.replicas".
type Scale struct {
	Replicas, StatusReplicas string
	Selector                 string // "" for none
}

// Definition is the CustomResourceDefinition of a kind.
type Definition struct {
	Name, Group, Version, Kind, Plural string
	JSON                               []byte
	Warnings                           []string

	schema           map[string]any
	resources, kinds []string // the names that no other definition of the group can have
}

// tooLarge is the size in bytes beyond which the copy of client-side apply does not fit into an annotation, with some room for other annotations.
const tooLarge = 200 << 10

// Of returns the definition of a struct. See [structschema.Of].
func Of(t, meta reflect.Type, describe structschema.Describe, o Options) (*Definition, error) {
	o.complete(t.Name())
	kind, err := structschema.Of(t, structschema.Options{
		Meta: meta, Describe: describe, EmbeddedObjectMeta: o.EmbeddedObjectMeta,
	})
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return nil, err
	}
	if o.Description != "" {
		kind.Schema["description"] = o.Description
	}
	version := map[string]any{"name": o.Version, "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": kind.Schema}}
	if err := o.addSubresources(version, kind); err != nil {
		return nil, err
	}
	if err := addFields(version, kind); err != nil {
		return nil, err
	}
	if faults := schema.Check(kind.Schema, "schema", kind.HasStatus); len(faults) > 0 {
		return nil, fmt.Errorf("the API server would refuse the definition: %s", faults[0].Message())
	}
	d := &Definition{Name: o.Plural + "." + o.Group, Group: o.Group, Version: o.Version, Kind: o.Kind, Plural: o.Plural, Warnings: kind.Warnings, schema: kind.Schema}
	d.resources = slices.Concat([]string{o.Plural, o.Singular}, o.ShortNames)
	d.kinds = []string{o.Kind, o.ListKind}
	d.JSON, err = rawjson.Encode(o.object(version))
	if len(d.JSON) > tooLarge {
		d.Warnings = append(d.Warnings, fmt.Sprintf("the definition has %d bytes, more than %d: kubectl apply may refuse it without --server-side", len(d.JSON), tooLarge))
	}
	return d, err
}

// SharedName returns a name that two definitions of a group share, or "". An API server serves only one
// of them: kinds and kinds of lists must differ, and so must all names of resources.
func (d *Definition) SharedName(other *Definition) string {
	if d.Group != other.Group {
		return ""
	}
	for _, names := range [][2][]string{{d.kinds, other.kinds}, {d.resources, other.resources}} {
		for _, name := range names[0] {
			if slices.Contains(names[1], name) {
				return name
			}
		}
	}
	return ""
}

func (o *Options) complete(name string) {
	o.Kind = cmp.Or(o.Kind, name)
	o.Singular = cmp.Or(o.Singular, strings.ToLower(o.Kind))
	o.Plural = cmp.Or(o.Plural, Plural(strings.ToLower(o.Kind)))
	o.ListKind = cmp.Or(o.ListKind, o.Kind+"List")
}

// check validates the names.
func (o *Options) check() error {
	label := func(text string) bool { return validation.IsDNSLabel(text) && len(text) <= 63 }
	const want = `want at most 63 lower-case letters, digits and "-"`
	switch {
	case !validation.IsObjectName(o.Group) || !strings.Contains(o.Group, "."):
		return fmt.Errorf("invalid Group %q: want a domain such as \"example.com\"", o.Group)
	case slices.ContainsFunc([]string{"k8s.io", "kubernetes.io"}, func(domain string) bool { return o.Group == domain || strings.HasSuffix(o.Group, "."+domain) }):
		return fmt.Errorf("invalid Group %q: want a domain of your own, because this one is protected", o.Group)
	case !label(o.Version) || !validation.IsVersion(o.Version):
		return fmt.Errorf("invalid Version %q: want one such as \"v1\" or \"v1alpha1\"", o.Version)
	case o.Kind == o.ListKind:
		return fmt.Errorf("invalid ListKind %q: want another one than the Kind", o.ListKind)
	}
	for _, n := range []struct{ field, value string }{{"Kind", o.Kind}, {"ListKind", o.ListKind}} {
		if !label(strings.ToLower(n.value)) {
			return fmt.Errorf("invalid %s %q: want a name such as \"Website\", in letters and digits", n.field, n.value)
		}
	}
	for _, n := range []struct{ field, value string }{{"Plural", o.Plural}, {"Singular", o.Singular}} {
		if !label(n.value) {
			return fmt.Errorf("invalid %s %q: %s", n.field, n.value, want)
		}
	}
	for field, names := range map[string][]string{"ShortNames": o.ShortNames, "Categories": o.Categories} {
		for i, name := range names {
			if !label(name) {
				return fmt.Errorf("invalid name %q in %s: %s", name, field, want)
			}
			if slices.Contains(names[:i], name) {
				return fmt.Errorf("the name %q is twice in %s", name, field)
			}
		}
	}
	return nil
}

// object returns the complete definition with one version.
func (o *Options) object(version map[string]any) map[string]any {
	names := map[string]any{"kind": o.Kind, "listKind": o.ListKind, "plural": o.Plural, "singular": o.Singular}
	for key, values := range map[string][]string{"shortNames": o.ShortNames, "categories": o.Categories} {
		if len(values) > 0 {
			names[key] = values
		}
	}
	scope := "Namespaced"
	if o.Cluster {
		scope = "Cluster"
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": o.Plural + "." + o.Group},
		"spec":     map[string]any{"group": o.Group, "names": names, "scope": scope, "versions": []any{version}},
	}
}

// addSubresources adds the status subresource, and the scale subresource.
func (o *Options) addSubresources(version map[string]any, kind *structschema.Kind) error {
	subresources := make(map[string]any)
	if kind.HasStatus {
		subresources["status"] = map[string]any{}
	}
	if o.Scale != nil {
		scale := make(map[string]any)
		for _, p := range []struct{ name, key, path, stanza, typ string }{
			{"Replicas", "specReplicasPath", o.Scale.Replicas, "spec", "integer"},
			{"StatusReplicas", "statusReplicasPath", o.Scale.StatusReplicas, "status", "integer"},
			{"Selector", "labelSelectorPath", o.Scale.Selector, "", "string"},
		} {
			if p.path == "" && p.name == "Selector" {
				continue
			}
			found, keys, err := schema.FieldAt(kind.Schema, "."+p.path, false)
			switch {
			case err != nil || len(keys) < 2 || p.stanza != "" && keys[0] != p.stanza || keys[0] != "spec" && keys[0] != "status":
				return fmt.Errorf("invalid path %q in the field %s of the Scale: want that of a field below %s", p.path, p.name, cmp.Or(p.stanza, "spec or status"))
			case found["type"] != p.typ:
				return fmt.Errorf("invalid path %q in the field %s of the Scale: want the field to be of the type %s, got %v", p.path, p.name, p.typ, found["type"])
			}
			scale[p.key] = "." + p.path
		}
		subresources["scale"] = scale
	}
	if len(subresources) > 0 {
		version["subresources"] = subresources
	}
	return nil
}

// maxSelectable is the limit of the API server for selectable fields.
const maxSelectable = 8

// addFields adds the printer columns, the age last, and the selectable fields.
func addFields(version map[string]any, kind *structschema.Kind) error {
	var columns, fields []any
	for i, c := range kind.Columns {
		if other := slices.IndexFunc(kind.Columns, func(o structschema.Column) bool { return o.Name == c.Name }); other < i {
			return fmt.Errorf("two columns are named %q: those of the fields %s and %s", c.Name, kind.Columns[other].Path[1:], c.Path[1:])
		}
		column := map[string]any{"name": c.Name, "type": c.Type, "jsonPath": c.Path}
		if c.Format != "" {
			column["format"] = c.Format
		}
		if c.Description != "" {
			column["description"] = c.Description
		}
		if c.Priority != 0 {
			column["priority"] = c.Priority
		}
		columns = append(columns, column)
	}
	if len(columns) > 0 {
		version["additionalPrinterColumns"] = append(columns, map[string]any{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
	}
	for _, path := range kind.Selectable {
		fields = append(fields, map[string]any{"jsonPath": path})
	}
	if len(fields) > maxSelectable {
		return fmt.Errorf("%d fields have the tag \"selectable\": want at most %d", len(fields), maxSelectable)
	}
	if len(fields) > 0 {
		version["selectableFields"] = fields
	}
	return nil
}

// Plural returns the plural of a regular lower-case English word.
func Plural(word string) string {
	ends := func(endings ...string) bool {
		return slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(word, e) })
	}
	if stem, ok := strings.CutSuffix(word, "y"); ok && stem != "" && !strings.ContainsRune("aeiou", rune(stem[len(stem)-1])) {
		return stem + "ies"
	}
	if ends("s", "x", "z", "ch", "sh") {
		return word + "es"
	}
	return word + "s"
}
