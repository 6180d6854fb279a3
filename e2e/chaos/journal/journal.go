// Package journal records the actions of the fault bench's operator, so that no record is lost when the operator is killed. Each action is one line of JSON,
// which is written at once.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// The events of an entry.
const (
	Started   = "started"   // of the operator
	Begun     = "begun"     // of a call of a handler
	Done      = "done"      // the call has returned without an error
	Temporary = "temporary" // with an error that requests another attempt
	Permanent = "permanent" // with an error that requests none
	Failed    = "failed"    // with another error, or a panic
	Cut       = "cut"       // with the error of its context
	Posted    = "posted"    // a Kubernetes event was posted
	Wrong     = "wrong"     // an impossible state in a call
	Created   = "created"   // an object with a generated name was created, by the call in the note
	Panicked  = "panicked"  // user code other than a handler panicked, as named in the note
	Leading   = "leading"   // the process becomes the leader
	Standing  = "standing"  // it is no longer the leader

	// Superseded replaces the end of a call that came after another process had become the leader.
	Superseded = "superseded"
)

// The user code that panics, besides handlers.
const (
	StoragePanic   = "storage panicked"
	PredicatePanic = "predicate panicked"
	TransformPanic = "transformation panicked"
)

// Entry is one line.
type Entry struct {
	Time    time.Time `json:"time"`
	Run     int       `json:"run"` // the number of the operator's process
	Event   string    `json:"event"`
	Call    int64     `json:"call,omitempty"` // the number of the call in its process
	Handler string    `json:"handler,omitempty"`
	UID     string    `json:"uid,omitempty"`
	Name    string    `json:"name,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Retry   int       `json:"retry,omitempty"`
	Old     int64     `json:"old,omitempty"`     // the value that was handled before
	Value   int64     `json:"value,omitempty"`   // the value of the object in the call
	Version string    `json:"version,omitempty"` // of the object
	Fence   uint64    `json:"fence,omitempty"`   // of the term
	Deaf    bool      `json:"deaf,omitempty"`    // the call ignores its canceled context
	Note    string    `json:"note,omitempty"`
}

// Finished reports whether the handler must not be called again for its cause.
func (e *Entry) Finished() bool { return e.Event == Done || e.Event == Permanent }

// Ended reports whether it is the end of a call.
func (e *Entry) Ended() bool {
	switch e.Event {
	case Done, Temporary, Permanent, Failed, Cut, Superseded:
		return true
	}
	return false
}

// Writer appends to a journal. It is safe for concurrent use.
type Writer struct {
	mu   sync.Mutex
	file *os.File
	run  int
}

// NewWriter opens the journal of a process.
func NewWriter(path string, run int) (*Writer, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.WriteString("\n") // ends a truncated line
	return &Writer{file: file, run: run}, err
}

// Write appends an entry with the current time. A failure to write ends the process, so that none of its later work counts.
func (w *Writer) Write(e Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Time, e.Run = time.Now(), w.run
	data, err := json.Marshal(e)
	if err == nil {
		_, err = w.file.Write(append(data, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// Read returns all entries of a journal, except lines that the end of a process has truncated.
func Read(path string) ([]Entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []Entry
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Bytes()
		if !bytes.HasSuffix(line, []byte("}")) {
			continue
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
		all = append(all, e)
	}
	return all, lines.Err()
}
