// Package livepage serves the live page of an operator: an HTML page, and the same data as JSON. Of the content of objects, it shows only error texts.
//
// All data is bounded. All viewers share one snapshot, which is made on demand, at most once a second.
package livepage

import (
	"time"

	"github.com/kopf-go/kopf/internal/inspection"
	"github.com/kopf-go/kopf/internal/metrics"
)

// The limits of the state.
const (
	maxRows  = 1000  // of each list
	maxCalls = 20    // slowest calls shown
	maxError = 1024  // bytes of an error text
	maxKept  = 10000 // tracked retries

	keptAfter = time.Minute // how long an overdue retry is shown
)

// State is the state of an operator. The names of its fields in JSON are stable.
type State struct {
	Time      time.Time `json:"time"`
	Operator  string    `json:"operator,omitempty"` // name of the program
	Cluster   string    `json:"cluster,omitempty"`  // context of the kubeconfig, or host of the API server
	Version   string    `json:"version"`            // of the framework
	Started   time.Time `json:"started"`
	Ready     bool      `json:"ready"`
	LoggedIn  bool      `json:"loggedIn"`
	PausedFor string    `json:"pausedFor,omitempty"`
	Election  *Election `json:"election,omitempty"`

	metrics.Live

	Resources []metrics.LiveResource `json:"resources"`
	Streams   []Stream               `json:"streams"`
	Calls     []*Call                `json:"calls"`   // slowest running calls, without daemons
	Retries   []*Retry               `json:"retries"` // earliest first
	Omitted   map[string]int         `json:"omitted,omitempty"`
}

// Election is the state of a leader election among replicas.
type Election struct {
	Lease   string `json:"lease"`
	Leading bool   `json:"leading"`
	Holder  string `json:"holder"`
}

// Stream is a watch stream of a resource in a namespace.
type Stream struct {
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"` // "" for all namespaces
	Open      bool      `json:"open"`                // a watch is open
	Listed    bool      `json:"listed"`              // the objects were listed, and the stream has worked since
	LastEvent time.Time `json:"lastEvent,omitzero"`  // including bookmarks
	Restarts  int64     `json:"restarts"`
	Error     string    `json:"error,omitempty"` // last error, until the stream works again
}

// Call is a running call of a handler.
type Call struct {
	Object  *inspection.Object `json:"object"`
	Handler string             `json:"handler"`
	Since   time.Time          `json:"since"`
	Stack   string             `json:"stack,omitempty"`
}

// Retry is a handler that will be retried for an object, or an object that is delayed after an error.
type Retry struct {
	Object   *inspection.Object `json:"object"`
	Handler  string             `json:"handler,omitempty"` // "" if kopf's own requests fail, or update conflicts delay the object
	Attempts int                `json:"attempts"`
	Next     time.Time          `json:"nextAttempt"`
	Error    string             `json:"error"`

	apart bool // only the next call changes it
}

// ObjectList has the objects that fit a search.
type ObjectList struct {
	Objects []ObjectRow `json:"objects"`
	Omitted int         `json:"omitted,omitempty"`
}

// ObjectRow is an object in a list. The names of its fields in JSON are stable.
type ObjectRow struct {
	Object   inspection.Object `json:"object"`
	Resource string            `json:"resource"`
	State    string            `json:"state"` // as in [ObjectState]
}

// Add adds an object, or counts it if the list is full.
func (l *ObjectList) Add(row ObjectRow) {
	if len(l.Objects) >= maxRows {
		l.Omitted++
		return
	}
	l.Objects = append(l.Objects, row)
}

// ObjectState is the state of one object in the operator. The names of its fields in JSON are stable.
type ObjectState struct {
	Object    inspection.Object `json:"object"`
	Key       string            `json:"-"` // the operator's key for the object
	Resource  string            `json:"resource"`
	State     string            `json:"state"` // idle, waiting, working or delayed
	Running   []*Call           `json:"running"`
	Records   []*Retry          `json:"records"`
	Decisions []Decision        `json:"decisions"` // newest first
	Notes     []string          `json:"notes,omitempty"`
}

// Decision is the result of one reconciliation of an object.
type Decision struct {
	Time     time.Time `json:"time"`
	Cause    string    `json:"cause,omitempty"`
	Decision string    `json:"decision"`
	Handlers []Verdict `json:"handlers,omitempty"`
}

// Verdict is the part of a decision about one handler.
type Verdict struct {
	Handler string `json:"handler"`
	Verdict string `json:"verdict"`
}

// bounded shortens a list to a limit, and records the number of omitted rows.
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
