package essence

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/progressrecord"
)

// NoBase replaces the digest of the last-handled state if there is none.
const NoBase = "none"

// Seen is a state that finished handlers have seen.
type Seen struct {
	State  *Essence  // nil if only its digest is known
	Digest string    // sorted digest of the state; "" if the state is known
	From   time.Time // earliest end of these handlers; irrelevant for the oldest state
}

// Is reports whether the state equals another one.
func (s *Seen) Is(e *Essence) bool {
	if s.State == nil {
		return e.SortedDigest() == s.Digest
	}
	return s.State.Equal(e)
}

// SeenMessage returns a message that stores states, oldest first, as their differences from the last-handled state. It
// begins with the digest of the last-handled state. Each state has a line: the lengths of the beginning and end that it
// has in common with the last-handled state, and the bytes between. Before those, later states have their time in µs.
func SeenMessage(base string, stored []byte, all []Seen) string {
	var b strings.Builder
	b.WriteString(cmp.Or(base, NoBase))
	for i, seen := range all {
		if i > 0 {
			b.WriteString("\n" + strconv.FormatInt(seen.From.UnixMicro(), 10))
		}
		b.WriteString(" " + progressrecord.Difference(StoredText(stored), seen.State.Text()))
	}
	return b.String()
}

// ShortSeenMessage returns a message that stores only the digest of a state.
func ShortSeenMessage(base string, seen *Essence) string {
	return cmp.Or(base, NoBase) + " " + seen.SortedDigest()
}

// ReadSeen reads the states from a message, or only a digest. It returns nil if the message is damaged, or belongs to
// another last-handled state.
func ReadSeen(message string, stored []byte) (all []Seen) {
	for i, line := range strings.Split(message, "\n") {
		first, rest, _ := strings.Cut(line, " ")
		var seen Seen
		if i == 0 {
			if first != cmp.Or(StoredDigest(stored), NoBase) || rest == "" {
				return nil
			}
			if !strings.Contains(rest, " ") {
				return []Seen{{Digest: rest}}
			}
		} else {
			from, err := strconv.ParseInt(first, 10, 64)
			if err != nil {
				return nil
			}
			seen.From = time.UnixMicro(from)
		}
		text, ok := progressrecord.Restore(StoredText(stored), rest)
		state, err := Parse(text)
		if !ok || state == nil || err != nil {
			return nil
		}
		seen.State = state
		all = append(all, seen)
	}
	return all
}
