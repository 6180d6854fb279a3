package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// This file makes objects that are about as large as what can be stored of them, and larger.

const (
	// annotationLimit is what the API server takes in all annotations of an object together, in bytes.
	annotationLimit = 256 << 10
	// recordRoom is more than what the operator needs for the progress of its handlers on one object.
	recordRoom = 8 << 10
	// largeObjects is how many names there are for them.
	largeObjects = 4
	// largePace is the mean pause between two changes of a large object.
	largePace = 1500 * time.Millisecond
	// shownPayload is up to which size a payload stays as it is in the history.
	shownPayload = 200
)

// payloads are the sizes of specs: those that fit twice, once, just so, and not at all.
var payloads = []int{100 << 10, 150 << 10, 230 << 10, 240 << 10, 248 << 10, 250 << 10, 255 << 10, 300 << 10}

// writeLarge creates, changes, and deletes large objects until the context ends.
func (b *bench) writeLarge(ctx context.Context, random *rand.Rand) error {
	for ctx.Err() == nil {
		name := fmt.Sprintf("large-%d", random.IntN(largeObjects))
		switch n := random.IntN(100); {
		case n < 70:
			b.writers.put(ctx, name, b.writers.largeObject(random, name))
			b.counts.add(largeObject)
		case n < 80: // as small as others
			b.writers.patch(ctx, name, map[string]any{"spec": map[string]any{"payload": nil, "value": b.writers.value.Add(1)}})
		default:
			b.writers.do(ctx, http.MethodDelete, b.writers.path(name), nil)
		}
		pause(ctx, between(random, 0, 2*largePace))
	}
	return nil
}

// put creates an object, or changes it to what it would be as a new one.
func (w *writers) put(ctx context.Context, name string, object map[string]any) {
	if w.do(ctx, http.MethodPost, w.path(""), object) == http.StatusConflict {
		w.patch(ctx, name, map[string]any{"metadata": map[string]any{"annotations": object["metadata"].(map[string]any)["annotations"]}, "spec": object["spec"]})
	}
}

func (w *writers) largeObject(random *rand.Rand, name string) map[string]any {
	spec := w.spec(random)
	spec["payload"] = strings.Repeat("x", payloads[random.IntN(len(payloads))])
	annotations := map[string]any{group + "/padding": nil}
	if random.IntN(3) == 0 {
		annotations[group+"/padding"] = strings.Repeat("y", 20<<10)
	}
	return map[string]any{"apiVersion": w.apiVersion(), "kind": "Widget",
		"metadata": map[string]any{"name": name, "labels": labels(random), "annotations": annotations}, "spec": spec}
}

// size tells how much an object takes, and what is to be stored of it.
type size struct {
	state       int // bytes of what is tracked
	annotations int // bytes of those that are not the operator's
}

// fits tells whether the operator can store the state of the object and the progress of its handlers. If not, nothing is promised of its
// handling until it is smaller, or is deleted.
func (s size) fits() bool { return s.state+s.annotations+recordRoom <= annotationLimit }

// wasLarge reports whether the state of an object was once too large to be stored twice. Then it cannot be told from the annotations what its
// finished handlers have seen, and these may be called again for another state.
func wasLarge(versions []*Version) bool {
	return slices.ContainsFunc(versions, func(v *Version) bool { return v.Object.size.state > annotationLimit/4 })
}

// shorten measures the object, and then replaces a payload with its digest, so that many versions can be kept.
func (o *Object) shorten() {
	state, _ := json.Marshal(map[string]any{"spec": o.Spec, "metadata": map[string]any{"labels": o.Metadata.Labels}}) // it comes from JSON
	o.size = size{state: len(state)}
	for key, value := range o.Metadata.Annotations {
		if strings.HasPrefix(key, prefix) {
			continue
		}
		o.size.annotations += len(key) + len(value)
		o.size.state += len(key) + len(value) // annotations are tracked, too
		if len(value) > shownPayload {
			o.Metadata.Annotations[key] = digest(value)
		}
	}
	payload, _ := o.Spec["payload"].(string)
	if len(payload) <= shownPayload {
		return
	}
	o.Spec["payload"] = digest(payload)
	for key, text := range o.Metadata.Annotations {
		if strings.HasPrefix(key, prefix) && len(text) > shownPayload {
			o.Metadata.Annotations[key] = shortenState(text)
		}
	}
}

// shortenState replaces what is long in a state that was stored.
func shortenState(text string) string {
	var state map[string]any
	if json.Unmarshal([]byte(text), &state) != nil {
		return digest(text)
	}
	shortenValues(state)
	data, _ := json.Marshal(state) // it comes from JSON
	return string(data)
}

func shortenValues(object map[string]any) {
	for key, value := range object {
		switch value := value.(type) {
		case string:
			if len(value) > shownPayload {
				object[key] = digest(value)
			}
		case map[string]any:
			shortenValues(value)
		}
	}
}

func digest(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // it cannot fail
	return fmt.Sprintf("%d bytes with the digest %x", len(text), h.Sum64())
}
