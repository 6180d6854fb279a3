package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/e2e/cluster"
)

// This file is the people who work with the objects meanwhile. They go to the API server directly, and try again until it has
// taken what they want.

const (
	group     = "chaos.example.com"
	namespace = "default"
)

// isWidgets tells whether a path is that of the objects that the bench is about, or of one of them, in whichever version.
func isWidgets(path string) bool {
	version, rest, _ := strings.Cut(strings.TrimPrefix(path, "/apis/"+group+"/"), "/")
	return strings.HasPrefix(path, "/apis/"+group+"/") && strings.HasPrefix(version, "v") && strings.HasPrefix(rest, "namespaces/"+namespace+"/widgets")
}

type writers struct {
	cluster *cluster.Cluster
	objects int           // how many names there are
	value   atomic.Int64  // of the next change: none comes twice
	changes atomic.Int64  // that were made
	pace    time.Duration // between two changes of one writer
	version atomic.Value  // a string: the version of the kind that people use
}

// path is that of an object, or of all of them.
func (w *writers) path(name string) string {
	path := "/apis/" + w.apiVersion() + "/namespaces/" + namespace + "/widgets"
	if name != "" {
		path += "/" + name
	}
	return path
}

func (w *writers) apiVersion() string { return group + "/" + w.version.Load().(string) }

// write makes changes until the context ends.
func (w *writers) write(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		w.change(ctx, random, fmt.Sprintf("w-%d", random.IntN(w.objects)))
		pause(ctx, time.Duration(random.Int64N(int64(2*w.pace))))
	}
}

// change does one thing to one object, which may be there or not.
func (w *writers) change(ctx context.Context, random *rand.Rand, name string) {
	switch n := random.IntN(100); {
	case n < 40:
		w.create(ctx, random, name)
	case n < 60:
		w.patch(ctx, name, map[string]any{"spec": w.spec(random)})
	case n < 66: // several in a row
		for range 2 + random.IntN(4) {
			w.patch(ctx, name, map[string]any{"spec": map[string]any{"value": w.value.Add(1)}})
		}
	case n < 74:
		w.patch(ctx, name, map[string]any{"metadata": map[string]any{"labels": labels(random)}, "spec": map[string]any{"value": w.value.Add(1)}})
	case n < 78: // held by somebody else for a while
		w.hold(ctx, name, random.IntN(2) == 0)
	case n < 82:
		w.do(ctx, http.MethodPatch, w.path(name)+"/status", map[string]any{"status": map[string]any{"other": random.IntN(1000)}})
	case n < 96:
		w.do(ctx, http.MethodDelete, w.path(name), nil)
	default: // another one of the same name
		w.do(ctx, http.MethodDelete, w.path(name), nil)
		w.create(ctx, random, name)
	}
}

func (w *writers) create(ctx context.Context, random *rand.Rand, name string) {
	w.do(ctx, http.MethodPost, w.path(""), map[string]any{"apiVersion": w.apiVersion(), "kind": "Widget",
		"metadata": map[string]any{"name": name, "labels": labels(random)}, "spec": w.spec(random)})
}

func (w *writers) patch(ctx context.Context, name string, patch map[string]any) {
	w.do(ctx, http.MethodPatch, w.path(name), patch)
}

func (w *writers) spec(random *rand.Rand) map[string]any {
	items := []string{}
	for _, item := range []string{"one", "two", "three"} {
		if random.IntN(4) == 0 {
			items = append(items, item)
		}
	}
	return map[string]any{"value": w.value.Add(1), "color": []string{"red", "green", "blue"}[random.IntN(3)], "items": items}
}

func labels(random *rand.Rand) map[string]any {
	some := map[string]any{}
	for _, label := range []string{"daemon", "timer", "resume"} {
		some[label] = []string{"yes", "no", "no"}[random.IntN(3)]
	}
	return some
}

// do makes a request until there is an answer, whichever, and returns its code, 0 if the context has ended before.
func (w *writers) do(ctx context.Context, method, path string, body map[string]any) int {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // it was made here
	}
	if body == nil {
		data = nil
	}
	for ctx.Err() == nil {
		code, err := send(ctx, w.cluster, method, path, data)
		if err == nil && code != http.StatusTooManyRequests && code < 500 {
			if code < 300 {
				w.changes.Add(1)
			}
			return code
		}
		pause(ctx, 200*time.Millisecond)
	}
	return 0
}

// send makes one request of the administrator's.
func send(ctx context.Context, c *cluster.Cluster, method, path string, data []byte) (code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.URL()+path, strings.NewReader(string(data)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := c.HTTPClient().Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

const hold = group + "/hold"

// hold keeps an object from going, or no longer does. Nobody else's change is lost by that: it is refused if there was one.
func (w *writers) hold(ctx context.Context, name string, on bool) {
	var o Object
	data, err := w.cluster.Request(ctx, http.MethodGet, w.path(name), nil)
	if err != nil || json.Unmarshal(data, &o) != nil || on && o.Metadata.DeletionTimestamp != "" {
		return
	}
	finalizers := slices.DeleteFunc(o.Metadata.Finalizers, func(f string) bool { return f == hold })
	if on {
		finalizers = append(finalizers, hold)
	}
	w.patch(ctx, name, map[string]any{"metadata": map[string]any{"resourceVersion": o.Metadata.ResourceVersion, "finalizers": finalizers}})
}

// release lets go of all objects, and removes them if told so. It returns when there is nothing more to do.
func (w *writers) release(ctx context.Context, h *History, remove bool) {
	for left := 1; left > 0 && ctx.Err() == nil; pause(ctx, 300*time.Millisecond) {
		left = 0
		for name, o := range h.objects("widgets") {
			if slices.Contains(o.Metadata.Finalizers, hold) {
				w.hold(ctx, name, false)
				left++
			}
			if remove && o.Metadata.DeletionTimestamp == "" {
				w.do(ctx, http.MethodDelete, w.path(name), nil)
				left++
			}
		}
	}
}
