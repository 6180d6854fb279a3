package kopf

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// This file sends the patch of one object in as few requests as it takes, so that a namesake is never hit,
// and tells what a refusal means. It runs on the goroutine of whoever wants the object changed.

// sender sends patches of one object, and knows its newest state.
type sender struct {
	client   *Client
	ctx      context.Context // of the requests
	resource Resource
	log      *slog.Logger
	took     func(before, after *Body) // told what each request has led to; may be nil
	outdated func()                    // told that the resource is not what it was; may be nil
	told     *misses                   // what was warned of for the resource; may be nil

	sent int // requests that were answered well

	mu    sync.Mutex // guards fresh
	fresh *Body
}

// misses are those fields of one resource that are known not to be taken over.
type misses struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// maxMisses bounds what is remembered: more fields than that are a matter of names that are made up, and warned of enough by then.
const maxMisses = 100

// first tells whether any of the fields is new among those, and notes them.
func (m *misses) first(missed Diff) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = make(map[string]bool)
	}
	found := false
	for _, item := range missed {
		path := string(Path(item.Path...))
		if !m.seen[path] && len(m.seen) < maxMisses {
			m.seen[path], found = true, true
		}
	}
	return found
}

// known returns the newest state of the object that is known.
func (s *sender) known() *Body {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fresh
}

// The HTTP codes that mean something to a patch.
const (
	codeBadRequest    = 400
	codeNotFound      = 404
	codeConflict      = 409
	codeUnprocessable = 422
)

// errGone tells that the object does not exist any more, or that another one has its name.
var errGone = errors.New("the object is gone")

// conflictError tells that the object was changed by somebody else meanwhile.
type conflictError struct{ err error }

func (e *conflictError) Error() string { return e.err.Error() }

func (e *conflictError) Unwrap() error { return e.err }

// patchRefusedError tells that the API server does not take a patch, however often it is sent.
type patchRefusedError struct{ err error }

func (e *patchRefusedError) Error() string { return e.err.Error() }

func (e *patchRefusedError) Unwrap() error { return e.err }

// request makes the requests of one patch: that of the status first, where it is a subresource, because
// the other one says that all is done. Nothing is sent for what is already so.
func (s *sender) request(patch *Patch) error {
	if patch.Empty() {
		return nil
	}
	before, after, err := patch.sides(s.known())
	if err != nil {
		return err
	}
	sent := s.sent
	if slices.Contains(s.resource.Subresources, "status") {
		if err := s.requestStatus(before, after, len(patch.transforms) > 0); err != nil {
			return err
		}
	}
	if err := s.requestMain(before, after, patch); err != nil {
		return err
	}
	if s.sent > sent {
		s.verify(patch)
	}
	return nil
}

// requestMain sends what changes in the object itself: as a merge patch where possible, because
// it cannot conflict with what others do.
func (s *sender) requestMain(before, after map[string]any, patch *Patch) error {
	if len(patch.transforms) > 0 {
		ops := diffPatch(before, after)
		if len(ops) == 0 {
			return nil
		}
		guard := PatchOperation{Op: "test", Path: "/metadata/resourceVersion", Value: s.known().version}
		return s.patch("", "application/json-patch+json", append([]PatchOperation{guard}, ops...))
	}
	merge := effectiveMerge(before, patch.merge)
	if slices.Contains(s.resource.Subresources, "status") {
		delete(merge, "status")
	}
	if len(merge) == 0 {
		return nil
	}
	guard := map[string]any{"metadata": map[string]any{"uid": s.known().uid}}
	return s.patch("", "application/merge-patch+json", combineMerges(guard, merge))
}

// requestStatus sends what changes in the status, and takes it out of both states. A merge patch of the
// subresource would hit a namesake of the object that was recreated meanwhile; a test of the uid does not.
func (s *sender) requestStatus(before, after map[string]any, versioned bool) error {
	old, was := before["status"]
	now, is := after["status"]
	delete(before, "status")
	delete(after, "status")
	from, to := map[string]any{}, map[string]any{}
	if was {
		from["status"] = old
	}
	if is {
		to["status"] = now
	}
	ops := diffPatch(from, to)
	if len(ops) == 0 {
		return nil
	}
	guard := PatchOperation{Op: "test", Path: "/metadata/uid", Value: s.known().uid}
	if versioned || !was { // a status that came meanwhile is not to be replaced
		guard = PatchOperation{Op: "test", Path: "/metadata/resourceVersion", Value: s.known().version}
	}
	return s.patch("status", "application/json-patch+json", append([]PatchOperation{guard}, ops...))
}

// patch makes one request, and remembers the version that it leads to.
func (s *sender) patch(subresource, contentType string, body any) error {
	data, err := encodeJSON(body)
	if err != nil {
		return err
	}
	known := s.known()
	s.log.Debug("Patching.", "subresource", subresource, "patch", s.resource.loggable(View{raw: data}))
	fresh, err := s.client.patchObject(s.ctx, s.resource, known.namespace, known.name, subresource, contentType, data)
	if err != nil {
		return s.judge(err, subresource)
	}
	s.sent++
	s.mu.Lock()
	s.fresh = fresh
	s.mu.Unlock()
	if s.took != nil {
		s.took(known, fresh)
	}
	return nil
}

// judge tells what a refusal means.
func (s *sender) judge(err error, subresource string) error {
	var api *APIError
	if !errors.As(err, &api) {
		return err
	}
	switch {
	case api.Code == codeNotFound && subresource != "" && s.exists():
		if s.outdated != nil {
			s.outdated()
		}
		return errorf("the resource seems to have lost its subresource %q: %w", subresource, err)
	case api.Code == codeNotFound && (api.Reason != "NotFound" || strings.Contains(api.Message, "could not find the requested resource")):
		if s.outdated != nil { // the resource is not served, or not yet; of the object, this tells nothing
			s.outdated()
		}
		return err
	case api.Code == codeNotFound:
		return errGone
	case api.Code == codeConflict && strings.Contains(api.Message, "UID"), strings.Contains(api.Message, "metadata.uid"):
		return errGone // a namesake
	case api.Code == codeUnprocessable && len(api.Causes) == 0:
		return &conflictError{err}
	case api.Code == codeUnprocessable, api.Code == codeBadRequest:
		return &patchRefusedError{err}
	}
	return err
}

// exists tells whether the object is still there, as far as that can be found out.
func (s *sender) exists() bool {
	known := s.known()
	body, err := s.client.object(s.ctx, s.resource, known.namespace, known.name)
	return err == nil && body.uid == known.uid || err != nil && StatusCode(err) != codeNotFound
}

// overflows tells whether a patch was refused because all annotations together are too large.
func overflows(err error) bool {
	if err == nil {
		return false
	}
	var api *APIError
	return errors.As(err, &api) && slices.ContainsFunc(api.Causes, func(c ErrorCause) bool {
		return c.Field == "metadata.annotations" && c.Reason == "FieldValueTooLong"
	})
}

// verify warns of what the API server has not taken over, as it does with fields that the schema does not know.
func (s *sender) verify(patch *Patch) {
	if len(patch.transforms) > 0 {
		return
	}
	if missed := unapplied(patch.merge, s.known()); len(missed) > 0 {
		level := slog.LevelDebug
		if s.told == nil || s.told.first(missed) {
			level = slog.LevelWarn
		}
		s.log.Log(s.ctx, level, "The object was patched, but some changes were not taken over: is the field in the schema? "+
			"It has to be declared there, or its parent has to have x-kubernetes-preserve-unknown-fields.", "differences", missed)
	}
}
