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

// This file is the clients that change the objects. They send their requests to the API server directly, and retry until it accepts them.

const (
	group     = "chaos.example.com"
	namespace = "default"
)

// isWidgets reports whether a path is that of the widgets, or of one of them, in any version.
func isWidgets(path string) bool {
	version, rest, _ := strings.Cut(strings.TrimPrefix(path, "/apis/"+group+"/"), "/")
	return strings.HasPrefix(path, "/apis/"+group+"/") && strings.HasPrefix(version, "v") && strings.HasPrefix(rest, "namespaces/"+namespace+"/widgets")
}

type writers struct {
	cluster *cluster.Cluster
	objects int           // the number of names
	value   atomic.Int64  // of the next change; each is unique
	changes atomic.Int64  // the number of changes
	pace    time.Duration // the time between two changes of one writer
	version atomic.Value  // a string: the version of the kind that clients use
}

// path returns the path of an object, or of all of them.
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

// change makes one change of one object, which may be missing.
func (w *writers) change(ctx context.Context, random *rand.Rand, name string) {
	switch n := random.IntN(100); {
	case n < 40:
		w.create(ctx, random, name)
	case n < 60:
		w.patch(ctx, name, map[string]any{"spec": w.spec(random)})
	case n < 66: // several changes in a row
		for range 2 + random.IntN(4) {
			w.patch(ctx, name, map[string]any{"spec": map[string]any{"value": w.value.Add(1)}})
		}
	case n < 74:
		w.patch(ctx, name, map[string]any{"metadata": map[string]any{"labels": labels(random)}, "spec": map[string]any{"value": w.value.Add(1)}})
	case n < 78: // another finalizer blocks its deletion for a while
		w.hold(ctx, name, random.IntN(2) == 0)
	case n < 82:
		w.do(ctx, http.MethodPatch, w.path(name)+"/status", map[string]any{"status": map[string]any{"other": random.IntN(1000)}})
	case n < 96:
		w.do(ctx, http.MethodDelete, w.path(name), nil)
	default: // another object of the same name
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

// do sends a request until there is any response, and returns its code, 0 if the context was canceled before.
func (w *writers) do(ctx context.Context, method, path string, body map[string]any) int {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // it is always valid
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

// send sends one request as the administrator.
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

// hold adds a finalizer to an object, or removes it. It loses no concurrent change: a conflict refuses it.
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

// release removes all such finalizers, and deletes the objects if remove is set. It returns when nothing remains to be done.
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
