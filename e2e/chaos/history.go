package chaos

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// This file watches the store of the API server itself, so that it knows each version of each object, in order, independently of the servers. See
// https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/

// Version is the state of an object from one write to the next.
type Version struct {
	Revision int64     // of the store
	Seen     time.Time // when the bench received it: not before it was stored
	Object   *Object
	Gone     bool // the object was removed; Object is its last state
}

// Object has the checked fields of an object.
type Object struct {
	Metadata struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		UID               string            `json:"uid"`
		ResourceVersion   string            `json:"resourceVersion"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
		Finalizers        []string          `json:"finalizers"`
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec   map[string]any `json:"spec"`
	Status map[string]any `json:"status"`

	size size // from before its payload was shortened
}

func (o *Object) value() int64 { v, _ := o.Spec["value"].(float64); return int64(v) }

func (o *Object) color() string { v, _ := o.Spec["color"].(string); return v }

func (o *Object) items() []string {
	var items []string
	all, _ := o.Spec["items"].([]any)
	for _, item := range all {
		items = append(items, fmt.Sprint(item))
	}
	return items
}

// held reports whether the object has the operator's finalizer.
func (o *Object) held() bool {
	return slices.ContainsFunc(o.Metadata.Finalizers, func(f string) bool { return strings.Contains(f, "kopf") })
}

// History has all versions of all objects. It is safe for concurrent use.
type History struct {
	etcd   string
	prefix string

	mu       sync.Mutex                       // guards all below
	revision int64                            // the history is complete up to it
	byUID    map[string]map[string][]*Version // by resource
	current  map[string]*Object               // by key
	decode   func([]byte) (*Object, error)
	err      error
}

// newHistory returns a history of all resources below a prefix of keys.
func newHistory(etcd, prefix string) *History {
	return &History{etcd: etcd, prefix: prefix, decode: decodeJSON, byUID: map[string]map[string][]*Version{}, current: map[string]*Object{}}
}

// resourceOf returns the resource in a key such as /registry/chaos.example.com/widgets/default/w-1.
func (h *History) resourceOf(key string) string {
	resource, _, _ := strings.Cut(strings.TrimPrefix(key, h.prefix), "/")
	return resource
}

// follow reads the stream until the context is canceled. It reconnects when the store ends.
func (h *History) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if err := h.stream(ctx); err != nil && ctx.Err() == nil {
			h.mu.Lock()
			h.err = err
			h.mu.Unlock()
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// watchResponse is a message of the stream.
type watchResponse struct {
	Result struct {
		Canceled bool
		Reason   string `json:"cancel_reason"`
		Events   []struct {
			Type string
			KV   storedPair
		}
	}
}

type storedPair struct {
	Key, Value  []byte // base64 in JSON
	ModRevision int64  `json:"mod_revision,string"`
}

// stream returns nil when the connection has ended, and an error when changes are lost.
func (h *History) stream(ctx context.Context) error {
	end := []byte(h.prefix)
	end[len(end)-1]++
	encode := base64.StdEncoding.EncodeToString
	h.mu.Lock()
	body := fmt.Sprintf(`{"create_request":{"key":%q,"range_end":%q,"start_revision":"%d"}}`, encode([]byte(h.prefix)), encode(end), h.revision+1)
	h.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.etcd+"/v3/watch", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil // the store is starting
	}
	defer resp.Body.Close()
	messages := json.NewDecoder(resp.Body)
	for {
		var m watchResponse
		if messages.Decode(&m) != nil {
			return nil // the store has ended
		}
		if m.Result.Canceled {
			return fmt.Errorf("the history of the store is lost: %s", m.Result.Reason)
		}
		for _, e := range m.Result.Events {
			if err := h.add(&e.KV, e.Type == "DELETE"); err != nil {
				return err
			}
		}
	}
}

func (h *History) add(kv *storedPair, gone bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.revision = kv.ModRevision
	key := string(kv.Key)
	object := h.current[key]
	if gone {
		delete(h.current, key)
	} else {
		var err error
		if object, err = h.decode(kv.Value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		h.current[key] = object
	}
	resource, uid := h.resourceOf(key), object.Metadata.UID
	if h.byUID[resource] == nil {
		h.byUID[resource] = map[string][]*Version{}
	}
	h.byUID[resource][uid] = append(h.byUID[resource][uid], &Version{Revision: kv.ModRevision, Seen: time.Now(), Object: object, Gone: gone})
	return nil
}

// decodeJSON decodes an object that is stored as JSON, as custom resources are.
func decodeJSON(data []byte) (*Object, error) {
	object := &Object{}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(object); err != nil {
		return nil, err
	}
	object.shorten()
	return object, nil
}

// known returns the revision up to which the history is complete, 0 if it is empty.
func (h *History) known() int64 {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision
}

// compact has the store drop the history that the bench has read, here and, if it is not empty, in another history.
func (h *History) compact(ctx context.Context, other int64) error {
	revision := h.known()
	if other > 0 {
		revision = min(revision, other)
	}
	body := fmt.Sprintf(`{"revision":"%d"}`, revision)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.etcd+"/v3/kv/compaction", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// objects returns the existing objects of a resource, by their names.
func (h *History) objects(resource string) map[string]*Object {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]*Object{}
	for key, o := range h.current {
		if h.resourceOf(key) == resource {
			all[o.Metadata.Name] = o
		}
	}
	return all
}

// versions returns those of all objects of a resource, including deleted ones.
func (h *History) versions(resource string) map[string][]*Version {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[string][]*Version, len(h.byUID[resource]))
	for uid, versions := range h.byUID[resource] {
		all[uid] = slices.Clone(versions)
	}
	return all
}
