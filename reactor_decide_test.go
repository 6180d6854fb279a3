package kopf

import (
	"testing"
	"time"
)

// TestDecide has each rule of the decision alone, and before those that come after it.
func TestDecide(t *testing.T) {
	fit := stateFacts{relevant: true, stored: true, resumes: true} // an object that is as it was handled
	with := func(change func(*stateFacts)) stateFacts {
		s := fit
		change(&s)
		return s
	}
	all := snapshot{stage: stateObserved, stateFacts: with(func(s *stateFacts) { s.changed, s.required = true, true })}
	tests := []struct {
		name string
		s    snapshot
		want action
	}{
		{"nothing of it counts", snapshot{eventFacts: eventFacts{superseded: true, deleted: true}}, action{kind: actionDrop}},
		{"it is gone", snapshot{eventFacts: eventFacts{deleted: true, errorPause: 1}}, action{kind: actionEnd, reason: reasonGone}},
		{"a pause is not over", snapshot{eventFacts: eventFacts{errorPause: 3, stopping: true}}, action{kind: actionPause, wait: 3}},
		{"a pause is over", snapshot{eventFacts: eventFacts{errorPause: -1}}, action{kind: actionObserve}},
		{"the operator stops", snapshot{eventFacts: eventFacts{stopping: true, released: true}}, action{kind: actionDrop}},
		{"the event is late", snapshot{eventFacts: eventFacts{released: true, legacy: true}}, action{kind: actionIgnore}},
		{"it may be there again", snapshot{eventFacts: eventFacts{recreated: true, legacy: true}}, action{kind: actionConfirm}},
		{"an older operator holds it", snapshot{eventFacts: eventFacts{legacy: true}, stage: stateObserved}, action{kind: actionRemoveLegacy}},
		{"its tasks are not looked at", snapshot{taskFacts: taskFacts{backoff: 1}}, action{kind: actionObserve}},
		{"it is changed again and again", snapshot{taskFacts: taskFacts{backoff: 5}, stage: tasksObserved}, action{kind: actionBackOff, wait: 5}},
		{"its state is not looked at", snapshot{stage: tasksObserved, stateFacts: all.stateFacts}, action{kind: actionObserve}},
		{"a handler needs the finalizer", all, action{kind: actionAddFinalizer}},
		{"a task needs the finalizer", snapshot{stage: stateObserved, taskFacts: taskFacts{held: true}}, action{kind: actionAddFinalizer}},
		{"it goes, and has no finalizer", snapshot{stage: stateObserved, eventFacts: eventFacts{deleting: true}, stateFacts: all.stateFacts}, action{kind: actionUnchanged, reason: reasonFree}},
		{"nothing needs the finalizer", snapshot{stage: stateObserved, eventFacts: eventFacts{finalized: true}, stateFacts: fit}, action{kind: actionRemoveFinalizer}},
		{"nothing needs the finalizer of an object that goes", snapshot{stage: stateObserved, eventFacts: eventFacts{finalized: true, deleting: true}, stateFacts: fit}, action{kind: actionRemoveFinalizer}},
		{"no handler is for it", snapshot{stage: stateObserved, stateFacts: stateFacts{changed: true}}, action{kind: actionSkip}},
		{"no handler is for it, but a task holds it", snapshot{stage: stateObserved, eventFacts: eventFacts{finalized: true}, taskFacts: taskFacts{held: true}}, action{kind: actionSkip}},
		{"it has children elsewhere", snapshot{stage: stateObserved, taskFacts: taskFacts{members: true}}, action{kind: actionAddFinalizer}},
		{"its children elsewhere are to go with it", snapshot{stage: stateObserved, eventFacts: eventFacts{deleting: true, finalized: true}, taskFacts: taskFacts{members: true}}, action{kind: actionDeleteMembers}},
		{"its children elsewhere wait for a task", snapshot{stage: stateObserved, eventFacts: eventFacts{deleting: true, finalized: true}, taskFacts: taskFacts{members: true, held: true}}, action{kind: actionSkip}},
		{"its children elsewhere wait for handlers", snapshot{stage: stateObserved, eventFacts: eventFacts{deleting: true, finalized: true}, taskFacts: taskFacts{members: true}, stateFacts: fit}, action{kind: actionHandle, reason: ReasonDelete}},
		{"its state was too large", snapshot{stage: stateObserved, stateFacts: with(func(s *stateFacts) { s.tooLarge, s.outdated = true, true })}, action{kind: actionSkip}},
		{"its state was too large, and it goes", snapshot{stage: stateObserved, eventFacts: eventFacts{deleting: true, finalized: true}, stateFacts: with(func(s *stateFacts) { s.tooLarge, s.required = true, true })}, action{kind: actionHandle, reason: ReasonDelete}},
		{"our own patch is awaited", snapshot{stage: stateObserved, stateFacts: with(func(s *stateFacts) { s.outdated, s.awaited, s.changed = true, 7, true })}, action{kind: actionAwait, wait: 7}},
		{"our own patch has not come back", snapshot{stage: stateObserved, stateFacts: with(func(s *stateFacts) { s.outdated, s.changed = true, true })}, action{kind: actionRefetch}},
		{"another replica may have handled it", snapshot{stage: stateObserved, eventFacts: eventFacts{predates: true}, stateFacts: with(func(s *stateFacts) { s.changed = true })}, action{kind: actionRefetch}},
		{"another replica has not resumed it", snapshot{stage: stateObserved, eventFacts: eventFacts{predates: true}, stateFacts: with(func(s *stateFacts) { s.initial = true })}, action{kind: actionHandle, reason: ReasonResume, initial: true}},
		{"another replica may have handled it, but nothing is to be done", snapshot{stage: stateObserved, eventFacts: eventFacts{predates: true}, stateFacts: fit}, action{kind: actionUnchanged, reason: reasonNoop}},
		{"another replica may have seen its deletion, and nothing needs the finalizer", snapshot{stage: stateObserved, eventFacts: eventFacts{predates: true, finalized: true}, stateFacts: fit}, action{kind: actionRefetch}},
		{"another replica may have seen its deletion, and a handler needs the finalizer", snapshot{stage: stateObserved, eventFacts: eventFacts{predates: true}, stateFacts: all.stateFacts}, action{kind: actionRefetch}},
		{"another replica may have seen its deletion, and an older operator holds it", snapshot{eventFacts: eventFacts{predates: true, legacy: true}, stage: stateObserved}, action{kind: actionRefetch}},
		{"it was never handled", snapshot{stage: stateObserved, stateFacts: stateFacts{relevant: true, initial: true, resumes: true}}, action{kind: actionHandle, reason: ReasonCreate}},
		{"it has changed", snapshot{stage: stateObserved, stateFacts: with(func(s *stateFacts) { s.changed = true })}, action{kind: actionHandle, reason: ReasonUpdate}},
		{"it has changed before the operator began", snapshot{stage: stateObserved, stateFacts: with(func(s *stateFacts) { s.changed, s.initial = true, true })}, action{kind: actionHandle, reason: ReasonUpdate, initial: true}},
		{"it is resumed", snapshot{stage: stateObserved, stateFacts: with(func(s *stateFacts) { s.initial = true })}, action{kind: actionHandle, reason: ReasonResume, initial: true}},
		{"it is resumed without handlers", snapshot{stage: stateObserved, stateFacts: with(func(s *stateFacts) { s.initial, s.resumes = true, false })}, action{kind: actionUnchanged, reason: ReasonResume, initial: true}},
		{"it is as it was", snapshot{stage: stateObserved, stateFacts: fit}, action{kind: actionUnchanged, reason: reasonNoop}},
		{"it is as it was again", snapshot{stage: stateObserved, stateFacts: with(func(s *stateFacts) { s.inProgress = true })}, action{kind: actionHandle, reason: reasonNoop}},
		{"what is stored has other fields", snapshot{stage: stateObserved, stateFacts: with(func(s *stateFacts) { s.storedOutdated = true })}, action{kind: actionHandle, reason: reasonNoop}},
		{"another client holds it", snapshot{stage: stateObserved, eventFacts: eventFacts{deleting: true}, stateFacts: with(func(s *stateFacts) { s.optionalDelete = true })}, action{kind: actionHandle, reason: ReasonDelete}},
		{"another client holds it after its handling", snapshot{stage: stateObserved, eventFacts: eventFacts{deleting: true}, stateFacts: with(func(s *stateFacts) { s.optionalDelete, s.deleteHandled = true, true })}, action{kind: actionUnchanged, reason: reasonFree}},
		{"it goes", snapshot{stage: stateObserved, eventFacts: eventFacts{deleting: true, finalized: true}, stateFacts: with(func(s *stateFacts) { s.required, s.initial = true, true })}, action{kind: actionHandle, reason: ReasonDelete, initial: true}},
	}
	reached := make(map[actionKind]bool)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := decide(&tt.s)
			reached[got.kind] = true
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	for kind := actionObserve; kind <= actionHandle; kind++ {
		if !reached[kind] {
			t.Errorf("no row has the action %d", kind)
		}
	}
}

