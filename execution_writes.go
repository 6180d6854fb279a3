package kopf

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// This file sends what daemons and timers want to change, as often as it takes. It runs on the goroutine of the task.

// pendingWrite is what a task wants to change in its object and could not yet.
type pendingWrite struct {
	patch    *Patch
	attempts int       // that have failed, in a row
	retryAt  time.Time // when the next one is due
	denials  int       // of a webhook or a policy, in a row
	outdated string    // the newest version that the last attempt has shown, if that was refused as a conflict

	succeeded bool // whether the success of a call is to be logged when this is stored
}

// send sends what can be merged first, then the transformations, which can conflict with what others do. What the API server does not take,
// and what panics, is dropped; what is left to be sent again stays in the patch. The name is that of the task.
func (w *pendingWrite) send(s *sender, name string) error {
	err := w.refresh(s)
	if err == nil {
		err = w.request(s, name)
	}
	if err == nil {
		return nil
	}
	w.attempts++
	if conflict := (*conflictError)(nil); errors.As(err, &conflict) {
		w.outdated = s.known().version
	} else {
		w.outdated = ""
	}
	return err
}

// refresh asks for the object if what is known of it is from before the state that has led to a conflict. In a pause and at the exit, no
// stream shows it.
func (w *pendingWrite) refresh(s *sender) error {
	known := s.known()
	if w.outdated == "" || newerVersion(known.version, w.outdated) {
		return nil
	}
	body, err := s.get(known)
	switch {
	case errors.Is(err, errGone):
		return errGone
	case err != nil:
		s.log.Debug("The object cannot be asked for; its patch is made for what is known of it.", "error", err)
	default:
		s.setKnown(known, body)
	}
	return nil
}

func (w *pendingWrite) request(s *sender, name string) error {
	err := s.request(&Patch{merge: w.patch.merge})
	if w.permanentlyRefused(s.log, name, err) {
		err, w.succeeded = nil, false
	}
	w.patch = &Patch{merge: w.patch.merge, transforms: w.patch.transforms} // without the error that was returned to the function
	if err != nil {
		return err
	}
	w.patch.merge = nil
	if err = s.request(w.patch); w.permanentlyRefused(s.log, name, err) {
		err, w.succeeded = nil, false
	}
	return err
}

// permanentlyRefused reports whether it makes no sense to send a patch again, and logs why.
func (w *pendingWrite) permanentlyRefused(log *slog.Logger, name string, err error) bool {
	var refused *patchRefusedError
	var panicked *transformError
	if w.denials++; !isDenied(err) {
		w.denials = 0
	}
	switch {
	case errors.As(err, &refused), w.denials >= maxRefusals:
		log.Error(fmt.Sprintf("The patch of %s was refused: %v", name, err))
	case errors.As(err, &panicked):
		log.Error(fmt.Sprintf("The transformations in the patch of %s are dropped: %v", name, err))
	default:
		return false
	}
	return true
}
