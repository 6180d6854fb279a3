package decision

import (
	"testing"
	"time"
)

// TestDecide checks each rule alone, and its precedence over the later ones.
func TestDecide(t *testing.T) {
	fit := StateFacts{Relevant: true, Stored: true, Resumes: true} // unchanged since the last handling
	with := func(change func(*StateFacts)) StateFacts {
		s := fit
		change(&s)
		return s
	}
	all := Snapshot{Stage: StateObserved, StateFacts: with(func(s *StateFacts) { s.Changed, s.Required = true, true })}
	tests := []struct {
		name string
		s    Snapshot
		want Action
	}{
		{"nothing of it counts", Snapshot{EventFacts: EventFacts{Superseded: true, Deleted: true}}, Action{Kind: Drop}},
		{"it is gone", Snapshot{EventFacts: EventFacts{Deleted: true, ErrorPause: 1}}, Action{Kind: End, Reason: Gone}},
		{"a pause is not over", Snapshot{EventFacts: EventFacts{ErrorPause: 3, Stopping: true}}, Action{Kind: Pause, Wait: 3}},
		{"a pause is over", Snapshot{EventFacts: EventFacts{ErrorPause: -1}}, Action{Kind: Observe}},
		{"the operator stops", Snapshot{EventFacts: EventFacts{Stopping: true, Released: true}}, Action{Kind: Drop}},
		{"the event is late", Snapshot{EventFacts: EventFacts{Released: true, Legacy: true}}, Action{Kind: Ignore}},
		{"it may be there again", Snapshot{EventFacts: EventFacts{Recreated: true, Legacy: true}}, Action{Kind: Confirm}},
		{"an older operator holds it", Snapshot{EventFacts: EventFacts{Legacy: true}, Stage: StateObserved}, Action{Kind: RemoveLegacy}},
		{"its tasks are not looked at", Snapshot{TaskFacts: TaskFacts{Backoff: 1}}, Action{Kind: Observe}},
		{"it is changed again and again", Snapshot{TaskFacts: TaskFacts{Backoff: 5}, Stage: TasksObserved}, Action{Kind: BackOff, Wait: 5}},
		{"its state is not looked at", Snapshot{Stage: TasksObserved, StateFacts: all.StateFacts}, Action{Kind: Observe}},
		{"a handler needs the finalizer", all, Action{Kind: AddFinalizer}},
		{"a task needs the finalizer", Snapshot{Stage: StateObserved, TaskFacts: TaskFacts{Held: true}}, Action{Kind: AddFinalizer}},
		{"it goes, and has no finalizer", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Deleting: true}, StateFacts: all.StateFacts}, Action{Kind: Unchanged, Reason: Free}},
		{"nothing needs the finalizer", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Finalized: true}, StateFacts: fit}, Action{Kind: RemoveFinalizer}},
		{"nothing needs the finalizer of an object that goes", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Finalized: true, Deleting: true}, StateFacts: fit}, Action{Kind: RemoveFinalizer}},
		{"no handler is for it", Snapshot{Stage: StateObserved, StateFacts: StateFacts{Changed: true}}, Action{Kind: Skip}},
		{"no handler is for it, but a task holds it", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Finalized: true}, TaskFacts: TaskFacts{Held: true}}, Action{Kind: Skip}},
		{"it has children elsewhere", Snapshot{Stage: StateObserved, TaskFacts: TaskFacts{Members: true}}, Action{Kind: AddFinalizer}},
		{"its children elsewhere are to go with it", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Deleting: true, Finalized: true}, TaskFacts: TaskFacts{Members: true}}, Action{Kind: DeleteMembers}},
		{"its children elsewhere wait for a task", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Deleting: true, Finalized: true}, TaskFacts: TaskFacts{Members: true, Held: true}}, Action{Kind: Skip}},
		{"its children elsewhere wait for handlers", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Deleting: true, Finalized: true}, TaskFacts: TaskFacts{Members: true}, StateFacts: fit}, Action{Kind: Handle, Reason: Delete}},
		{"its state was too large", Snapshot{Stage: StateObserved, StateFacts: with(func(s *StateFacts) { s.TooLarge, s.Outdated = true, true })}, Action{Kind: Skip}},
		{"its state was too large, and it goes", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Deleting: true, Finalized: true}, StateFacts: with(func(s *StateFacts) { s.TooLarge, s.Required = true, true })}, Action{Kind: Handle, Reason: Delete}},
		{"our own patch is awaited", Snapshot{Stage: StateObserved, StateFacts: with(func(s *StateFacts) { s.Outdated, s.Awaited, s.Changed = true, 7, true })}, Action{Kind: Await, Wait: 7}},
		{"our own patch has not come back", Snapshot{Stage: StateObserved, StateFacts: with(func(s *StateFacts) { s.Outdated, s.Changed = true, true })}, Action{Kind: Refetch}},
		{"another replica may have handled it", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Predates: true}, StateFacts: with(func(s *StateFacts) { s.Changed = true })}, Action{Kind: Refetch}},
		{"another replica has not resumed it", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Predates: true}, StateFacts: with(func(s *StateFacts) { s.Initial = true })}, Action{Kind: Handle, Reason: Resume, Initial: true}},
		{"another replica may have handled it, but nothing is to be done", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Predates: true}, StateFacts: fit}, Action{Kind: Unchanged, Reason: Noop}},
		{"another replica may have seen its deletion, and nothing needs the finalizer", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Predates: true, Finalized: true}, StateFacts: fit}, Action{Kind: Refetch}},
		{"another replica may have seen its deletion, and a handler needs the finalizer", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Predates: true}, StateFacts: all.StateFacts}, Action{Kind: Refetch}},
		{"another replica may have seen its deletion, and an older operator holds it", Snapshot{EventFacts: EventFacts{Predates: true, Legacy: true}, Stage: StateObserved}, Action{Kind: Refetch}},
		{"it was never handled", Snapshot{Stage: StateObserved, StateFacts: StateFacts{Relevant: true, Initial: true, Resumes: true}}, Action{Kind: Handle, Reason: Create}},
		{"it has changed", Snapshot{Stage: StateObserved, StateFacts: with(func(s *StateFacts) { s.Changed = true })}, Action{Kind: Handle, Reason: Update}},
		{"it has changed before the operator began", Snapshot{Stage: StateObserved, StateFacts: with(func(s *StateFacts) { s.Changed, s.Initial = true, true })}, Action{Kind: Handle, Reason: Update, Initial: true}},
		{"it is resumed", Snapshot{Stage: StateObserved, StateFacts: with(func(s *StateFacts) { s.Initial = true })}, Action{Kind: Handle, Reason: Resume, Initial: true}},
		{"it is resumed without handlers", Snapshot{Stage: StateObserved, StateFacts: with(func(s *StateFacts) { s.Initial, s.Resumes = true, false })}, Action{Kind: Unchanged, Reason: Resume, Initial: true}},
		{"it is as it was", Snapshot{Stage: StateObserved, StateFacts: fit}, Action{Kind: Unchanged, Reason: Noop}},
		{"it is as it was again", Snapshot{Stage: StateObserved, StateFacts: with(func(s *StateFacts) { s.InProgress = true })}, Action{Kind: Handle, Reason: Noop}},
		{"what is stored has other fields", Snapshot{Stage: StateObserved, StateFacts: with(func(s *StateFacts) { s.StoredOutdated = true })}, Action{Kind: Handle, Reason: Noop}},
		{"another client holds it", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Deleting: true}, StateFacts: with(func(s *StateFacts) { s.OptionalDelete = true })}, Action{Kind: Handle, Reason: Delete}},
		{"another client holds it after its handling", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Deleting: true}, StateFacts: with(func(s *StateFacts) { s.OptionalDelete, s.DeleteHandled = true, true })}, Action{Kind: Unchanged, Reason: Free}},
		{"it goes", Snapshot{Stage: StateObserved, EventFacts: EventFacts{Deleting: true, Finalized: true}, StateFacts: with(func(s *StateFacts) { s.Required, s.Initial = true, true })}, Action{Kind: Handle, Reason: Delete, Initial: true}},
	}
	reached := make(map[Kind]bool)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Decide(&tt.s)
			reached[got.Kind] = true
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	for kind := Observe; kind <= Handle; kind++ {
		if !reached[kind] {
			t.Errorf("no row has the action %d", kind)
		}
	}
}

