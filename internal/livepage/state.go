// Package livepage serves the live page of an operator: a page for browsers, and the same facts as JSON. It shows how an operator works, and nothing of what objects contain, but for the texts of errors.
//
// Everything is bounded. All viewers share one snapshot, which is made when a viewer asks for it, and not more often than once a second.
package livepage

import (
	"time"

	"github.com/kopf-go/kopf/internal/inspection"
	"github.com/kopf-go/kopf/internal/metrics"
)

// The limits of what is shown.
const (
	maxRows  = 1000  // of a list
	maxCalls = 20    // the slowest ones
	maxError = 1024  // bytes of the text of an error
	maxKept  = 10000 // handlers in retry that are known at the same time

	keptAfter = time.Minute // its time, what was to be called again and was not is shown no longer
)

// State is what an operator is doing. The names of its fields in JSON are stable.
type State struct {
	Time      time.Time `json:"time"`
	Version   string    `json:"version"` // of the framework
	Started   time.Time `json:"started"`
	Ready     bool      `json:"ready"`
	LoggedIn  bool      `json:"loggedIn"`
	PausedFor string    `json:"pausedFor,omitempty"`
	Election  *Election `json:"election,omitempty"`

	metrics.Live

	Resources []metrics.LiveResource `json:"resources"`
	Streams   []Stream               `json:"streams"`
	Calls     []*Call                `json:"calls"`   // the slowest ones under way, but for daemons
	Retries   []*Retry               `json:"retries"` // the next ones first
	Omitted   map[string]int         `json:"omitted,omitempty"`
}

// Election is the leader election of several replicas.
type Election struct {
	Lease   string `json:"lease"`
	Leading bool   `json:"leading"`
	Holder  string `json:"holder"`
}

// Stream is a stream of the objects of a resource in a namespace.
type Stream struct {
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"` // "" for all
	Open      bool      `json:"open"`                // whether changes are watched
	Listed    bool      `json:"listed"`              // whether the objects were listed, and the stream has worked since
	LastEvent time.Time `json:"lastEvent,omitzero"`  // bookmarks included
	Restarts  int64     `json:"restarts"`
	Error     string    `json:"error,omitempty"` // the last one, until the stream works again
}

// Call is a call of a handler under way.
type Call struct {
	Object  *inspection.Object `json:"object"`
	Handler string             `json:"handler"`
	Since   time.Time          `json:"since"`
	Stack   string             `json:"stack,omitempty"`
}

// Retry is a handler that is called again for an object after an error, or an object that is looked at again after one.
type Retry struct {
	Object   *inspection.Object `json:"object"`
	Handler  string             `json:"handler,omitempty"` // "" if the operator's own requests fail, or update conflicts slow the handling down
	Attempts int                `json:"attempts"`
	Next     time.Time          `json:"nextAttempt"`
	Error    string             `json:"error"`

	apart bool // whether only the next call changes it
}

// ObjectState is what an operator is doing with one object. The names of its fields in JSON are stable.
type ObjectState struct {
	Object    inspection.Object `json:"object"`
	Key       string            `json:"-"` // by which the operator knows it
	Resource  string            `json:"resource"`
	State     string            `json:"state"` // idle, waiting, working or delayed
	Running   []*Call           `json:"running"`
	Records   []*Retry          `json:"records"`
	Decisions []Decision        `json:"decisions"` // the newest first
	Notes     []string          `json:"notes,omitempty"`
}

// Decision is what one look at an object has come to.
type Decision struct {
	Time     time.Time `json:"time"`
	Cause    string    `json:"cause,omitempty"`
	Decision string    `json:"decision"`
	Handlers []Verdict `json:"handlers,omitempty"`
}

// Verdict is what a look at an object has come to for one handler.
type Verdict struct {
	Handler string `json:"handler"`
	Verdict string `json:"verdict"`
}

// bounded bounds a list, and notes how much was left out.
func bounded[T any](s *State, name string, rows []T, limit int) []T {
	if rows == nil {
		return []T{}
	}
	if len(rows) <= limit {
		return rows
	}
	if s.Omitted == nil {
		s.Omitted = make(map[string]int)
	}
	s.Omitted[name] = len(rows) - limit
	return rows[:limit]
}
