package webhookconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"sync"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// MarkAnnotation has the mark of the webhooks that a replica of the operator wrote last. Replicas can write different webhooks, such as during a rolling
// update or the rotation of an authority. They set the mark then, which other clients do not.
const MarkAnnotation = "kopf.dev/webhooks"

// markOf returns the mark of webhooks.
func markOf(webhooks []byte) string {
	sum := sha256.Sum256(webhooks)
	return hex.EncodeToString(sum[:8])
}

// sighting is what the API server has shown of a configuration.
type sighting struct {
	mu       sync.Mutex // guards following
	version  uint64     // of the last answer or list; 0 if unknown
	mark     string     // of the last replica
	webhooks any        // of the last replica, with the defaults of the API server; nil if unknown
	edited   bool       // whether another client has changed them since

	newest configuration // of the events and lists
}

// configuration is a stored configuration.
type configuration struct {
	version  uint64
	mark     string
	webhooks any
}

func parseConfiguration(data []byte) configuration {
	object, _ := rawjson.DecodeOrNil(data).(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	version, _ := metadata["resourceVersion"].(string)
	c := configuration{webhooks: object["webhooks"]}
	c.version, _ = strconv.ParseUint(version, 10, 64) // zero for versions that are no numbers
	c.mark, _ = annotations[MarkAnnotation].(string)
	if c.webhooks == nil {
		c.webhooks = []any{}
	}
	return c
}

// answer takes over the answer to a write.
func (s *sighting) answer(stored []byte) {
	c := parseConfiguration(stored)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.mark, s.webhooks, s.edited = c.version, c.mark, c.webhooks, false
	if s.newest.version > c.version { // an event has already shown a later change
		s.compare(s.newest)
	}
}

// compare compares a later state. Another client has written it if its webhooks are not those that its mark was first seen with.
func (s *sighting) compare(c configuration) {
	if s.webhooks == nil || c.mark != "" && c.mark != s.mark { // written by a replica
		s.mark, s.webhooks, s.edited = c.mark, c.webhooks, false
		return
	}
	s.edited = c.mark != s.mark || !rawjson.EqualNormalized(c.webhooks, s.webhooks)
}

// known returns the version of the last answer or list.
func (s *sighting) known() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// note takes over an event or an item of a list, nil if the configuration does not exist. It reports whether another client has changed the webhooks: they
// are not those that the mark was first seen with.
func (s *sighting) note(stored []byte, listed bool) (edited bool) {
	c := parseConfiguration(stored)
	s.mu.Lock()
	defer s.mu.Unlock()
	if listed {
		s.version, s.newest = c.version, configuration{} // it may have gone back, as after a restore
	}
	switch {
	case stored != nil && c.version < s.version: // the event is older than the answer
	case stored == nil:
		s.edited = s.webhooks != nil
	default:
		s.newest = c
		s.compare(c)
	}
	return s.edited
}

func (s *sighting) isEdited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.edited
}

// lastMark returns the mark of the last replica that has written the configuration, "" if it is unknown.
func (s *sighting) lastMark() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark
}
