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

// This file creates objects whose state is about as large as the storage limit, and larger.

const (
	// annotationLimit is the API server's limit for all annotations of an object together, in bytes.
	annotationLimit = 256 << 10
	// recordRoom is more space than the progress of all handlers on one object needs.
	recordRoom = 8 << 10
	// largeObjects is the number of their names.
	largeObjects = 4
	// largePace is the mean time between two changes of a large object.
	largePace = 1500 * time.Millisecond
	// shownPayload is the maximum length of payloads that the history keeps unchanged.
	shownPayload = 200
)

// payloads are the sizes of specs: those that fit twice, once, just barely, and not at all.
var payloads = []int{100 << 10, 150 << 10, 230 << 10, 240 << 10, 248 << 10, 250 << 10, 255 << 10, 300 << 10}

// writeLarge creates, changes, and deletes large objects until the context ends.
func (b *bench) writeLarge(ctx context.Context, random *rand.Rand) error {
	for ctx.Err() == nil {
		name := fmt.Sprintf("large-%d", random.IntN(largeObjects))
		switch n := random.IntN(100); {
		case n < 70:
			b.writers.put(ctx, name, b.writers.largeObject(random, name))
			b.counts.add(largeObject)
		case n < 80: // of a normal size
			b.writers.patch(ctx, name, map[string]any{"spec": map[string]any{"payload": nil, "value": b.writers.value.Add(1)}})
		default:
			b.writers.do(ctx, http.MethodDelete, b.writers.path(name), nil)
		}
		pause(ctx, between(random, 0, 2*largePace))
	}
	return nil
}

// put creates an object, or replaces its content.
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

// size has the sizes of an object, and of its stored state.
type size struct {
	state       int // in bytes, of the tracked fields
	annotations int // in bytes, of the annotations of other clients
}

// fits reports whether the operator can store the state of the object and the progress of its handlers. If not, there are no guarantees until it is smaller,
// or is deleted.
func (s size) fits() bool { return s.state+s.annotations+recordRoom <= annotationLimit }

// wasLarge reports whether the state of an object was ever too large to be stored twice. Then its annotations do not contain the states that its finished
// handlers have seen, and kopf may call these again for another state.
func wasLarge(versions []*Version) bool {
	return slices.ContainsFunc(versions, func(v *Version) bool { return v.Object.size.state > annotationLimit/4 })
}

// shorten measures the object, and then replaces a payload by its digest, to keep many versions.
func (o *Object) shorten() {
	state, _ := json.Marshal(map[string]any{"spec": o.Spec, "metadata": map[string]any{"labels": o.Metadata.Labels}}) // it was decoded from JSON
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

// shortenState shortens long values in a stored state.
func shortenState(text string) string {
	var state map[string]any
	if json.Unmarshal([]byte(text), &state) != nil {
		return digest(text)
	}
	shortenValues(state)
	data, _ := json.Marshal(state) // it was decoded from JSON
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