// FuzzDecide has objects of all kinds decided on, as they are observed.
func FuzzDecide(f *testing.F) {
	f.Add(uint32(0), int64(0), int64(0), int64(0))
	f.Add(^uint32(0), int64(1), int64(-1), int64(1))
	f.Add(uint32(1<<9|1<<12|1<<16), int64(0), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, bits uint32, errorPause, backoff, awaited int64) {
		bit := func(i int) bool { return bits>>i&1 == 1 }
		event := eventFacts{
			superseded: bit(0), stopping: bit(1), deleted: bit(2), deleting: bit(3), errorPause: time.Duration(errorPause), released: bit(4), recreated: bit(5),
			finalized: bit(6), legacy: bit(7), predates: bit(21),
		}
		tasks := taskFacts{held: bit(8), backoff: time.Duration(backoff)}
		state := stateFacts{
			relevant: bit(9), required: bit(10), optionalDelete: bit(11), tooLarge: bit(12), outdated: bit(13), awaited: time.Duration(awaited), stored: bit(14), changed: bit(15),
			initial: bit(16), resumes: bit(17), inProgress: bit(18), storedOutdated: bit(19), deleteHandled: bit(20),
		}
		whole := snapshot{stage: stateObserved, eventFacts: event, taskFacts: tasks, stateFacts: state}
		want := decide(&whole)
		for _, s := range []snapshot{{eventFacts: event}, {stage: tasksObserved, eventFacts: event, taskFacts: tasks}} {
			if got := decide(&s); got.kind != actionObserve && got != want {
				t.Fatalf("at the stage %d, it is %+v, and %+v when all is known of %+v", s.stage, got, want, whole)
			}
		}
		required := state.required || tasks.held
		counts := !event.superseded && !event.deleted && !event.stopping && event.errorPause <= 0
		switch want.kind {
		case actionObserve:
			t.Fatalf("more is to be known than all of %+v", whole)
		case actionPause, actionBackOff, actionAwait:
			if want.wait <= 0 {
				t.Fatalf("it waits for %s: %+v", want.wait, whole)
			}
		case actionAddFinalizer:
			if event.finalized || event.deleting || !required {
				t.Fatalf("the finalizer is added to %+v", whole)
			}
		case actionRemoveFinalizer:
			if !event.finalized || required {
				t.Fatalf("the finalizer is removed from %+v", whole)
			}
		case actionHandle:
			if !counts || !state.relevant || state.outdated || state.tooLarge && !event.deleting || required && !event.finalized && !event.deleting || event.legacy {
				t.Fatalf("%s is handled of %+v", want.reason, whole)
			}
			if (want.reason == ReasonDelete) != event.deleting || want.reason == reasonFree || want.reason == reasonGone {
				t.Fatalf("%s is handled of %+v", want.reason, whole)
			}
			if want.initial && !state.initial || want.initial && want.reason == ReasonCreate {
				t.Fatalf("%s is handled as a resuming, too: %+v", want.reason, whole)
			}
		case actionUnchanged:
			if !event.deleting && (!state.stored || state.changed || state.inProgress && !state.initial) {
				t.Fatalf("nothing is done for %+v", whole)
			}
		}
	})
}
