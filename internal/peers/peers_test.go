package peers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// began is the start time of the sessions.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// session is a session of the operator "me" with priority 5, with its clock and its log.
type session struct {
	*Session
	t   *testing.T
	now time.Time
	log *bytes.Buffer
}

func newSession(t *testing.T, adjust ...func(*Session)) *session {
	s := &session{t: t, now: began, log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(s.log, nil))
	s.Session = &Session{Identity: "me", Priority: 5, Lifetime: time.Minute, Name: "default", Logger: log, Log: log.With("peering", "default")}
	for _, f := range adjust {
		f(s.Session)
	}
	return s
}

func mandatory(s *Session) { s.Mandatory = true }

// listed returns a session that has seen a complete list: an empty object with version 1.
func listed(t *testing.T, adjust ...func(*Session)) *session {
	s := newSession(t, adjust...)
	s.see(1)
	s.Listed()
	return s
}

// operator is the record of an operator, with a lifetime of a minute.
type operator struct {
	id       string
	priority int
	seen     time.Time // its own last-seen time; zero if absent
}

// see passes a state to the session: a version with the records of operators.
func (s *session) see(version int, operators ...operator) {
	s.t.Helper()
	s.See(s.now, stateOf(s.t, version, operators...))
}

func stateOf(t *testing.T, version int, operators ...operator) State {
	t.Helper()
	records := make(map[string]any)
	for _, o := range operators {
		record := map[string]any{"priority": o.priority, "lifetime": 60}
		if !o.seen.IsZero() {
			record["lastseen"] = o.seen.Format(time.RFC3339)
		}
		records[o.id] = record
	}
	status, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	return State{Version: fmt.Sprint(version), Status: status}
}

// wantPause checks whether the operator pauses, and that the new log lines contain the texts.
func (s *session) wantPause(pause bool, lines ...string) {
	s.t.Helper()
	d, decided := s.Decide(s.now, true)
	if !decided || d.Pause != pause {
		s.t.Errorf("got the pause %t, decided %t, want %t", d.Pause, decided, pause)
	}
	s.wantLines(lines...)
}

func (s *session) wantLines(lines ...string) {
	s.t.Helper()
	got := slices.Collect(strings.Lines(s.log.String()))
	if s.log.Reset(); !slices.EqualFunc(got, lines, strings.Contains) {
		s.t.Errorf("got the lines %q, want %q", got, lines)
	}
}

// wantNext checks the next action and its waiting time.
func (s *session) wantNext(action Action, wait time.Duration) {
	s.t.Helper()
	if got := s.Next(s.now, true); got.Action != action || got.Wait != wait {
		s.t.Errorf("got the step %+v, want %d after %s", got, action, wait)
	}
}

// writes performs a write of the own record, with a state as the response.
func (s *session) writes(version int, operators ...operator) {
	s.t.Helper()
	s.Begin(s.now)
	s.Written(s.now, stateOf(s.t, version, operators...))
}

var (
	me     = operator{id: "me", priority: 5}
	boss   = operator{id: "boss", priority: 6}
	equal  = operator{id: "equal", priority: 5}
	junior = operator{id: "junior", priority: 4}
)

func TestRivals(t *testing.T) {
	s := listed(t)
	s.wantPause(false)
	s.see(2, junior)
	s.wantPause(false)
	s.see(3, junior, boss)
	s.wantPause(true, "Pausing operations in favour of boss ")
	s.see(4, boss)
	s.wantPause(true)
	s.see(5, equal)
	s.wantPause(true, "Possibly conflicting operators with the same priority: equal ")
	s.see(6)
	s.wantPause(false, "Resuming operations after the pause. Gone are: equal ")
	s.see(7, equal)
	s.wantPause(true, "Possibly conflicting operators", "Pausing all operators, including self: me.")
	s.see(8, boss, equal)
	s.wantPause(true)
	if alive := s.Alive(); alive != 2 {
		t.Errorf("%d others are alive, want 2", alive)
	}
}

// TestSeenTwice checks that a state causes one warning, even if both the response and the stream show it.
func TestSeenTwice(t *testing.T) {
	s := listed(t)
	s.see(2, equal)
	s.wantPause(true, "Possibly conflicting", "Pausing all")
	s.Look(s.now)
	s.wantPause(true)
	s.see(3, equal)
	s.wantPause(true, "Possibly conflicting")
}

func TestOutdatedStates(t *testing.T) {
	s := listed(t)
	s.see(10, me)
	s.see(9, boss)
	s.see(10, boss)
	s.wantPause(false)
	s.Lost("8", true)
	s.wantPause(false)
	s.ForgetVersion()
	s.see(3, boss)
	s.wantPause(true, "Pausing operations")
	s.Lost("11", true)
	s.wantPause(false, "The peering object has been deleted", "Resuming operations after the pause.")
	s.Lost("11", true)
	s.wantPause(false)
	if s.Look(s.now) {
		t.Error("there is an object to look at after it was deleted")
	}
	s.see(2, boss)
	s.wantPause(true, "Pausing operations")
	s.Lost("2", true) // of the known state
	s.wantPause(false, "The peering object has been deleted", "Resuming operations after the pause.")
}

