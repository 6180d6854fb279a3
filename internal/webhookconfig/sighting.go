package webhookconfig

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// sighting is what the API server has shown of a configuration.
type sighting struct {
	mu       sync.Mutex // guards following
	own      uint64     // the since of the own mark; 0 before the first write of a term
	wanted   string     // hash of the webhooks that this replica wants
	written  string     // hash in the own mark
	version  uint64     // of the last answer or list; 0 if unknown
	mark     mark       // of the last replica
	webhooks any        // of the last replica, with the defaults of the API server; nil if unknown
	edited   bool       // whether another client has changed them since
	stored   any        // the last webhooks, of any client; nil if unknown
	answered time.Time  // when the last replica has answered a question; zero for never

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
	if c.version != 0 && c.mark.since >= c.version { // of another cluster, or of a later history
		c.mark = mark{}
	}
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
	s.stored, s.written = c.webhooks, c.mark.hash
	if s.newest.version > c.version { // an event has already shown a later change
		s.compare(s.newest)
	}
}

// compare compares a later state. Another client has written it if its webhooks are not those that
// its mark was first seen with.
func (s *sighting) compare(c configuration) {
	s.stored = c.webhooks
	same := c.mark.isOf(s.mark)
	if s.webhooks == nil || c.mark != (mark{}) && !same { // written by a replica
		s.mark, s.webhooks, s.edited, s.answered = c.mark, c.webhooks, false, time.Time{}
		return
	}
	if same {
		if s.mark.asked && !c.mark.asked {
			s.answered = time.Now()
		}
		s.mark = c.mark
	}
	s.edited = !same || !rawjson.EqualNormalized(c.webhooks, s.webhooks)
}

// known returns the version of the last answer or list.
func (s *sighting) known() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// isKnown reports whether the stored state is known, also if the configuration is missing.
func (s *sighting) isKnown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored != nil
}

// isForeign reports whether another operator has written the webhooks.
func (s *sighting) isForeign() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity != "" && s.mark.by != "" && s.mark.by != s.identity
}

// note takes over an event, or an item of a list.
func (s *sighting) note(c configuration, listed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if listed {
		s.version, s.newest = c.version, configuration{} // it may have gone back, as after a restore
	}
	if c.version < max(s.version, s.newest.version) { // the event is older than an answer
		return
	}
	s.newest = c
	s.compare(c)
}

// noteMissing takes over a deletion with a version, or a list without the configuration, which has none.
func (s *sighting) noteMissing(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != 0 && version < s.version {
		return
	}
	s.stored = []any{}
	if s.newest = (configuration{version: version, webhooks: []any{}}); version == 0 {
		s.version = 0 // it may have gone back, as after a restore
	}
	if s.webhooks == nil {
		return
	}
	if s.wanted == wantsNone { // a missing configuration has none
		s.newest.mark = mark{hash: s.written, since: s.own}
	}
	s.mark, s.webhooks = s.newest.mark, []any{}
	s.edited = s.mark == mark{}
}

// wantsNone is the hash of no webhooks.
var wantsNone = newMark(none, 0, "").hash

// want notes the hash of the webhooks that this replica wants.
func (s *sighting) want(m mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = m.hash
}

// hasAnswered reports whether the last replica has answered a question within a time.
func (s *sighting) hasAnswered(within time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.answered.IsZero() && time.Since(s.answered) < within
}

// hasBundle reports whether all stored webhooks have the CA certificates of a bundle.
func (s *sighting) hasBundle(bundle []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, known := s.stored.([]any)
	if len(list) == 0 {
		return known && !s.stateLocked().changed()
	}
	for _, webhook := range list {
		object, _ := webhook.(map[string]any)
		client, _ := object["clientConfig"].(map[string]any)
		text, _ := client["caBundle"].(string)
		stored, _ := base64.StdEncoding.DecodeString(text)
		if !includes(stored, bundle) {
			return false
		}
	}
	return true
}

// includes reports whether a CA bundle has all certificates of another one.
func includes(bundle, part []byte) bool {
	var all [][]byte
	for block := range blocks(bundle) {
		all = append(all, block)
	}
	for block := range blocks(part) {
		if !slices.ContainsFunc(all, func(other []byte) bool { return bytes.Equal(other, block) }) {
			return false
		}
	}
	return true
}

// blocks yields the contents of the blocks of a PEM text.
func blocks(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if !yield(block.Bytes) {
				return
			}
		}
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
	wanted string
	mark   mark
	edited bool // by another client
}

func (s *sighting) state() sightingState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stateLocked()
}

func (s *sighting) stateLocked() sightingState {
	former := s.own != 0 && s.mark.since == s.own && s.mark.hash != s.written // as after a restore
	return sightingState{s.own, s.wanted, s.mark, s.edited || former}
}

// overtaken reports whether a replica that started later has written the configuration.
func (s sightingState) overtaken() bool { return s.own != 0 && s.mark.since > s.own }

// doubtful reports whether the webhooks of a replica that started later are not those that this one
// wants. That is so during a rolling update, or permanently if the other one was killed.
func (s sightingState) doubtful() bool {
	return s.overtaken() && (s.edited || s.mark.hash != s.wanted)
}

// asked reports whether another replica asks whether this one still runs.
func (s sightingState) asked() bool { return s.own != 0 && s.mark.since == s.own && s.mark.asked }

// changed reports whether the webhooks are to be written again: another client or a replica that
// started earlier has changed them, or another one asks whether this one still runs.
func (s sightingState) changed() bool {
	return s.own != 0 && (s.mark.since < s.own || s.edited && s.mark.since == s.own) || s.asked()
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
