package objectpatch

import (
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// State is the known state of an object, for requests that change it.
type State struct {
	UID, Version string
	Finalizers   []byte // JSON list; nil for none
	Apart        bool   // the status is a subresource, which needs its own requests
	Lenient      bool   // transformations conflict only with changes of the fields that they change
}

// Request is the body of a patch request.
type Request struct {
	Type string // media type
	Body any
}

// The media types of patches. A JSON patch tests the values that it changes.
const (
	OperationsType = "application/json-patch+json"
	mergeType      = "application/merge-patch+json"
)

// Sides returns the fields that the merge patch touches, before and after it, for changes that do not depend on a resource version.
func (c *Changes) Sides(raw []byte) (before, after map[string]any) {
	before = rawjson.AsMap(jsonpatch.DecodeLike(raw, c.Merge))
	after, _ = rawjson.Merge(rawjson.Clone(before), any(c.Merge)).(map[string]any)
	return before, after
}

// Main returns the request for the object itself, without a status subresource, from its states before and after the changes, or nil. It is a merge patch where
// possible, because a merge patch cannot conflict with other clients.
func (s *State) Main(c *Changes, before, after map[string]any) *Request {
	if c.Versioned() {
		return operations(s.versioned(before, after))
	}
	merge := jsonpatch.EffectiveMerge(before, c.Merge)
	if s.Apart {
		delete(merge, "status")
	}
	if ops := jsonpatch.FinalizerOps(rawjson.StringsAt(s.Finalizers), c.Adds, c.Removes); len(ops) > 0 {
		return operations(append(jsonpatch.AppendMerge(s.uidTest(), "", before, merge), ops...))
	}
	if len(merge) == 0 {
		return nil
	}
	guard := map[string]any{"metadata": map[string]any{"uid": s.UID}}
	return &Request{mergeType, jsonpatch.CombineMerges(guard, merge)}
}

// Status returns the request for the status subresource, or nil, and removes the status from both states. It tests the uid, because a merge patch of the
// subresource could change another object that was recreated with the same name.
func (s *State) Status(c *Changes, before, after map[string]any) *Request {
	from, to := rawjson.MoveMember(before, "status"), rawjson.MoveMember(after, "status")
	if c.Versioned() {
		return operations(s.versioned(from, to))
	}
	status, ok := c.Merge["status"]
	if !ok {
		return nil
	}
	return operations(jsonpatch.AppendMerge(s.uidTest(), "", from, jsonpatch.EffectiveMerge(from, map[string]any{"status": status})))
}

func (s *State) uidTest() []jsonpatch.Operation {
	return []jsonpatch.Operation{{Op: "test", Path: "/metadata/uid", Value: s.UID}}
}

// versioned returns the operations between two states of one resource version, with their guard.
func (s *State) versioned(before, after map[string]any) []jsonpatch.Operation {
	if s.Lenient {
		return append(s.uidTest(), jsonpatch.Guard(before, jsonpatch.DiffWholeLists(before, after))...)
	}
	guard := jsonpatch.Operation{Op: "test", Path: "/metadata/resourceVersion", Value: s.Version}
	return append([]jsonpatch.Operation{guard}, jsonpatch.Diff(before, after)...)
}

// operations returns the request for some operations, or nil if there is only the guard.
func operations(ops []jsonpatch.Operation) *Request {
	if len(ops) < 2 {
		return nil
	}
	return &Request{OperationsType, jsonpatch.Values(ops)}
}
