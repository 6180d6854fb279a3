package e2e

import (
	"math/rand/v2"
	"testing"

	"github.com/kopf-go/kopf/internal/apiserver/quantity"
	"github.com/kopf-go/kopf/internal/proof"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestQuantities compares the amounts of the in-memory API server with those of Kubernetes.
func TestQuantities(t *testing.T) {
	const letters = "00112345.+-eEinumkKMGTPx"
	random := rand.New(rand.NewPCG(1, 2))
	for range proof.Rounds(100_000, 5_000_000) {
		text := make([]byte, random.IntN(6))
		for i := range text {
			text[i] = letters[random.IntN(min(len(letters), 9+9*i))]
		}
		want, wantErr := resource.ParseQuantity(string(text))
		got, err := quantity.Parse(string(text))
		switch {
		case wantErr != nil || err != nil:
			if wantErr == nil || err == nil || err.Error() != wantErr.Error() {
				t.Fatalf("%q: %v, want %v", text, err, wantErr)
			}
		case got.String() != want.String():
			t.Fatalf("%q becomes %s, want %s", text, got, want.String())
		}
	}
}
