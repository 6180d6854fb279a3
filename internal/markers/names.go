package markers

import (
	"encoding/base64"
	"strings"

	"github.com/kopf-go/kopf/internal/blake2b"
)

// MaxNameLength is the maximum length of an annotation name in Kubernetes. In old versions of keys, it includes the prefix.
const MaxNameLength = 63

// ReplaceUnsafe replaces the characters of function ids and field paths that annotation names must not contain.
func ReplaceUnsafe(id string) string {
	if !strings.ContainsAny(id, "/<>") {
		return id
	}
	return strings.NewReplacer("/", ".", "<", "_", ">", "_").Replace(id)
}

// HashSuffix returns a suffix of 7 characters that makes shortened names unique.
func HashSuffix(name string) string {
	digest := base64.RawStdEncoding.EncodeToString(blake2b.Sum([]byte(name), 4))
	return "-" + strings.NewReplacer("+", "-", "/", ".").Replace(digest)
}
