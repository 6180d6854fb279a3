package openapi

import (
	"testing"

	"github.com/kopf-go/kopf/internal/apiserver/types"
)

// TestCompleteKinds checks that all fields of these kinds are described, but for those that every
// object has.
func TestCompleteKinds(t *testing.T) {
	for _, kind := range completeKinds {
		typ := types.Named(kind)
		described := map[string]bool{"apiVersion": true, "kind": true, "metadata": true}
		for _, f := range typ.Description().Fields {
			described[f.Name] = true
		}
		for name := range typ.Schema.Properties {
			if !described[name] {
				t.Errorf("%s.%s is not described", kind, name)
			}
		}
	}
}
