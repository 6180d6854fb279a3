package contract

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf"
)

// This suite proves that kopf loses no change, regardless of the number of changes and of errors. It also proves that a state that is too large to
// store ends in a clear error.

var _ = Suite("stress_lost_updates", func(t *testing.T, c *C) {
	storming(t, c)
	overflowing(t, c)
})

// witness records the states in the last successful calls of handlers.
type witness struct {
	mu   sync.Mutex
	seen map[string]map[string]any
	dice *rand.Rand
}

// handler fails at random, and otherwise records the state.
func (w *witness) handler(name string) kopf.ChangeFunc {
	return func(ctx context.Context, ch *kopf.Change) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch w.dice.IntN(6) {
		case 0:
			return kopf.Temporary(errOops, time.Duration(1+w.dice.IntN(20))*time.Millisecond)
		case 1:
			return errOops
		}
		w.seen[name] = ch.Spec().Map()
		if w.dice.IntN(3) == 0 {
			ch.SetResult(fmt.Sprint(ch.Spec().Get("a")))
		}
		return nil
	}
}

func storming(t *testing.T, c *C) {
	c.Run(t, "a thousand changes by several writers are all handled in the end", func(c *C) {
		const writers = 4
		changes := 250
		if !c.InBubble() {
			changes = 50
		}
		w := &witness{seen: map[string]map[string]any{}, dice: rand.New(rand.NewPCG(7, 7))}
		opts := func(id kopf.HandlerID) *kopf.ChangeOptions {
			return &kopf.ChangeOptions{ID: id, Backoff: 10 * time.Millisecond}
		}
		r := &kopf.Registry{}
		r.OnCreate(Examples, w.handler("create"), opts("create"))
		r.OnUpdate(Examples, w.handler("one"), opts("one"))
		r.OnUpdate(Examples, w.handler("two"), opts("two"))
		r.OnField(Examples, "spec.a", w.handler("field"), opts("field"))
		op := c.Operator(r)
		c.Create("x", spec(map[string]any{"a": 0, "b": 0, "c": 0, "d": 0}))
		c.handled("x")
		ref := c.Ref("x")
		var group sync.WaitGroup
		for i := range writers {
			field := string(rune('a' + i))
			pauses := rand.New(rand.NewPCG(uint64(i), 1))
			group.Go(func() {
				for n := range changes {
					if _, err := c.Client.Patch(c.Context(), ref, spec(map[string]any{field: n + 1}), nil); err != nil {
						c.Error(err)
						return
					}
					time.Sleep(time.Duration(pauses.IntN(15)) * time.Millisecond)
				}
			})
		}
		group.Wait()
		want := map[string]any{}
		for _, field := range []string{"a", "b", "c", "d"} {
			want[field] = fmt.Sprint(changes)
		}
		text := func(spec map[string]any) map[string]any {
			all := map[string]any{}
			for k, v := range spec {
				all[k] = fmt.Sprint(v)
			}
			return all
		}
		var body *kopf.Body
		c.WaitFor("the last state to be stored as handled", func() bool {
			body = c.Get("x")
			base, _ := body.Annotation(diffBase)
			return strings.Contains(base, fmt.Sprintf(`"spec":{"a":%d,"b":%d,"c":%d,"d":%d}`, changes, changes, changes, changes)) && len(records(body)) == 0
		})
		c.Pass(time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, name := range []string{"one", "two"} {
			if diff := cmp.Diff(want, text(w.seen[name])); diff != "" {
				c.Errorf("the last state that the handler %s has seen (-want +got):\n%s", name, diff)
			}
		}
		if got := text(w.seen["field"])["a"]; got != want["a"] {
			c.Errorf("the last value that the handler of the field has seen is %v, want %v", got, want["a"])
		}
		for key := range body.Annotations() {
			if key != diffBase {
				c.Errorf("the annotation %q is left", key)
			}
		}
		t.Logf("%d requests of the operator for %d changes", len(op.Wire.Writes()), writers*changes)
	})
}

func overflowing(t *testing.T, c *C) {
	large := spec(map[string]any{"text": strings.Repeat("x", 250<<10)})
	c.Run(t, "CH-T23 a state that is too large to be stored is a clear error, and no endless loop", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		op := c.Operator(r)
		c.Create("big", map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"note": strings.Repeat("y", 20<<10)}}, "spec": large["spec"],
		})
		c.WaitFor("the error", func() bool { return len(op.Logs.Find("too large")) > 0 })
		c.Pass(2 * time.Second)
		c.expect(&l, "create create 0")
		lines := op.Logs.Find("too large")
		if line := lines[0]; !strings.Contains(line.Attrs["object"], "big") || !strings.Contains(line.Attrs["hint"], "262144") || !strings.Contains(line.Attrs["hint"], "DiffBaseStorage") {
			c.Errorf("the error %+v does not name the object, the limit and the way out", line)
		}
		if n := len(op.Wire.Writes()); n > 2 {
			c.Errorf("%d requests were made for what cannot be stored", n)
		}
		if c.InBubble() {
			c.Pass(12 * time.Hour)
			if n := len(op.Wire.Writes()); n > 2 {
				c.Errorf("%d requests were made in half a day for what cannot be stored", n)
			}
		}
		c.Patch("big", spec(map[string]any{"text": "small"}))
		c.handled("big")
		c.expect(&l, "create create 0", "create create 0") // nothing is stored of the first one, so the second one has the state that fits
	})
	c.Run(t, "a large state fits with ignored fields, or in another place", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Persistence.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{IgnoredFields: []kopf.FieldPath{"spec.text", "metadata.annotations.note"}}
		})
		c.Create("big", map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"note": strings.Repeat("y", 20<<10)}}, "spec": large["spec"],
		})
		c.handled("big")
		c.expect(&l, "create create 0")
	})
}
