package workpool

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns starts urgent and routine workers with one slot.
func TestTurns(t *testing.T) {
	order := func(enter func(s *Slots, add func(name string, urgent bool) *Turn)) []string {
		s := NewSlots(1)
		first := s.Enter(true)
		<-first.Ready()
		var waiting []*Turn
		var names []string
		enter(s, func(name string, urgent bool) *Turn {
			turn := s.Enter(urgent)
			waiting, names = append(waiting, turn), append(names, name)
			return turn
		})
		var got []string
		for range waiting {
			s.Release()
			for i, turn := range waiting {
				select {
				case <-turn.Ready():
					if !slices.Contains(got, names[i]) {
						got = append(got, names[i])
					}
				default:
				}
			}
		}
		return got
	}
	t.Run("RC-32 every fifth turn is a routine one", func(t *testing.T) {
		got := order(func(_ *Slots, add func(string, bool) *Turn) {
			for _, name := range []string{"r1", "r2"} {
				add(name, false)
			}
			for _, name := range []string{"u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8", "u9"} {
				add(name, true)
			}
		})
		want := []string{"u1", "u2", "u3", "u4", "r1", "u5", "u6", "u7", "u8", "r2", "u9"}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("RC-33 what becomes urgent is in the first class, and within a class the order stays", func(t *testing.T) {
		got := order(func(s *Slots, add func(string, bool) *Turn) {
			add("r1", false)
			late := add("r2", false)
			gone := add("gone", false)
			add("r3", false)
			add("u1", true)
			s.Hurry(late)
			s.Hurry(late)
			s.Leave(gone)
		})
		if want := []string{"u1", "r2", "r1", "r3"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestSlots lets many workers enter and leave, some of them before their turn.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 3
		s := NewSlots(slots)
		var running, served atomic.Int32
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				time.Sleep(time.Duration(i%50) * time.Millisecond)
				turn := s.Enter(i%3 == 0)
				if i%4 == 0 {
					s.Hurry(turn)
				}
				select {
				case <-turn.Ready():
				case <-time.After(time.Duration(i%7) * 20 * time.Millisecond):
					s.Leave(turn)
					return
				}
				if running.Add(1) > slots {
					t.Error("too many run")
				}
				time.Sleep(time.Millisecond)
				running.Add(-1)
				served.Add(1)
				s.Release()
			})
		}
		wg.Wait()
		if s.free != slots || s.turns.waiting != 0 || served.Load() == 0 {
			t.Errorf("%d slots are free and %d wait; %d were served", s.free, s.turns.waiting, served.Load())
		}
	})
}
