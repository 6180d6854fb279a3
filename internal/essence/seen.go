package essence

import (
	"cmp"
	"strings"

	"github.com/kopf-go/kopf/internal/progressrecord"
)

// This file writes and reads the messages of records that keep the state which the handlers of a handling have seen.

// NoBase stands for the digest where there is no last handled state.
const NoBase = "none"

// SeenMessage returns a message that keeps a state, as what differs from the last handled one: the digest of that, how many bytes are those at its
// beginning and at its end, and those between.
func SeenMessage(base string, stored []byte, seen *Essence) string {
	return cmp.Or(base, NoBase) + " " + progressrecord.Difference(StoredText(stored), seen.Text())
}

// ShortSeenMessage returns a message that keeps no more of a state than its digest.
func ShortSeenMessage(base string, seen *Essence) string {
	return cmp.Or(base, NoBase) + " " + seen.SortedDigest()
}

// ReadSeen reads such a message: the state, or its digest if there is no more. It fails if the message belongs to another last handled state.
func ReadSeen(message string, stored []byte) (seen *Essence, digest string, ok bool) {
	base, rest, _ := strings.Cut(message, " ")
	if base != cmp.Or(StoredDigest(stored), NoBase) || rest == "" {
		return nil, "", false
	}
	if !strings.Contains(rest, " ") {
		return nil, rest, true
	}
	text, ok := progressrecord.Restore(StoredText(stored), rest)
	seen, err := Parse(text)
	return seen, "", ok && seen != nil && err == nil
}
