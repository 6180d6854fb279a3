package webhookconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// MarkAnnotation has the mark of the replica that wrote the webhooks last. Replicas can write
// different webhooks, such as during a rolling update or the rotation of an authority. They set the
// mark then, which other clients do not.
const MarkAnnotation = "kopf.dev/webhooks"

// mark is the mark of a replica. The zero value is none.
type mark struct {
	hash string // of the webhooks
	// The version of the configuration that the replica replaced first. A replica that starts later
	// replaces a later version, so the highest one has the webhooks that stay. Zero if the replica
	// leaves the configuration to any other one.
	since uint64
	by    string // identity of the operator, see [Client.identity]; "" if unknown
	// Whether another replica asks this one whether it still runs. It answers by its mark without the
	// question. See [Keeper.Ask].
	asked bool
}

// newMark returns the mark for webhooks.
func newMark(webhooks []byte, since uint64, by string) mark {
	sum := sha256.Sum256(webhooks)
	return mark{hash: hex.EncodeToString(sum[:8]), since: since, by: by}
}

// isOf reports whether two marks are those of one write, with or without a question.
func (m mark) isOf(other mark) bool {
	m.asked = other.asked
	return m == other
}

// question is the beginning of the value for a mark with a question.
const question = "?"

// String returns the value of the annotation.
func (m mark) String() string {
	text := fmt.Sprintf("%s %d %s", m.hash, m.since, m.by)
	if m.asked {
		return question + text
	}
	return text
}

// parseMark parses the value of the annotation. A value of another form is a hash alone.
func parseMark(text string) mark {
	parts := strings.SplitN(text, " ", 3)
	if len(parts) == 3 {
		if since, err := strconv.ParseUint(parts[1], 10, 64); err == nil {
			hash, asked := strings.CutPrefix(parts[0], question)
			return mark{hash: hash, since: since, by: parts[2], asked: asked}
		}
	}
	return mark{hash: text}
}

// identity returns what the replicas of an operator share, other than their webhooks.
func (c *Client) identity() string {
	switch {
	case c.Service != nil:
		return "Service " + c.Service.Namespace + "/" + c.Service.Name
	case c.Secret != "":
		return "Secret " + c.Secret
	}
	return c.URL
}

// isShared reports whether an identity is one of all replicas, unlike the URL of a single process.
func isShared(identity string) bool {
	return strings.HasPrefix(identity, "Service ") || strings.HasPrefix(identity, "Secret ")
}
