package contract

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite changes owners and children at random, while answers and streams are late or lost, and
// then checks that each desired child is as it is desired.

// randomTrouble delays and loses the requests for config maps at random, until it is calm.
type randomTrouble struct {
	mu     sync.Mutex // guards random
	random *rand.Rand
	calm   atomic.Bool
}

// once reports whether something with a probability happens.
func (f *randomTrouble) once(probability float64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.calm.Load() && f.random.Float64() < probability
}

// wait waits for up to some time, with a probability.
func (f *randomTrouble) wait(most time.Duration) {
	if f.once(0.3) {
		time.Sleep(f.upTo(most)) // in a bubble
	}
}

// upTo returns a time of up to some time.
func (f *randomTrouble) upTo(most time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.random.Int64N(int64(most)))
}

// trip sends a request.
func (f *randomTrouble) trip(q *http.Request, base http.RoundTripper) (*http.Response, error) {
	if !strings.Contains(q.URL.Path, "/configmaps") {
		return base.RoundTrip(q)
	}
	watches := q.URL.Query().Get("watch") == "true"
	if watches && f.once(0.4) {
		return Answer(http.StatusGone, "Expired", "too old resource version"), nil
	}
	f.wait(2 * time.Second)
	resp, err := base.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	if watches {
		if body := resp.Body; !f.calm.Load() {
			time.AfterFunc(f.upTo(4*time.Second), func() { _ = body.Close() })
		}
		return resp, nil
	}
	f.wait(2 * time.Second)
	if f.once(0.1) {
		_ = resp.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return resp, nil
}

// disturb changes an owner or a child at random. The child may be missing, so errors do not matter.
func (c *C) disturb(random *rand.Rand) {
	owner := fmt.Sprint("a", random.IntN(2))
	child := c.configMaps().Ref(fmt.Sprint(owner, "-", random.IntN(3)))
	change := func(metadata map[string]any) {
		_, _ = c.Client.Patch(c.Context(), child, map[string]any{"metadata": metadata}, nil)
	}
	take := func(metadata map[string]any) {
		metadata["labels"] = map[string]any{"taken": "yes"}
		change(metadata)
	}
	switch random.IntN(11) {
	case 0, 1:
		text := fmt.Sprint(random.IntN(1000))
		c.Patch(owner, spec(map[string]any{"size": random.IntN(4), "text": text}))
	case 2, 3:
		_ = c.Client.Delete(c.Context(), child, nil)
	case 4, 5:
		change(map[string]any{"finalizers": []any{"example.com/held"}})
	case 6, 7:
		change(map[string]any{"finalizers": nil})
	case 8:
		take(map[string]any{"ownerReferences": []any{controllerNamed("b")}})
	case 9:
		take(map[string]any{"ownerReferences": nil})
	case 10:
		take(map[string]any{"ownerReferences": nil, "annotations": nil, "managedFields": []any{map[string]any{}}})
	}
}

// release ends what keeps the operator from the children: their finalizers, and those that were taken
// from their owners. The operator may delete them first.
func (c *C) release() {
	for _, child := range c.configMaps().List() {
		held := map[string]any{"metadata": map[string]any{"finalizers": nil}}
		_, _ = c.Client.Patch(c.Context(), child.Reference(), held, nil)
		if taken, _ := child.Label("taken"); taken != "" {
			_ = c.Client.Delete(c.Context(), child.Reference(), nil)
		}
	}
}

// asDesired fails unless the children of an owner are as [bySize] wants them.
func (c *C) asDesired(owner string) {
	c.Helper()
	o := c.Get(owner)
	for i := range 3 {
		name := fmt.Sprint(owner, "-", i)
		exists, desired := c.configMaps().Exists(name), i < int(o.Spec().Int("size"))
		if exists != desired {
			c.Errorf("the child %s exists: %t, want %t", name, exists, desired)
		}
		if !exists || !desired {
			continue
		}
		child := c.configMaps().Get(name)
		c.same("the text of "+name, o.Spec().String("text"), child.View("data").String("text"))
	}
}

var _ = Suite("stress_children", func(t *testing.T, c *C) {
	for seed := range proof.Rounds(8, 500) {
		c.Run(t, fmt.Sprint("RC-42 each child is as it is desired after random events, with the seed ", seed), func(c *C) {
			c.OnlyInBubble("it takes minutes")
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			f := &randomTrouble{random: rand.New(rand.NewPCG(uint64(seed), 2))}
			start := func() *Running {
				opts := &kopf.ReconcileOptions{Backoff: time.Second, MaxBackoff: 2 * time.Second}
				op, _ := c.parenting(bySize, opts, through(f.trip))
				return op
			}
			op := start()
			c.Create("a0", spec(map[string]any{"size": 3}))
			c.Create("a1", spec(map[string]any{"size": 3}))
			for range 100 {
				c.disturb(random)
				time.Sleep(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
				if random.IntN(50) == 0 {
					op.Stop()
					op = start()
				}
			}
			f.calm.Store(true)
			c.Pass(time.Minute)
			c.release()
			c.Pass(5 * time.Minute)
			c.asDesired("a0")
			c.asDesired("a1")
		})
	}
})
