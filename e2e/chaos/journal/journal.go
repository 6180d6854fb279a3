// Package journal is how the operator of the fault bench tells what it does, so that nothing of it is lost when the
// operator is killed: one line of JSON for each thing, written at once.
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
	Temporary = "temporary" // with one that asks for another attempt
	Permanent = "permanent" // with one that asks for none
	Failed    = "failed"    // with another error, or a panic
	Cut       = "cut"       // with the error of its context
	Posted    = "posted"    // a Kubernetes event was handed over
	Wrong     = "wrong"     // what no call should have met
	Created   = "created"   // something with a generated name was made, by the call in the note
	Panicked  = "panicked"  // code of the user that is no handler: which one stands in the note
	Leading   = "leading"   // the process begins to lead
	Standing  = "standing"  // it leads no more

	// Superseded is what the bench makes of the end of a call that came when another process led already.
	Superseded = "superseded"
)

// What panics besides handlers.
const (
	StoragePanic   = "storage panicked"
	PredicatePanic = "predicate panicked"
	TransformPanic = "transformation panicked"
)

// Entry is one line.
type Entry struct {
	Time    time.Time `json:"time"`
	Run     int       `json:"run"` // which process of the operator
	Event   string    `json:"event"`
	Call    int64     `json:"call,omitempty"` // numbers the calls of a process
	Handler string    `json:"handler,omitempty"`
	UID     string    `json:"uid,omitempty"`
	Name    string    `json:"name,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Retry   int       `json:"retry,omitempty"`
	Old     int64     `json:"old,omitempty"`     // the value that was handled before
	Value   int64     `json:"value,omitempty"`   // of the object, as the call has seen it
	Version string    `json:"version,omitempty"` // of the object
	Fence   uint64    `json:"fence,omitempty"`   // of the term
	Deaf    bool      `json:"deaf,omitempty"`    // the call ignores the end of its context
	Note    string    `json:"note,omitempty"`
}

// Finished tells whether the handler is not to be called again, for what it was called for.
func (e *Entry) Finished() bool { return e.Event == Done || e.Event == Permanent }

// Ended tells whether it is the end of a call.
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
	_, err = file.WriteString("\n") // ends what was cut off
	return &Writer{file: file, run: run}, err
}

// Write appends an entry with the time of now. What cannot be written ends the process: nothing that it does counts.
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

// Read returns all entries of a journal but those that the end of a process has cut off.
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
