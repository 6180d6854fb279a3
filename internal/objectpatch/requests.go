package objectpatch

import (
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// State is the known state of an object that changes are sent for.
type State struct {
	UID, Version string
	Finalizers   []byte // the list of them in JSON, nil for none
	Apart        bool   // whether the status is a subresource, which only requests of its own change
	Lenient      bool   // whether transformations conflict only with changes of what they change themselves
}

// Request is what is to be sent.
type Request struct {
	Type string // the media type
	Body any
}

// The media types of patches. Operations test what they change.
const (
	OperationsType = "application/json-patch+json"
	mergeType      = "application/merge-patch+json"
)

// Sides returns what the changes touch of an object in JSON, before and after them, if they are not those of one version of it.
func (c *Changes) Sides(raw []byte) (before, after map[string]any) {
	before = rawjson.AsMap(jsonpatch.DecodeLike(raw, c.Merge))
	after, _ = rawjson.Merge(rawjson.Clone(before), any(c.Merge)).(map[string]any)
	return before, after
}

// Main returns what is to be sent for what changes in the object itself, between its state before and after the changes; nil for nothing. It is a merge patch where possible, because that cannot conflict
// with what others do.
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

// Status returns what is to be sent for what changes in the status, where that is a subresource, and takes it out of both states; nil for nothing. A merge patch of the subresource would hit a namesake
// of the object that was recreated meanwhile; a test of the uid does not.
func (s *State) Status(c *Changes, before, after map[string]any) *Request {
	from, to := rawjson.MoveMember(before, "status"), rawjson.MoveMember(after, "status")
	if c.Versioned() {
		return operations(s.versioned(from, to))
	}
	status, ok := c.Merge["status"]
	if !ok {
		return nil
	}
	return operations(jsonpatch.AppendMerge(s.uidTest(), "", from, map[string]any{"status": status}))
}

func (s *State) uidTest() []jsonpatch.Operation {
	return []jsonpatch.Operation{{Op: "test", Path: "/metadata/uid", Value: s.UID}}
}

// versioned returns the operations between two states that were computed for one version, with their guard.
func (s *State) versioned(before, after map[string]any) []jsonpatch.Operation {
	if s.Lenient {
		return append(s.uidTest(), jsonpatch.Guard(before, jsonpatch.DiffWholeLists(before, after))...)
	}
	guard := jsonpatch.Operation{Op: "test", Path: "/metadata/resourceVersion", Value: s.Version}
	return append([]jsonpatch.Operation{guard}, jsonpatch.Diff(before, after)...)
}

// operations returns the request of some operations, nil if there are none but the guard.
func operations(ops []jsonpatch.Operation) *Request {
	if len(ops) < 2 {
		return nil
	}
	return &Request{OperationsType, jsonpatch.Values(ops)}
}
