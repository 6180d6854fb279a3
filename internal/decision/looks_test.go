package decision

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

func TestLooks(t *testing.T) {
	if s := NewLooks(0); s != nil || s.Of("a") != nil {
		t.Errorf("without a limit, there are decisions: %v", s)
	}
	s := NewLooks(3)
	verdicts := []Verdict{Called, NotNow, ByLabel}
	s.Add("a", Action{Kind: Handle, Reason: Update}, false, verdicts)
	s.Add("b", Action{Kind: Pause, Wait: 1500 * time.Millisecond}, false, nil)
	s.Add("a", Action{Kind: Unchanged, Reason: Noop}, true, nil)
	got := s.Of("a")
	if len(got) != 2 || !got[0].Quick() || got[1].Quick() || got[0].Action() != (Action{Kind: Unchanged, Reason: Noop}) || got[1].At().After(got[0].At()) {
		t.Fatalf("got %v, want the newest first", got)
	}
	if diff := cmp.Diff(verdicts, got[1].Verdicts()); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if b := s.Of("b"); len(b) != 1 || b[0].Action().Wait != 1500*time.Millisecond {
		t.Errorf("got %v", b)
	}
	s.Add("c", Action{}, false, nil)
	if got := s.Of("a"); len(got) != 1 || !got[0].Quick() {
		t.Errorf("the oldest is still there: %v", got)
	}
}

func TestLooksOfManyHandlers(t *testing.T) {
	s := NewLooks(1)
	all := make([]Verdict, 3*maxVerdicts)
	for i := range all {
		all[i] = Verdict(i % 16)
	}
	s.Add("a", Action{Wait: 1<<63 - 1}, false, all)
	look := s.Of("a")[0]
	if diff := cmp.Diff(all[:maxVerdicts], look.Verdicts()); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

func TestLooksMemory(t *testing.T) {
	s := NewLooks(1000)
	for i := range 5000 {
		s.Add(fmt.Sprint(i), Action{Kind: Handle}, false, nil)
		if taken := cap(s.ring) * int(unsafe.Sizeof(Look{})); taken > 64<<10 {
			t.Fatalf("%d bytes are taken for 1,000 decisions, want 65,536 at most", taken)
		}
	}
	if len(s.ring) != 1000 {
		t.Errorf("%d decisions are kept, want 1,000", len(s.ring))
	}
	if n := testing.AllocsPerRun(100, func() { s.Add("a", Action{}, true, nil) }); n > 0 {
		t.Errorf("%v allocations for a decision", n)
	}
}
