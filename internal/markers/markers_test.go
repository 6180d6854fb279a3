package markers

import (
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestManages(t *testing.T) {
	const managed = `[{"manager":"other","fieldsV1":{"f:status":{"f:phase":{}}}},{"manager":"kopf-go","fieldsV1":{"f:status":{"f:kopf":{"f:a.b":{}}}}},"nonsense"]`
	for _, tt := range []struct {
		manager, field string
		want           bool
	}{
		{"kopf-go", "status kopf a.b", true},
		{"kopf-go", "status phase", false},
		{"other", "status phase", true},
		{"other", "status kopf a.b", false},
		{"third", "status", false},
	} {
		if got := Manages([]byte(managed), tt.manager, strings.Split(tt.field, " ")...); got != tt.want {
			t.Errorf("%s, %s: got %t, want %t", tt.manager, tt.field, got, tt.want)
		}
	}
	if Manages(nil, "kopf-go", "status") {
		t.Error("without managed fields, there is a manager")
	}
}

func TestDrop(t *testing.T) {
	for _, tt := range []struct {
		object, want string
		changes      bool
	}{
		{`{"metadata":{"annotations":{"a/x":"1"},"labels":{}},"status":{}}`, `{}`, true},
		{`{"metadata":{"annotations":{"a/x":"1","b/x":"1"}},"spec":{}}`, `{"metadata":{"annotations":{"b/x":"1"}},"spec":{}}`, true},
		{`{"metadata":{"annotations":{"b/x":"1"}},"status":{"a":1}}`, `{"metadata":{"annotations":{"b/x":"1"}},"status":{"a":1}}`, false},
		{`{"spec":1}`, `{"spec":1}`, false},
	} {
		o := rawjson.ParseObject([]byte(tt.object))
		dropped := DropAnnotations(o, func(key []byte) bool { return HasPrefix(key, "a") })
		empty := DropEmpty(o)
		if got := string(o.AppendTo(nil)); got != tt.want || (dropped || empty) != tt.changes {
			t.Errorf("%s: got %s, changed %t, want %s, %t", tt.object, got, dropped || empty, tt.want, tt.changes)
		}
	}
}

func TestReplicaSetID(t *testing.T) {
	for owners, want := range map[string]string{
		`[{"kind": "Other"}, {"kind": "Deployment"}]`: "fn-ofDRS",
		`[{"kind": "Other"}]`:                         "fn",
		`[1, null]`:                                   "fn",
		`[]`:                                          "fn",
		``:                                            "fn",
		`[{"kind": "Deployment"`:                      "fn", // malformed items are ignored
	} {
		if got := ReplicaSetID("fn", []byte(owners)); got != want {
			t.Errorf("%s: got %q, want %q", owners, got, want)
		}
	}
}
