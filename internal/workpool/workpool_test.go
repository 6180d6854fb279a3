package workpool

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiter(t *testing.T) {
	t.Run("those who are too many wait, the first one first", func(t *testing.T) {
		c := New(2, 0)
		var begun []int
		for i := range 5 {
			c.Start(true, func() { begun = append(begun, i) })
		}
		if len(begun) != 2 {
			t.Fatalf("%d have begun, want 2", len(begun))
		}
		for want := 3; want <= 5; want++ {
			if c.Release(); len(begun) != want || begun[want-1] != want-1 {
				t.Fatalf("those who have begun are %v, want %d of them", begun, want)
			}
		}
		c.Release()
		c.Release()
		if c.working != 0 {
			t.Errorf("%d work after all have left", c.working)
		}
	})
	t.Run("who returns comes before those who have not begun", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, order := New(1, 0), []string(nil)
			c.Start(true, func() {})
			c.Release() // the first one runs a function of a user
			c.Start(true, func() { order = append(order, "second") })
			c.Start(true, func() { order = append(order, "third") })
			go func() {
				c.Acquire()
				order = append(order, "first")
				c.Release()
			}()
			synctest.Wait()
			c.Release() // of the second one
			synctest.Wait()
			if len(order) != 3 || order[1] != "first" || order[2] != "third" {
				t.Errorf("the order is %q", order)
			}
		})
	})
	t.Run("who pauses has no place meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := New(1, 0)
			c.Start(true, func() {
				go func() {
					defer c.Release()
					l := FromContext(NewContext(t.Context(), c))
					l.Release()
					time.Sleep(time.Hour)
					l.Acquire()
				}()
			})
			synctest.Wait()
			begun := false
			c.Start(true, func() { begun = true })
			if !begun {
				t.Error("no worker has begun while the only one that works pauses")
			}
			c.Release()
			time.Sleep(time.Hour)
			synctest.Wait()
			if c.working != 0 {
				t.Errorf("%d work after all have left", c.working)
			}
		})
	})
	for _, tt := range []struct {
		name   string
		leave  int           // how many leave after a second
		cancel time.Duration // when the context ends
		want   time.Duration
	}{
		{"the pages of a listing wait until few are left", 50, time.Hour, time.Second},
		{"the pages of a listing do not wait for long", 10, time.Hour, time.Minute},
		{"the pages of a listing do not wait at the end", 10, 2 * time.Second, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New(1, 0)
				for range maxBacklog + 1 + 40 {
					c.Start(true, func() {})
				}
				go func() {
					time.Sleep(time.Second)
					for range tt.leave {
						c.Release()
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), tt.cancel)
				defer cancel()
				begun := time.Now()
				c.WaitBacklog(ctx, time.Minute)
				if got := time.Since(begun); got != tt.want {
					t.Errorf("it took %s, want %s", got, tt.want)
				}
				time.Sleep(2 * time.Second) // for those who leave
			})
		})
	}
	t.Run("few may go on at once", func(t *testing.T) {
		c := New(1, 0)
		c.Start(true, func() {})
		c.WaitBacklog(t.Context(), time.Hour)
	})
}
