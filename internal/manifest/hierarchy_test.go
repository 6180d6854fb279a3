package manifest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHierarchy(t *testing.T) {
	owner := Owner{APIVersion: "v1", Kind: "K", Namespace: "ns", Name: "own", UID: "u1"}
	all := []Step{(*Hierarchy).AddOwner, (*Hierarchy).SetName, (*Hierarchy).SetNamespace, (*Hierarchy).AddLabels}
	for name, tt := range map[string]struct {
		h      Hierarchy
		steps  []Step
		object string
		want   string
		err    string
	}{
		"all": {
			h: Hierarchy{Owner: owner, Labels: map[string]string{"a": "b"}}, steps: all, object: `{}`,
			want: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"own","uid":"u1","controller":true,"blockOwnerDeletion":true}],
				"generateName":"own-","namespace":"ns","labels":{"a":"b"}}}`,
		},
		"other names": {
			h: Hierarchy{Owner: owner, Name: "n", Namespace: "other", Strict: true}, steps: all[1:3], object: `{}`, want: `{"metadata":{"name":"n","namespace":"other"}}`,
		},
		"one owner of several": {
			h: Hierarchy{Owner: Owner{UID: "u"}, NotController: true, NotBlocking: true}, steps: all[:1], object: `{}`,
			want: `{"metadata":{"ownerReferences":[{"uid":"u","controller":false,"blockOwnerDeletion":false}]}}`,
		},
		"nested": {
			h: Hierarchy{Labels: map[string]string{"a": "b"}, Nested: [][]string{{"spec", "template"}, {"spec", "none"}}}, steps: all[3:], object: `{"spec":{"template":{}}}`,
			want: `{"metadata":{"labels":{"a":"b"}},"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`,
		},
		"nested in a text": {h: Hierarchy{Nested: [][]string{{"spec"}}}, steps: all[3:], object: `{"spec":"x"}`, err: `"spec" is a string, not a map`},
		"no namespace":     {h: Hierarchy{}, steps: all[2:3], object: `{}`, want: `{}`},
		"no uid":           {h: Hierarchy{Owner: Owner{Namespace: "ns", Name: "own"}}, steps: all[:1], object: `{}`, err: "the owner ns/own has no uid"},
		"no uid to remove": {h: Hierarchy{Owner: Owner{Name: "own"}}, steps: []Step{(*Hierarchy).RemoveOwner}, object: `{}`, err: "the owner own has no uid"},
		"no name":          {h: Hierarchy{}, steps: all[1:2], object: `{}`, err: "there is no name to use"},
		"removed": {
			h: Hierarchy{Owner: owner}, steps: []Step{(*Hierarchy).RemoveOwner}, object: `{"metadata":{"ownerReferences":[{"uid":"u1"},{"uid":"u2"}]}}`,
			want: `{"metadata":{"ownerReferences":[{"uid":"u2"}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var object map[string]any
			if err := json.Unmarshal([]byte(tt.object), &object); err != nil {
				t.Fatal(err)
			}
			for _, step := range tt.steps {
				if err := step(&tt.h, object); err != nil {
					if tt.err == "" || !strings.Contains(err.Error(), tt.err) {
						t.Errorf("got the error %v, want %q", err, tt.err)
					}
					return
				}
			}
			var got, want any
			text, err := json.Marshal(object)
			if err == nil {
				err = json.Unmarshal(text, &got)
			}
			if err != nil || tt.err != "" {
				t.Fatalf("got %v, error %v, want the error %q", object, err, tt.err)
			}
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