// TestAnswers checks that the response to a write counts whatever its version, unless a state was seen since the request.
func TestAnswers(t *testing.T) {
	s := listed(t)
	s.see(10)
	s.writes(3, me, boss)
	s.wantPause(true, "Pausing operations")
	s.Begin(s.now)
	s.see(20)
	s.Written(s.now, stateOf(t, 4, me, boss))
	s.wantPause(false, "Resuming operations")
}

func TestDeadRecords(t *testing.T) {
	dead := operator{"dead", 6, began.Add(-time.Hour)}
	s := newSession(t)
	s.see(1, dead, operator{"late", 6, began.Add(-59 * time.Second)})
	s.wantPause(true, "in favour of late ")
	s.Listed()
	s.now = s.now.Add(time.Second)
	s.Look(s.now)
	s.wantPause(false, "Resuming operations")
	if alive := s.Alive(); alive != 0 {
		t.Errorf("%d others are alive, want none", alive)
	}
	s.Begin(s.now)
	if next := s.Next(s.now, true); next.Action != RemoveExpired {
		t.Errorf("got the step %+v, want to remove dead records", next)
	}
	if version, expired := s.TakeExpired(); version != "1" || !slices.Equal(slices.Sorted(slices.Values(expired)), []string{"dead", "late"}) {
		t.Errorf("got %q of the version %q", expired, version)
	}
	if next := s.Next(s.now, true); next.Action != Idle {
		t.Errorf("got the step %+v, want none", next)
	}
	s.see(2, operator{"wrong", 6, began.Add(-2 * time.Hour)}) // its clock is wrong: the record arrived after the list
	s.wantPause(true, "in favour of wrong ")
}

// TestDeadlines checks that the own record is written when a blocking record expires, so that the response shows the expiration.
func TestDeadlines(t *testing.T) {
	s := listed(t)
	s.Begin(s.now)
	s.see(2, me, operator{"boss", 6, began.Add(-time.Hour)}, junior)
	s.now = s.now.Add(20 * time.Second)
	s.see(3, me, operator{"boss", 6, began.Add(-time.Hour)}, junior, equal)
	s.Begin(s.now)
	s.Look(s.now)
	s.wantNext(Idle, 40*time.Second)
	s.now = s.now.Add(40 * time.Second)
	s.wantNext(Write, 0)
}

func TestLapse(t *testing.T) {
	const lapsed, renewed = "Pausing, because our record could not be renewed in time", "Renewed our record in the peering object"
	down := errors.New("down")
	t.Run("it is not renewed", func(t *testing.T) {
		s := listed(t)
		s.writes(2, me)
		s.now = s.LapseTime().Add(-1)
		s.wantPause(false)
		s.now = s.LapseTime()
		s.wantPause(true, lapsed)
		s.wantPause(true)
		if d, _ := s.Decide(s.now, false); d.Pause {
			t.Error("a replica that stands by pauses for its record")
		}
		s.wantLines(renewed)
		s.wantPause(true, lapsed)
		s.writes(3, me)
		s.wantPause(false, renewed)
		s.Renew(s.now)
		s.wantPause(false)
	})
	t.Run("there was none yet, and the server may take it soon", func(t *testing.T) {
		s := listed(t)
		s.Begin(s.now)
		s.Failed(down, 3*time.Second)
		s.wantPause(true, "Writing our record to the peering object failed; retrying", lapsed)
		s.wantNext(Idle, 3*time.Second)
		s.now = s.now.Add(3 * time.Second)
		s.wantNext(Write, 0)
		s.Begin(s.now)
		s.Failed(down, 3*time.Second)
		s.wantPause(true)
		s.writes(2, me)
		s.wantPause(false, renewed)
	})
	t.Run("it was never permitted", func(t *testing.T) {
		s := listed(t)
		s.Begin(s.now)
		s.Failed(down, 0)
		s.wantPause(false, "Writing our record")
	})
	t.Run("it was removed, and is not permitted any more", func(t *testing.T) {
		s := listed(t)
		s.writes(2, me)
		s.Begin(s.now)
		s.Failed(down, 0)
		s.wantPause(false, "Writing our record")
		s.see(3)
		s.wantPause(true, lapsed)
	})
	t.Run("there is no object", func(t *testing.T) {
		s := listed(t)
		s.Begin(s.now)
		s.Failed(down, time.Second)
		s.Lost("", true)
		s.wantPause(false, "Writing our record", "The peering object has been deleted")
	})
	t.Run("its time counts from the beginning of the attempt", func(t *testing.T) {
		s := listed(t)
		s.Begin(s.now)
		s.now = s.now.Add(5 * time.Second)
		s.Written(s.now, stateOf(t, 2, me))
		if got := s.LapseTime(); !got.Equal(began.Add(59 * time.Second)) {
			t.Errorf("it lapses at %s", got)
		}
	})
	t.Run("it was in an object that is gone", func(t *testing.T) {
		s := listed(t)
		s.writes(2, me)
		s.Lost("3", true)
		s.now = s.now.Add(time.Hour)
		s.see(4)
		s.wantPause(false, "The peering object has been deleted")
	})
	t.Run("it has no lifetime", func(t *testing.T) {
		s := listed(t, func(s *Session) { s.Lifetime = 0 })
		s.writes(2)
		s.now = s.now.Add(time.Hour)
		s.wantPause(false)
	})
}

