package patch

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestApplyStrategicMerge(t *testing.T) {
	for name, tt := range map[string]struct {
		original, patch, want string
		message               string // of the error
	}{
		"maps are merged, and nulls delete": {
			`{"metadata":{"labels":{"a":"1","b":"2"}}}`, `{"metadata":{"labels":{"a":null,"c":"3"}},"spec":{"hostname":null}}`,
			`{"metadata":{"labels":{"b":"2","c":"3"}},"spec":{}}`, "",
		},
		"lists are merged by their key": {
			`{"spec":{"containers":[{"name":"a","image":"1"},{"name":"b"}]}}`, `{"spec":{"containers":[{"name":"c"},{"name":"a","image":"2"}]}}`,
			`{"spec":{"containers":[{"name":"c"},{"image":"2","name":"a"},{"name":"b"}]}}`, "",
		},
		"new items are taken without nulls, directives, and empty lists": {
			`{"spec":{"containers":[{"name":"a"}]}}`,
			`{"spec":{"containers":[{"name":"b","args":null,"command":[],"env":[{"name":"X","$patch":"delete"}],"$setElementOrder/env":[{"name":"X"}]}]}}`,
			`{"spec":{"containers":[{"env":[{"name":"X"}],"name":"b"},{"name":"a"}]}}`, "",
		},
		"lists that end empty are gone": {`{"spec":{"tolerations":[{"key":"a"}]}}`, `{"spec":{"tolerations":[]}}`, `{"spec":{}}`, ""},
		"replaced lists are taken without directives": {
			`{"spec":{"tolerations":[{"key":"a"}]}}`, `{"spec":{"tolerations":[{"key":"b","$patch":"delete"}]}}`, `{"spec":{"tolerations":[{"key":"b"}]}}`, "",
		},
		"an item that takes the room of a deleted one counts as old": {
			`{"spec":{"containers":[{"name":"u"},{"name":"v"}]}}`,
			`{"spec":{"$setElementOrder/containers":[{"name":"r"},{"name":"v"}],"containers":[{"name":"r"},{"name":"v","$patch":"delete"}]}}`,
			`{"spec":{"containers":[{"name":"u"},{"name":"r"}]}}`, "",
		},
		"items are deleted": {
			`{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`, `{"spec":{"containers":[{"$patch":"delete","name":"a"}]}}`,
			`{"spec":{"containers":[{"name":"b"}]}}`, "",
		},
		"lists are replaced": {
			`{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`, `{"spec":{"containers":[{"$patch":"replace"},{"name":"c"}]}}`,
			`{"spec":{"containers":[{"name":"c"}]}}`, "",
		},
		"lists come in an order": {
			`{"spec":{"containers":[{"name":"a"},{"name":"x"},{"name":"b"}]}}`,
			`{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"a","image":"1"}]}}`,
			`{"spec":{"containers":[{"name":"x"},{"name":"b"},{"image":"1","name":"a"}]}}`, "",
		},
		"lists below items are merged": {
			`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80}],"volumeMounts":[{"mountPath":"/x","name":"v"}]}]}}`,
			`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"name":"web"}],"volumeMounts":[{"mountPath":"/x","name":"w"}]}]}}`,
			`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"name":"web"}],"volumeMounts":[{"mountPath":"/x","name":"w"}]}]}}`, "",
		},
		"other lists are replaced": {
			`{"spec":{"tolerations":[{"key":"a"}],"containers":[{"name":"a","args":["1"]}]}}`,
			`{"spec":{"tolerations":[{"key":"b"}],"containers":[{"name":"a","args":["2"]}]}}`,
			`{"spec":{"containers":[{"args":["2"],"name":"a"}],"tolerations":[{"key":"b"}]}}`, "",
		},
		"scalars are merged and deleted": {
			`{"metadata":{"finalizers":["a","b"]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"finalizers":["c"]}}`,
			`{"metadata":{"finalizers":["c","b"]}}`, "",
		},
		"keys are retained": {
			`{"spec":{"volumes":[{"name":"v","emptyDir":{}}]}}`,
			`{"spec":{"volumes":[{"$retainKeys":["name","hostPath"],"name":"v","hostPath":{"path":"/"}}]}}`,
			`{"spec":{"volumes":[{"hostPath":{"path":"/"},"name":"v"}]}}`, "",
		},
		"a map is replaced": {
			`{"metadata":{"labels":{"a":"1"}}}`, `{"metadata":{"labels":{"$patch":"replace","b":"2"}}}`, `{"metadata":{"labels":{"b":"2"}}}`, "",
		},
		"nulls in what is new are dropped": {
			`{}`, `{"spec":{"containers":[{"name":"a","image":null}]}}`, `{"spec":{"containers":[{"name":"a"}]}}`, "",
		},

		"an item without its key": {
			`{"spec":{"containers":[{"name":"a"}]}}`, `{"spec":{"containers":[{"image":"1"}]}}`, "",
			"map: map[image:1] does not contain declared merge key: name",
		},
		"an unknown directive": {
			`{"metadata":{"labels":{"a":"1"}}}`, `{"metadata":{"labels":{"$patch":"odd"}}}`, "", "unknown patch type: odd in map: map[$patch:odd]",
		},
		"keys that are not retained": {
			`{"spec":{"volumes":[{"name":"v"}]}}`, `{"spec":{"volumes":[{"$retainKeys":["name"],"name":"v","emptyDir":{}}]}}`, "",
			"invalid patch format of retainKeys",
		},
		"an order of nothing": {`{"spec":{}}`, `{"spec":{"$setElementOrder":[]}}`, "", "invalid patch format of setElementOrder list"},
		"an order of an unknown list": {
			`{"spec":{}}`, `{"spec":{"$setElementOrder/odd":[]}}`, "", `unable to find api field in struct PodSpec for the json field "odd"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			original, err := rawjson.DecodeObject([]byte(tt.original))
			if err != nil {
				t.Fatal(err)
			}
			patch, err := rawjson.DecodeObject([]byte(tt.patch))
			if err != nil {
				t.Fatal(err)
			}
			merged, err := ApplyStrategicMerge(types.Named("Pod").Schema, original, patch)
			if tt.message != "" {
				var refused *apierrors.StatusError
				if !errors.As(err, &refused) || refused.Message != tt.message {
					t.Errorf("the error is %v, want %q", err, tt.message)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := rawjson.Encode(merged)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzApplyStrategicMerge(f *testing.F) {
	f.Add(`{"spec": {"containers": [{"name": "a"}]}}`, `{"spec": {"$setElementOrder/containers": [{"name": "a"}, null, 1, []], "containers": [{"$patch": "delete", "name": {}}]}}`)
	f.Add(`{"metadata": {"finalizers": [[]]}}`, `{"metadata": {"$deleteFromPrimitiveList/finalizers": {}, "$retainKeys": [1], "finalizers": [null]}}`)
	f.Add(`{"metadata": {"finalizers": ["a"]}}`, `{"metadata": {"finalizers": [1, {}], "$deleteFromPrimitiveList/ownerReferences": [{}], "ownerReferences": [[{}]]}}`)
	f.Add(`{"spec": null}`, `{"$patch": ["replace"], "spec": {"$retainKeys": null}}`)
	f.Fuzz(func(t *testing.T, original, change string) {
		object, failed := rawjson.DecodeObject([]byte(original))
		patch, err := rawjson.DecodeObject([]byte(change))
		if failed != nil || err != nil {
			return
		}
		var refused *apierrors.StatusError
		if _, err := ApplyStrategicMerge(types.Named("Pod").Schema, object, patch); err != nil && !errors.As(err, &refused) {
			t.Errorf("the error is a %T, want a refusal", err)
		}
	})
}
