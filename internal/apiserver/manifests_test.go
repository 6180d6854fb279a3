package apiserver

import (
	"testing"

	"github.com/kopf-go/kopf/internal/manifest"
)

func TestManifestErrors(t *testing.T) {
	file := func(path, text string) manifest.File { return manifest.File{Path: path, Data: []byte(text)} }
	owned := func(name, namespace, owner string) string {
		return `{apiVersion: v1, kind: ConfigMap, metadata: {name: ` + name + `, namespace: ` + namespace + `, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: ` + owner + `, uid: u}]}}`
	}
	const gone = ": the garbage collector would delete the object"
	for _, tt := range []struct {
		name  string
		files []manifest.File
		want  string
	}{
		{"nothing", nil, ""},
		{"an empty text in a program", []manifest.File{file("", "")}, ""},
		{"an empty file", []manifest.File{file("a.yaml", "")}, "no objects passed to apply in a.yaml"},
		{"files without objects", []manifest.File{file("a.yaml", "# a\n---\n"), file("standard input", "{apiVersion: v1, kind: List, items: []}")}, "no objects passed to apply in a.yaml, standard input"},
		{"an empty file among others", []manifest.File{file("a.yaml", ""), file("b.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")}, ""},
		{"an owner that is not there", []manifest.File{file("a.yaml", owned("a", "default", "b"))},
			`a.yaml: manifest of the ConfigMap "a": its owner, the ConfigMap "b", does not exist` + gone},
		{"an owner in another namespace", []manifest.File{file("a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: kube-public}}\n---\n"+owned("a", "default", "b"))},
			`a.yaml: document 2: manifest of the ConfigMap "a": its owner, the ConfigMap "b", is in the namespace "kube-public", and not in that of the object` + gone},
		{"owners of each other", []manifest.File{file("a.yaml", owned("a", "default", "b")), file("b.yaml", owned("b", "default", "a"))},
			`a.yaml: manifest of the ConfigMap "a": its owners own each other, or the object is among them: its owner, the ConfigMap "b", does not exist` + gone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := New(Options{}).Load(tt.files); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("without garbage collection", func(t *testing.T) {
		s := New(Options{DisableGarbageCollector: true})
		if err := s.Load([]manifest.File{file("a.yaml", owned("a", "default", "b")), file("b.yaml", owned("b", "default", "a"))}); err != nil {
			t.Error(err)
		}
	})
}