func TestRemovedRecord(t *testing.T) {
	s := listed(t)
	s.writes(2, me)
	s.now = s.now.Add(300 * time.Millisecond)
	s.see(3)
	s.wantNext(Idle, 700*time.Millisecond) // at most once a second
	s.now = s.now.Add(10 * time.Second)
	s.writes(4, me)
	s.now = s.now.Add(5 * time.Second)
	s.see(5)
	s.wantNext(Write, 0)
	s.Begin(s.now)
	s.see(6)
	if next := s.Next(s.now, true); next.Action != Idle || next.Wait < 10*time.Second {
		t.Errorf("got the step %+v while the record is being written", next)
	}
}

// TestNewObject checks that the own record is written as soon as the object exists.
func TestNewObject(t *testing.T) {
	s := newSession(t)
	s.Begin(s.now)
	s.NotFound()
	s.now = s.now.Add(10 * time.Second)
	s.see(1)
	s.wantNext(Write, 0)
}

func TestStandby(t *testing.T) {
	s := newSession(t)
	s.see(1, operator{"dead", 6, began.Add(-time.Hour)})
	if next := s.Next(s.now, false); next != (Step{Wait: standbyInterval}) {
		t.Errorf("got the step %+v of a replica that stands by", next)
	}
	s.Renew(s.now)
	s.wantNext(Write, 0)
}

func TestMandatory(t *testing.T) {
	const missing = "Pausing, because the mandatory peering object does not exist"
	// asked expects a check of the namespace, and returns its question.
	asked := func(s *session) int {
		t.Helper()
		if _, decided := s.Decide(s.now, true); decided {
			t.Error("it is decided before the namespace is known")
		}
		next := s.Next(s.now, false)
		if next.Action != CheckNamespace {
			t.Errorf("got the step %+v, want to ask for the namespace", next)
		}
		return next.Question
	}
	t.Run("it is missing", func(t *testing.T) {
		s := listed(t, mandatory)
		s.wantPause(false)
		s.Lost("", true)
		if !s.Checked(s.now, asked(s), false, 0) {
			t.Error("the answer is not that to the last question")
		}
		s.wantPause(true, missing)
		s.see(5)
		s.wantPause(false)
	})
	t.Run("its namespace is being deleted", func(t *testing.T) {
		s := listed(t, mandatory)
		s.see(2, boss)
		s.wantPause(true, "Pausing operations")
		s.Lost("3", true)
		s.Checked(s.now, asked(s), true, 0)
		s.wantPause(false)
		s.Recheck() // it may exist again
		s.Checked(s.now, asked(s), false, 0)
		s.wantPause(true, missing)
	})
	t.Run("it is not known", func(t *testing.T) {
		s := listed(t, mandatory)
		s.Begin(s.now)
		s.NotFound()
		s.Checked(s.now, asked(s), false, 2*time.Second)
		s.wantPause(true, missing)
		s.wantNext(Idle, 2*time.Second)
	})
	t.Run("it is asked again", func(t *testing.T) {
		s := listed(t, mandatory)
		s.Lost("", true)
		question := asked(s)
		s.Recheck()
		if s.Checked(s.now, question, false, 0) {
			t.Error("an earlier answer is taken for the last one")
		}
		asked(s)
		s.wantLines()
	})
	t.Run("it comes before the answer", func(t *testing.T) {
		s := listed(t, mandatory)
		s.Lost("", true)
		question := asked(s)
		s.see(7, boss)
		asked(s)
		if !s.Checked(s.now, question, false, 0) {
			t.Error("the answer is not that to the last question")
		}
		s.wantPause(true, "Pausing operations")
	})
}

func TestBrokenRecords(t *testing.T) {
	const broken = "Ignoring a broken record in the peering object"
	s := listed(t)
	s.See(s.now, State{Version: "2", Status: []byte(`{"odd": 1, "boss": {"priority": 6}}`)})
	s.wantPause(true, broken, "in favour of boss ")
	s.See(s.now, State{Version: "3", Status: []byte(`{"odd": 1}`)})
	s.wantPause(false, "Resuming")
	s.See(s.now, State{Version: "4", Status: []byte(`{"odd": 2}`)})
	s.wantPause(false, broken)
	for i, status := range []string{"", "null", "[]", `"text"`} {
		s.See(s.now, State{Version: fmt.Sprint(5 + i), Status: []byte(status)})
		s.wantPause(false)
	}
}

func TestObserved(t *testing.T) {
	s := newSession(t)
	s.see(1)
	if d, decided := s.Decide(s.now, true); !decided || d.Observed {
		t.Error("the object is observed before a listing was seen")
	}
	if s.Listed() {
		t.Error("a listing was seen before")
	}
	if d, decided := s.Decide(s.now, true); !decided || !d.Observed || !s.Listed() {
		t.Error("the object is not observed after a listing was seen")
	}
}
