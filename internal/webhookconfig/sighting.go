package webhookconfig

import (
	"strconv"
	"sync"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// sighting is what the API server has shown of a configuration.
type sighting struct {
	mu       sync.Mutex // guards following
	own      uint64     // the since of the own mark; 0 before the first write of a term
	version  uint64     // of the last answer or list; 0 if unknown
	mark     mark       // of the last replica
	webhooks any        // of the last replica, with the defaults of the API server; nil if unknown
	edited   bool       // whether another client has changed them since

	newest configuration // of the events and lists

	identity string // of this operator, see [Client.identity]
	told     string // identity of the last other operator
}

// configuration is a stored configuration.
type configuration struct {
	version  uint64
	mark     mark
	webhooks any
}

func parseConfiguration(data []byte) configuration {
	object, _ := rawjson.DecodeOrNil(data).(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	version, _ := metadata["resourceVersion"].(string)
	c := configuration{webhooks: object["webhooks"]}
	c.version, _ = strconv.ParseUint(version, 10, 64) // zero for versions that are no numbers
	text, _ := annotations[MarkAnnotation].(string)
	c.mark = parseMark(text)
	if c.webhooks == nil {
		c.webhooks = []any{}
	}
	return c
}

// answer takes over the answer to a request of this replica, whose marks have the given since.
func (s *sighting) answer(c configuration, own uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own, s.version, s.mark, s.webhooks, s.edited = own, c.version, c.mark, c.webhooks, false
	if s.newest.version > c.version { // an event has already shown a later change
		s.compare(s.newest)
	}
}

// compare compares a later state. Another client has written it if its webhooks are not those that
// its mark was first seen with.
func (s *sighting) compare(c configuration) {
	if s.webhooks == nil || c.mark != (mark{}) && c.mark != s.mark { // written by a replica
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

// note takes over an event or an item of a list, nil if the configuration does not exist.
func (s *sighting) note(stored []byte, listed bool) {
	c := parseConfiguration(stored)
	s.mu.Lock()
	defer s.mu.Unlock()
	if listed {
		s.version, s.newest = c.version, configuration{} // it may have gone back, as after a restore
	}
	switch {
	case stored != nil && c.version < s.version: // the event is older than the answer
	case stored != nil:
		s.newest = c
		s.compare(c)
	case s.webhooks != nil:
		s.mark, s.webhooks, s.edited = mark{}, []any{}, true
	}
}

// forget makes a write due that replaces the webhooks of any other replica.
func (s *sighting) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = 0
}

// sightingState is a summary of a sighting.
type sightingState struct {
	own    uint64
	mark   mark
	edited bool // by another client
}

func (s *sighting) state() sightingState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sightingState{s.own, s.mark, s.edited}
}

// overtaken reports whether a replica that started later has written the configuration.
func (s sightingState) overtaken() bool { return s.own != 0 && s.mark.since > s.own }

// changed reports whether the webhooks are to be written again: another client or a replica that
// started earlier has changed them.
func (s sightingState) changed() bool {
	return s.own != 0 && (s.mark.since < s.own || s.edited && s.mark.since == s.own)
}

// setIdentity sets the identity of this operator.
func (s *sighting) setIdentity(identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.identity = identity
}

// other reports whether a mark is that of another operator, which may run now, and whether it was not
// reported before. At the start, a URL can be that of a former process of the same operator.
func (s *sighting) other(m mark) (is, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is = m.since != 0 && m.since != s.own && m.by != "" && s.identity != "" && m.by != s.identity &&
		(s.own != 0 || isShared(m.by) && isShared(s.identity))
	first = is && m.by != s.told
	switch {
	case is:
		s.told = m.by
	case m.by == s.identity:
		s.told = ""
	}
	return is, first
}