// FuzzDecide decides on arbitrary snapshots, stage by stage.
func FuzzDecide(f *testing.F) {
	f.Add(uint32(0), int64(0), int64(0), int64(0))
	f.Add(^uint32(0), int64(1), int64(-1), int64(1))
	f.Add(uint32(1<<9|1<<12|1<<16), int64(0), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, bits uint32, errorPause, backoff, awaited int64) {
		bit := func(i int) bool { return bits>>i&1 == 1 }
		event := EventFacts{
			Superseded: bit(0), Stopping: bit(1), Deleted: bit(2), Deleting: bit(3), ErrorPause: time.Duration(errorPause), Released: bit(4), Recreated: bit(5),
			Finalized: bit(6), Legacy: bit(7), Predates: bit(21),
		}
		tasks := TaskFacts{Held: bit(8), Backoff: time.Duration(backoff)}
		state := StateFacts{
			Relevant: bit(9), Required: bit(10), OptionalDelete: bit(11), TooLarge: bit(12), Outdated: bit(13), Awaited: time.Duration(awaited), Stored: bit(14), Changed: bit(15),
			Initial: bit(16), Resumes: bit(17), InProgress: bit(18), StoredOutdated: bit(19), DeleteHandled: bit(20),
		}
		whole := Snapshot{Stage: StateObserved, EventFacts: event, TaskFacts: tasks, StateFacts: state}
		want := Decide(&whole)
		for _, s := range []Snapshot{{EventFacts: event}, {Stage: TasksObserved, EventFacts: event, TaskFacts: tasks}} {
			if got := Decide(&s); got.Kind != Observe && got != want {
				t.Fatalf("at the stage %d, it is %+v, and %+v when all is known of %+v", s.Stage, got, want, whole)
			}
		}
		required := state.Required || tasks.Held
		counts := !event.Superseded && !event.Deleted && !event.Stopping && event.ErrorPause <= 0
		switch want.Kind {
		case Observe:
			t.Fatalf("more is to be known than all of %+v", whole)
		case Pause, BackOff, Await:
			if want.Wait <= 0 {
				t.Fatalf("it waits for %s: %+v", want.Wait, whole)
			}
		case AddFinalizer:
			if event.Finalized || event.Deleting || !required {
				t.Fatalf("the finalizer is added to %+v", whole)
			}
		case RemoveFinalizer:
			if !event.Finalized || required {
				t.Fatalf("the finalizer is removed from %+v", whole)
			}
		case Handle:
			if !counts || !state.Relevant || state.Outdated || state.TooLarge && !event.Deleting || required && !event.Finalized && !event.Deleting || event.Legacy {
				t.Fatalf("%s is handled of %+v", want.Reason, whole)
			}
			if (want.Reason == Delete) != event.Deleting || want.Reason == Free || want.Reason == Gone {
				t.Fatalf("%s is handled of %+v", want.Reason, whole)
			}
			if want.Initial && !state.Initial || want.Initial && want.Reason == Create {
				t.Fatalf("%s is handled as a resuming, too: %+v", want.Reason, whole)
			}
		case Unchanged:
			if !event.Deleting && (!state.Stored || state.Changed || state.InProgress && !state.Initial) {
				t.Fatalf("nothing is done for %+v", whole)
			}
		}
	})
}
