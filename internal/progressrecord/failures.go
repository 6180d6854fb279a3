package progressrecord

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// The limits of the failures on an object, because all annotations of an object together are limited.
const (
	maxFailures       = 10  // handlers, in the order of their ids
	maxFailureMessage = 256 // bytes of each error
)

// FailuresMessage encodes the records of failed handlers by their ids, with the digest of the last-handled state that
// they belong to.
func FailuresMessage(base string, failed map[string]*Record) string {
	b := []byte(base + " {")
	for i, id := range slices.Sorted(maps.Keys(failed)) {
		if i == maxFailures {
			break
		}
		if i > 0 {
			b = append(b, ',')
		}
		short := *failed[id]
		short.Subrefs = nil
		if short.Message != nil {
			text := cut.End(*short.Message, maxFailureMessage)
			short.Message = &text
		}
		b = append(rawjson.AppendString(b, id), ':')
		b = append(b, short.Members(false).Encoded()...)
	}
	return string(append(b, '}'))
}

// ParseFailures decodes the records of failed handlers, and the digest.
func ParseFailures(message string) (base string, failed map[string]*Record, err error) {
	base, text, _ := strings.Cut(message, " ")
	value, err := rawjson.Decode([]byte(text))
	if err != nil {
		return "", nil, err
	}
	members, ok := value.(map[string]any)
	if !ok {
		return "", nil, fmt.Errorf("an object is expected, not %s", rawjson.KindOf(value))
	}
	failed = make(map[string]*Record)
	for id, member := range members {
		if failed[id], err = Parse(member); err != nil {
			return "", nil, fmt.Errorf("%s: %w", id, err)
		}
	}
	return base, failed, nil
}
