// Package peers keeps the membership of an operator in a peering object. A [Session] reads the records of the operators there. It decides whether its own
// operator works or pauses, and when to write the operator's record. It makes no requests and reads no clock. A [Keeper] does both.
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
	Status  []byte // JSON object of the records by identity
}

// Session is an operator's membership in one peering object. It is not safe for concurrent use. After any change, [Session.Decide] returns whether to pause,
// and [Session.Next] returns the next action. Set the exported fields before use.
type Session struct {
	Identity  string
	Priority  int
	Lifetime  time.Duration // of the own record; 0 for no record
	Mandatory bool          // pause while there is no peering object
	Chosen    bool          // the settings name the object, so that it should exist

	Name, Namespace string       // of the object
	Logger          *slog.Logger // of the operator
	Log             *slog.Logger // the same, with the attributes of the object

	object  *State // newest state; nil if the object is missing
	listed  bool   // a complete list was seen, or the object cannot be watched
	records map[string]peerrecord.Peer
	broken  map[string]string // records that cannot be read, by identity
	alive   int64             // number of other operators
	expired []string          // identities of the expired records in the newest state

	missingSeen     int  // counts how often the object was missing, or its namespace changed
	missingChecked  int  // the value of missingSeen that namespaceEnding belongs to
	namespaceEnding bool // the namespace is being deleted or does not exist

	blockers      string // the operators that this one pauses for
	warnedVersion string // last version of the object with a warning about equal priorities

	hasOwnRecord bool      // the own record is in the newest state
	renewedAt    time.Time // last successful write; zero if none
	writeErr     error     // of the last write; nil if it succeeded, or without an object
	passing      bool      // writeErr is transient
	lapsed       bool      // the operator pauses because its record has expired, or may have
	attemptedAt  time.Time // last write, successful or not
	attempted    *State    // newest state at that time
	nextWrite    time.Time // due time of the next write
}

// Decision is the result of [Session.Decide].
type Decision struct {
	Pause    bool // pause because of this object
	Observed bool // a complete list was seen, or the object cannot be watched
}

// Decide decides whether the operator pauses: for operators with the same or a higher priority, without its mandatory object, or because its own record has
// expired. A replica that does not hold the Lease has no record to renew. Nothing is decided while a check of the namespace is pending.
func (s *Session) Decide(now time.Time, holds bool) (d Decision, decided bool) {
	if s.missingChecked != s.missingSeen {
		return d, false
	}
	lapsed := s.isLapsed(now, holds)
	if lapsed && !s.lapsed {
		s.Log.Warn("Pausing, because our record could not be renewed in time and others may take over", "error", s.writeErr, "help", "K206")
	} else if !lapsed && s.lapsed && s.object != nil {
		s.Log.Info("Renewed our record in the peering object")
	}
	s.lapsed = lapsed
	return Decision{Pause: s.blockers != "" || lapsed || s.object == nil && s.Mandatory && !s.namespaceEnding, Observed: s.listed}, true
}

// Alive returns the last number of other operators that are alive.
func (s *Session) Alive() int64 { return s.alive }

// LapseTime returns when the operator pauses unless it renews its record.
func (s *Session) LapseTime() time.Time { return s.renewedAt.Add(peerrecord.SafeLifetime(s.Lifetime)) }

// isLapsed reports whether the own record has expired for the others, or may have, although its object exists. An operator that was never allowed to write a
// record works without one, and so does an operator without the permission to watch the peers.
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

// See handles a state of the object. It ignores states older than the known one, because responses and the stream can overtake each other.
func (s *Session) See(now time.Time, state State) {
	if s.object != nil && apirequest.NewerVersion(s.object.Version, state.Version) {
		return
	}
	first := s.object == nil
	s.object = &state
	s.evaluate(now, first)
}

// Look evaluates the known state again, and reports whether there is one.
func (s *Session) Look(now time.Time) bool {
	if s.object != nil {
		s.evaluate(now, false)
	}
	return s.object != nil
}

// Listed records that a complete list was seen, or that the object cannot be watched. It returns the earlier value.
func (s *Session) Listed() (before bool) {
	before, s.listed = s.listed, true
	return before
}

// ForgetVersion makes the next state the newest one, whatever its version, because the API server may have been restored to an older history.
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
	_ = rawjson.EachMember(s.object.Status, func(quoted, raw []byte) bool { // a malformed status has no records
		id := rawjson.Unquote(quoted)
		p, err := peerrecord.Read(raw)
		if err != nil {
			if s.broken[id] = p.Raw; broken[id] != p.Raw {
				s.Log.Warn("Ignoring a broken record in the peering object", "identity", id, "record", p.Raw, "error", err, "help", "K210")
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
	if !own && (s.hasOwnRecord || first) && s.Lifetime > 0 { // another client removed it, or the object is new: others must not assume that this operator has stopped
		s.schedule(now)
	}
	s.hasOwnRecord = own
	s.setBlockers(higher, same, expiry)
}

// setBlockers makes the operator pause for operators with a higher or the same priority, or resume without any.
func (s *Session) setBlockers(higher, same []string, expiry time.Time) {
	blockers := strings.Join(append(higher, same...), ", ")
	attrs := []any{"priority", s.Priority, "expiry", expiry, "hint", s.hint()}
	switch {
	case len(higher) > 0:
		if s.blockers == "" {
			s.Log.Info("Pausing operations in favour of "+blockers+".", append(attrs, "help", "K201")...)
		}
	case len(same) > 0 && s.warnedVersion != "" && s.warnedVersion == s.object.Version && s.blockers == blockers:
		// The session has warned about this state already, in a response or from the stream.
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

// hint explains how to end a pause.
func (s *Session) hint() string {
	where := s.Name
	if s.Namespace != "" {
		where += " --namespace " + s.Namespace
	}
	return "the pause ends when these records are removed or expire: stop the other operators, or run this one with a higher --priority, or with --standalone; " +
		"a record that an operator has left when it was killed, or that a person has left, is removed by: resume --peering " + where + " --id KEY"
}

// Lost records that there is no peering object. Without one, an operator has no peers. If it is mandatory, the operator waits for it, unless the namespace is
// being deleted. The version is that of the deletion, if known. The flag gone means that the object does not exist. Without it, the operator may not see the
// object.
func (s *Session) Lost(version string, gone bool) {
	if s.object != nil && s.object.Version != version && apirequest.NewerVersion(s.object.Version, version) {
		return // a response overtook the stream, and has shown a new object with the name
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

// Recheck requests a check whether the namespace of the missing object is being deleted. Until the result is known, nothing changes.
func (s *Session) Recheck() {
	if s.object == nil && s.Mandatory {
		s.missingSeen++
	}
}

// Checked takes the result of a check whether the namespace of the missing object is being deleted or does not exist. The question is that of the [Step].
// Checked returns false if a later check is pending. After a transient error, the duration says when to retry. Zero means no retry.
func (s *Session) Checked(now time.Time, question int, ending bool, after time.Duration) (last bool) {
	s.missingChecked, s.namespaceEnding = question, ending
	if question != s.missingSeen {
		return false
	}
	if s.object != nil { // the object exists again; its evaluation has waited for this result
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
