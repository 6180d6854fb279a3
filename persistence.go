package kopf

import "time"

// ProgressRecord is the stored progress of one handler on one object.
type ProgressRecord struct {
	Started, Stopped, Delayed time.Time
	Purpose                   Reason
	Retries                   int
	Success, Failure          bool
	Message                   *string
	Subrefs                   []string
}

// Essence is the tracked part of an object.
type Essence struct{ root *object }

// ProgressStorage keeps the progress of handlers on the objects.
type ProgressStorage interface{}

// DiffBaseStorage keeps the last handled essence on the objects.
type DiffBaseStorage interface{}

// SmartProgressStorage is the default.
type SmartProgressStorage struct{}

// AnnotationsDiffBaseStorage is the default.
type AnnotationsDiffBaseStorage struct{}

// Equal is a stub.
func (e *Essence) Equal(o *Essence) bool { return false }
