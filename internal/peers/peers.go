// Package peers keeps the membership of an operator in a peering object. A [Session] decides, by the records that operators keep of themselves there, whether one of them
// works or pauses, and what it has to do for its own record: it makes no requests, and reads no clock. A [Keeper] does that.
package peers

import (
	"log/slog"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/peerrecord"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// State is a state of the peering object.
type State struct {
	Version string
	Status  []byte // JSON, which has the records by the identities
}

// Session is an operator's membership in one peering object. It must not be used on several goroutines at once. After any change, [Session.Decide] returns
// what follows, and [Session.Next] what is to be done next. Its exported fields are to be set before.
type Session struct {
	Identity  string
	Priority  int
	Lifetime  time.Duration // of the own record; there is none without
	Mandatory bool          // whether the operator pauses without a peering object

	Name, Namespace string       // of the object
	Logger          *slog.Logger // of the operator
	Log             *slog.Logger // the same, with where the object is

	object  *State // the newest state, nil if the object is missing
	listed  bool   // whether a whole listing has been seen, or will never be
	records map[string]peerrecord.Peer
	broken  map[string]string // records that cannot be read, as they are
	alive   int64             // others
	expired []string          // whose records are to be removed from the newest state

	missingSeen     int  // how often the object was found missing, or its namespace to change
	missingChecked  int  // for which of those times it is known whether the namespace is being deleted
	namespaceEnding bool // whether it is, or is gone

	blockers      string // for whom the operator pauses
	warnedVersion string // the last state of the object that has the same priority in it, and was warned of

	hasOwnRecord bool      // whether the own record is in the newest state
	renewedAt    time.Time // when it was last written with success; zero if never
	writeErr     error     // why the last attempt to write it has failed, nil if it has not, or there is no object
	passing      bool      // whether the server may well take soon what has failed
	lapsed       bool      // whether the operator pauses because its record counts as dead, or may
	attemptedAt  time.Time // when it was last tried to be written
	attempted    *State    // the newest state at that time
	nextWrite    time.Time // when it is to be written again
}

// Decision is what follows from what is known.
type Decision struct {
	Pause    bool // whether the operator pauses because of this object
	Observed bool // whether the object was seen as it is, or will never be
}

// Decide decides whether the operator pauses: for rivals, without its mandatory object, and without a living record. A replica of the operator that
// does not hold the Lease of an election has no record to renew. It is not decided while that depends on an answer that is not there.
func (s *Session) Decide(now time.Time, holds bool) (d Decision, decided bool) {
	if s.missingChecked != s.missingSeen {
		return d, false
	}
	lapsed := s.isLapsed(now, holds)
	if lapsed && !s.lapsed {
		s.Log.Warn("Pausing, because our record could not be renewed in time and others may take over", "help", "K206", "error", s.writeErr)
	} else if !lapsed && s.lapsed && s.object != nil {
		s.Log.Info("Renewed our record in the peering object")
	}
	s.lapsed = lapsed
	return Decision{Pause: s.blockers != "" || lapsed || s.object == nil && s.Mandatory && !s.namespaceEnding, Observed: s.listed}, true
}

// Alive returns how many others live, as they were last counted.
func (s *Session) Alive() int64 { return s.alive }

// LapseTime returns when the operator ceases to work unless its record is renewed before.
func (s *Session) LapseTime() time.Time { return s.renewedAt.Add(peerrecord.SafeLifetime(s.Lifetime)) }

// isLapsed reports whether the own record counts as dead for the others, or will at any moment, although there is an object for it. An
// operator that was never allowed to write one works without, as those without the permission to watch the peers do.
func (s *Session) isLapsed(now time.Time, holds bool) bool {
	switch known := !s.renewedAt.IsZero(); {
	case s.object == nil || s.Lifetime <= 0 || !holds:
		return false
	case known && !now.Before(s.LapseTime()):
		return true
	case known && s.hasOwnRecord:
		return false
	default:
		return s.writeErr != nil && (known || s.passing)
	}
}

// See takes a state of the object. An older one than the known one is ignored: answers and the stream can be quicker than each other.
func (s *Session) See(now time.Time, state State) {
	if s.object != nil && apirequest.NewerVersion(s.object.Version, state.Version) {
		return
	}
	first := s.object == nil
	s.object = &state
	s.evaluate(now, first)
}

// Look looks again at the known state, and reports whether there is one.
func (s *Session) Look(now time.Time) bool {
	if s.object != nil {
		s.evaluate(now, false)
	}
	return s.object != nil
}

// Listed notes that a whole listing has been seen, or will never be, and reports whether that was known.
func (s *Session) Listed() (before bool) {
	before, s.listed = s.listed, true
	return before
}

// ForgetVersion has the next state that is seen taken for the newest one, whatever its version: the API server may have an older history now.
func (s *Session) ForgetVersion() {
	if s.object != nil {
		s.object = &State{Status: s.object.Status}
	}
}

// evaluate reads the records of the newest state.
func (s *Session) evaluate(now time.Time, first bool) {
	var higher, same []string
	var expiry time.Time // of the last of their records
	known, broken, own := s.records, s.broken, false
	s.records, s.broken, s.expired, s.alive = make(map[string]peerrecord.Peer), make(map[string]string), nil, 0
	_ = rawjson.EachMember(s.object.Status, func(quoted, raw []byte) bool { // what is no object has no records
		id := rawjson.Unquote(quoted)
		p, err := peerrecord.Read(raw)
		if err != nil {
			if s.broken[id] = p.Raw; broken[id] != p.Raw {
				s.Log.Warn("Ignoring a broken record in the peering object", "help", "K210", "identity", id, "record", p.Raw, "error", err)
			}
			return true
		}
		p.Deadline = p.DeadlineAt(now, known[id], s.listed)
		s.records[id] = p
		if id == s.Identity {
			own = true
			return true
		}
		if !now.Before(p.Deadline) {
			s.expired = append(s.expired, id)
			return true
		}
		s.alive++
		switch shown, priority := id+" "+p.Raw, float64(s.Priority); {
		case p.Priority > priority:
			higher = append(higher, shown)
		case p.Priority == priority:
			same = append(same, shown)
		default:
			return true
		}
		if p.Deadline.After(expiry) {
			expiry = p.Deadline
		}
		s.schedule(p.Deadline)
		return true
	})
	if !own && (s.hasOwnRecord || first) && s.Lifetime > 0 { // it was removed, or there was no object for it: others must not believe that we are gone
		s.schedule(now)
	}
	s.hasOwnRecord = own
	s.setBlockers(higher, same, expiry)
}

// setBlockers has the operator pause in favor of those with a higher priority or the same one, or go on without any.
func (s *Session) setBlockers(higher, same []string, expiry time.Time) {
	blockers := strings.Join(append(higher, same...), ", ")
	attrs := []any{"priority", s.Priority, "expiry", expiry, "hint", s.hint()}
	switch {
	case len(higher) > 0:
		if s.blockers == "" {
			s.Log.Info("Pausing operations in favour of "+blockers+".", append(attrs, "help", "K201")...)
		}
	case len(same) > 0 && s.warnedVersion != "" && s.warnedVersion == s.object.Version && s.blockers == blockers:
		// That state of the object was warned of, as the answer to a request of ours or as what the stream has shown.
	case len(same) > 0:
		s.warnedVersion = s.object.Version
		s.Log.Warn("Possibly conflicting operators with the same priority: "+blockers+".", append(attrs, "help", "K202")...)
		if s.blockers == "" {
			s.Logger.Warn("Pausing all operators, including self: "+s.Identity+".", "help", "K202")
		}
	case s.blockers != "":
		s.Logger.Info("Resuming operations after the pause. Gone are: " + s.blockers + ".")
	}
	s.blockers = blockers
}

// hint says what ends a pause.
func (s *Session) hint() string {
	where := s.Name
	if s.Namespace != "" {
		where += " --namespace " + s.Namespace
	}
	return "the pause ends when these records are removed or expire: stop the other operators, or run this one with a higher --priority, or with --standalone; " +
		"a record that an operator has left when it was killed, or that a person has left, is removed by: resume --peering " + where + " --id KEY"
}

// Lost notes that there is no peering object. Without it, no operator has peers; if it is mandatory, there is nothing to do but to wait, unless
// the namespace is being deleted. The version is that of the deletion, if it is known; gone means that it is not merely unseen.
func (s *Session) Lost(version string, gone bool) {
	if s.object != nil && s.object.Version != version && apirequest.NewerVersion(s.object.Version, version) {
		return // an answer was quicker than the stream, and has shown the next object of the name
	}
	if s.object != nil && gone && !s.Mandatory {
		s.Log.Warn("The peering object has been deleted; working as without peers until it exists again", "help", "K209")
	}
	if s.blockers != "" && !s.Mandatory {
		s.Logger.Info("Resuming operations after the pause.")
	}
	clear(s.records)
	s.object, s.expired, s.hasOwnRecord, s.renewedAt, s.alive, s.blockers = nil, nil, false, time.Time{}, 0, ""
	s.Recheck()
}

// Recheck has it found out whether the namespace of the missing object is being deleted. Until that is known, all is as it was.
func (s *Session) Recheck() {
	if s.object == nil && s.Mandatory {
		s.missingSeen++
	}
}

// Checked takes the answer whether the namespace of the missing object is being deleted, or gone: nothing can be missed there. It is the answer to the
// question of a [Step]; unless that was the last one, it is to be asked again. If the server may well answer soon what it has not, it is tried again after a time; zero means that
// it will not.
func (s *Session) Checked(now time.Time, question int, ending bool, after time.Duration) (last bool) {
	s.missingChecked, s.namespaceEnding = question, ending
	if question != s.missingSeen {
		return false
	}
	if s.object != nil { // it is not missing any more, and what it says has waited for this answer
		return true
	}
	if after > 0 {
		s.schedule(now.Add(after))
	}
	if s.Mandatory && !ending {
		s.Log.Warn("Pausing, because the mandatory peering object does not exist or cannot be read", "help", "K204")
	}
	return true
}
