package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// kube-apiserver writes an object with its key by a request to etcd. These are the limits of such a request, in bytes: that of etcd, and that of its
// client, with a different error.
const (
	maxStoreRequest = 3 << 19
	maxStoreMessage = 2 << 20
)

// put stores an object in place of before (nil if it is new), unless it is too large for etcd. If the object fits without its managedFields, put
// stores it without them, as kube-apiserver does.
func (a *apiRequest) put(before *store.Item, object map[string]any) (*store.Item, bool, error) {
	db, collection := a.server.db, a.kind.collection()
	key := len("/registry/" + a.kind.resource.Plural + "/" + a.key())
	if a.kind.crd != nil {
		key += len("/" + a.kind.resource.Group)
	}
	envelope := 2 * key // the rest of the request
	request, message := 40, 24
	if before != nil {
		envelope, request, message = 3*key, 47, 32
	}
	now, ok, err := db.Put(collection, a.key(), before, object, maxStoreRequest-envelope-request)
	if !errors.Is(err, store.ErrTooLarge) {
		return now, ok, err
	}
	size, err := a.storedSize(object)
	if err == nil && size+envelope+request > maxStoreRequest {
		delete(rawjson.AsMap(object["metadata"]), "managedFields")
		size, err = a.storedSize(object)
	}
	switch {
	case err != nil:
		return nil, false, err
	case size+envelope+message > maxStoreMessage:
		return nil, false, apierrors.New(500, "", fmt.Sprintf("rpc error: code = ResourceExhausted desc = trying to send message larger than max (%d vs. %d)", size+envelope+message, maxStoreMessage), nil)
	case size+envelope+request > maxStoreRequest:
		return nil, false, apierrors.New(500, "", "etcdserver: request is too large", nil)
	}
	return db.Put(collection, a.key(), before, object, 0)
}

// storedSize returns the size of an object in etcd: of a custom resource as JSON, without its version, and an estimate in Protocol Buffers for a
// built-in kind.
func (a *apiRequest) storedSize(object map[string]any) (int, error) {
	if a.kind.crd == nil {
		return contentSize(object), nil
	}
	stored := maps.Clone(object)
	meta := maps.Clone(rawjson.AsMap(object["metadata"]))
	delete(meta, "resourceVersion")
	stored["metadata"] = meta
	raw, err := rawjson.Encode(stored)
	return len(raw) + len("\n"), err
}

// contentSize returns the bytes of a value without the names of its fields, which Protocol Buffers omit.
func contentSize(v any) int {
	const prefix = 2 // the minimum for the number of a field and a length
	switch v := v.(type) {
	case string:
		return prefix + len(v)
	case json.Number:
		return prefix
	case map[string]any:
		n := prefix
		for _, e := range v {
			n += contentSize(e)
		}
		return n
	case []any:
		n := 0
		for _, e := range v {
			n += contentSize(e)
		}
		return n
	}
	return prefix
}
