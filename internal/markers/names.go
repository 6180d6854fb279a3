package markers

import (
	"encoding/base64"
	"strings"

	"github.com/kopf-go/kopf/internal/blake2b"
)

// MaxNameLength is the length of an annotation's name by the rules of Kubernetes; of old, with its prefix.
const MaxNameLength = 63

// ReplaceUnsafe replaces what annotation names must not contain, as far as ids of
// functions and fields contain it.
func ReplaceUnsafe(id string) string {
	if !strings.ContainsAny(id, "/<>") {
		return id
	}
	return strings.NewReplacer("/", ".", "<", "_", ">", "_").Replace(id)
}

// HashSuffix returns the suffix, 7 characters long, that makes shortened names differ.
func HashSuffix(name string) string {
	digest := base64.RawStdEncoding.EncodeToString(blake2b.Sum([]byte(name), 4))
	return "-" + strings.NewReplacer("+", "-", "/", ".").Replace(digest)
}
