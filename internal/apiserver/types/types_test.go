package types

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNamedTypes(t *testing.T) {
	for _, typ := range table() {
		for _, f := range typ.Fields {
			if _, _, scalar := ScalarWord(f.Type); !scalar && f.Ref == nil {
				t.Errorf("%s.%s: the type %q is not known", typ.name, f.Name, f.Type)
			}
		}
	}
	ports := OfKind("", "v1", "Pod").Schema.Properties["spec"].Properties["containers"].Items.Properties["ports"]
	if got := ports.ListKeys; !cmp.Equal(got, []string{"containerPort", "protocol"}) || ports.Rules().MergeKey != "containerPort" {
		t.Errorf("the ports of containers are told apart by %q, and merged by %q", got, ports.Rules().MergeKey)
	}
}
