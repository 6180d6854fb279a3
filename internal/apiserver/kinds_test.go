package apiserver

import (
	"testing"

	"github.com/kopf-go/kopf/internal/apiserver/types"
)

func TestTypesOfKinds(t *testing.T) {
	for _, k := range builtinKinds() {
		if types.OfKind(k.resource.Group, k.resource.Version, k.resource.Kind) == nil {
			t.Errorf("the type of %s is not known", k.qualified())
		}
	}
}
