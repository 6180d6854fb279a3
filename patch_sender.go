package kopf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/boundedset"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/flapping"
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/objectpatch"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file sends the patch of one object in as few requests as possible, never to a new object of the same name, and classifies refusals.

// sender sends patches of one object. It does not keep the object: callers pass the state to patch, and get the newest state of the responses, even with an
// error.
type sender struct {
	client    *Client
	ctx       context.Context // of the requests
	resource  Resource
	log       *slog.Logger
	discovery discoverer
	warned    *boundedset.Set      // former warnings for the resource; may be nil
	lenient   bool                 // whether transformations conflict only with changes of the same fields
	sent      bool                 // whether a request was sent
	state     *PersistenceSettings // for state in patches; nil for senders without state
}

// The HTTP status codes that have a meaning for patches.
const (
	codeBadRequest    = 400
	codeUnauthorized  = 401
	codeForbidden     = 403
	codeNotFound      = 404
	codeTimeout       = 408
	codeConflict      = 409
	codeUnprocessable = 422
	codeTooMany       = 429
)

// maxRefusals is how often in a row a handler patch may be refused alone with a retryable code. It limits refusals by webhooks and policies, and all refusals
// of patches of event handlers.
const maxRefusals = 10

// errStateDropped means that the status has dropped the state of a patch.
var errStateDropped = errors.New("the status does not keep the state")

// errGone means that the object does not exist any more, or that another one has its name.
var errGone = errors.New("the object is gone")

// conflictError means that the object was changed by another client meanwhile.
type conflictError struct{ err error }

func (e *conflictError) Error() string { return e.err.Error() }

func (e *conflictError) Unwrap() error { return e.err }

// patchRefusedError means that the API server refuses a patch permanently.
type patchRefusedError struct{ err error }

func (e *patchRefusedError) Error() string { return e.err.Error() }

func (e *patchRefusedError) Unwrap() error { return e.err }

// statusStoredError means that the status of a patch is stored, but the request for the rest of the object has failed. The status must not be sent
// again: it would overwrite what other clients have set since.
type statusStoredError struct{ err error }

func (e *statusStoredError) Error() string { return e.err.Error() }

func (e *statusStoredError) Unwrap() error { return e.err }

// request sends the requests of one patch. It sends only differences to the known state, and returns that if there are none. If a response shows that the
// known state was outdated, it also sends the further differences.
func (s *sender) request(known *Body, patch *Patch) (*Body, error) {
	if patch.holds(known) {
		return known, nil
	}
	joined := *patch
	joined.changes, patch = patch.changes.Joined(), &joined
	now, err := s.sendOnce(known, patch)
	if err != nil || now == known || patch.changes.Versioned() {
		return now, err
	}
	missed := unapplied(patch.changes.Merge, now)
	if overtaken(known, patch.changes.Merge, missed) {
		if now, err = s.sendOnce(now, patch); err != nil {
			return now, err
		}
		missed = unapplied(patch.changes.Merge, now)
	}
	if !patch.changes.Finalizes() { // records are removed together with the finalizer, perhaps with their whole parent
		s.warnMissed(missed, now)
	}
	return now, nil
}

// fieldsSet returns the merge patch of the fields that a versioned patch sets, without the removed ones.
func fieldsSet(before, after map[string]any) map[string]any {
	merge := make(map[string]any)
	for _, item := range diffJSON(before, after) {
		if item.New != nil && len(item.Path) > 0 {
			jsonpatch.Put(merge, rawjson.Clone(item.New), item.Path...)
		}
	}
	return merge
}

// isDropped reports whether the API server has dropped a field of a patch, or fields of items of a list.
func isDropped(missed DiffItem) bool {
	if missed.New == nil {
		return true
	}
	fits, lost := keeps(missed.Old, missed.New)
	return fits && lost
}

// droppedIn returns the dropped fields. Fields with other values stay with a resource version only by
// defaults and webhooks, which add to what a function of the user has made.
func droppedIn(missed Diff) Diff {
	return slices.DeleteFunc(missed, func(item DiffItem) bool { return !isDropped(item) })
}

// keeps reports whether a stored value fits the sent one, except for missing and further fields, and
// whether fields are missing.
func keeps(sent, stored any) (fits, lost bool) {
	switch sent := sent.(type) {
	case map[string]any:
		fields, ok := stored.(map[string]any)
		for key, value := range sent {
			inner, present := fields[key]
			if !present {
				lost = true
				continue
			}
			same, less := keeps(value, inner)
			ok, lost = ok && same, lost || less
		}
		return ok, lost
	case []any:
		items, ok := stored.([]any)
		if !ok || len(items) != len(sent) {
			return false, false
		}
		for i, value := range sent {
			same, less := keeps(value, items[i])
			ok, lost = ok && same, lost || less
		}
		return ok, lost
	}
	return rawjson.Equal(sent, stored), false
}

// overtaken reports whether the known state already had a missed value, so that it was not sent.
func overtaken(known *Body, merge map[string]any, missed Diff) bool {
	if len(missed) == 0 {
		return false
	}
	was := jsonpatch.DecodeLike(known.raw, merge)
	return slices.ContainsFunc(missed, func(item DiffItem) bool {
		v, ok := rawjson.Lookup(was, item.Path...)
		return ok && rawjson.Equal(v, item.Old)
	})
}

// sendOnce sends the requests of one patch for a known state. The request for a status subresource comes first, because the other one marks the handling as
// done.
func (s *sender) sendOnce(known *Body, patch *Patch) (*Body, error) {
	before, after, err := patch.sides(known)
	if err != nil {
		return known, err
	}
	var want map[string]any
	if patch.changes.Versioned() && !patch.changes.Finalizes() {
		want = fieldsSet(before, after) // the requests change both states
	}
	now, err := s.sendParts(known, before, after, patch)
	if err == nil && now != known && want != nil {
		s.warnMissed(droppedIn(unapplied(want, now)), now)
	}
	return now, err
}

// sendParts sends the requests for the changes between two states.
func (s *sender) sendParts(known *Body, before, after map[string]any, patch *Patch) (_ *Body, err error) {
	given := known
	apart, first := s.resource.hasStatus(), ""
	if apart {
		first = "status"
	}
	if known, err = s.sendPart(known, first, before, after, patch); err == nil && s.state != nil && s.state.dropped(patch, known) { // the state elsewhere must then remain
		err = &conflictError{errStateDropped}
	}
	if err != nil || !apart {
		return known, err
	}
	now, err := s.sendPart(known, "", before, after, patch)
	if err != nil && known != given {
		err = &statusStoredError{err}
	}
	return now, err
}

// sendPart sends the changes of the status, or those of the object itself, if there are any.
func (s *sender) sendPart(known *Body, subresource string, before, after map[string]any, patch *Patch) (*Body, error) {
	state := &objectpatch.State{UID: known.uid, Version: known.version, Finalizers: known.of(known.finalizers), Apart: s.resource.hasStatus(), Lenient: s.lenient}
	request := state.Main
	if subresource != "" {
		request = state.Status
	}
	if r := request(&patch.changes, before, after); r != nil {
		return s.patch(known, subresource, r)
	}
	return known, nil
}

// patch sends one request.
func (s *sender) patch(known *Body, subresource string, r *objectpatch.Request) (*Body, error) {
	data, err := rawjson.Encode(r.Body)
	if err != nil {
		return known, err
	}
	if r.Type == objectpatch.OperationsType {
		data = rawjson.EscapeHTML(data)
	}
	s.sent = true
	s.log.Debug("Patching.", "subresource", subresource, "patch", s.resource.loggable(View{raw: data}))
	now, err := s.client.patchObject(s.ctx, s.resource, known.namespace, known.name, subresource, r.Type, data)
	if err != nil {
		return s.classifyRefusal(err, known, subresource, r.Type == objectpatch.OperationsType)
	}
	return now, nil
}

// classifyRefusal classifies the refusal of a patch. It reads the object to find out whether it is gone or was changed. The refusal itself may come from a
// webhook, with any code and text.
func (s *sender) classifyRefusal(err error, known *Body, subresource string, tested bool) (*Body, error) {
	var api *APIError
	if !errtype.As(err, &api) {
		return known, err
	}
	if api.denied() {
		switch {
		case api.Code == codeUnauthorized, api.Code == codeNotFound, api.Code == codeConflict, api.Code == codeTooMany, api.Code >= 500:
			return known, err // a retry may succeed
		}
		return known, &patchRefusedError{err}
	}
	namesake := slices.ContainsFunc(api.Causes, func(c ErrorCause) bool { return c.Field == "metadata.uid" })
	switch {
	case api.Code == codeNotFound, api.Code == codeConflict, api.Code == codeUnprocessable && (tested && len(api.Causes) == 0 || namesake):
	case api.Code == codeUnprocessable, api.Code == codeBadRequest:
		return known, &patchRefusedError{err}
	default:
		return known, err
	}
	now, getErr := s.get(known)
	switch {
	case errors.Is(getErr, errGone):
		return known, errGone
	case getErr != nil && StatusCode(getErr) == codeNotFound:
		return known, err
	case getErr != nil: // most likely, it was changed or is gone, and the stream will show that
		return known, &conflictError{err}
	case api.Code == codeNotFound && api.Name == known.namespace && known.namespace != known.name:
		return known, fmt.Errorf("changing an object whose namespace is gone: create the namespace %q again to have the object finished: %w", known.namespace, err)
	case api.Code == codeNotFound && subresource != "":
		s.discovery.rediscover()
		return known, fmt.Errorf("the resource seems to have lost its subresource %q: %w", subresource, err)
	case api.Code == codeNotFound:
		return known, err
	case now.version != known.version:
		return now, &conflictError{err}
	case api.Code == codeUnprocessable:
		return known, &patchRefusedError{err}
	}
	return known, err
}

// get reads the object. It returns errGone if the API server says that this very object is missing, or if its name belongs to another one. Any other error
// says nothing about the object.
func (s *sender) get(known *Body) (*Body, error) {
	body, err := s.client.object(s.ctx, s.resource, known.namespace, known.name)
	var api *APIError
	switch {
	case err == nil && body.uid != known.uid:
		return nil, errGone
	case errtype.As(err, &api) && api.Code == codeNotFound && api.Reason == "NotFound" && api.Name == known.name:
		return nil, errGone
	case errtype.As(err, &api) && api.Code == codeNotFound:
		s.discovery.rediscover() // the resource is not served, or not yet
	}
	return body, err
}

// overflows reports whether a patch was refused because all annotations together are too large.
func overflows(err error) bool {
	if err == nil {
		return false
	}
	var api *APIError
	return errtype.As(err, &api) && !api.denied() && slices.ContainsFunc(api.Causes, func(c ErrorCause) bool {
		return c.Field == "metadata.annotations" && c.Reason == "FieldValueTooLong"
	})
}

// warnMissed warns of fields that the API server has dropped, such as those that the schema lacks, and of fields with other values.
func (s *sender) warnMissed(missed Diff, now *Body) {
	var dropped, changed Diff
	for _, item := range missed {
		if isDropped(item) {
			dropped = append(dropped, item)
		} else {
			changed = append(changed, item)
		}
	}
	if len(dropped) > 0 {
		s.warn("The API server dropped fields of a patch", "K601", dropped,
			"hint", "declare the fields in the schema of the custom resource definition, or set x-kubernetes-preserve-unknown-fields on their parent")
	}
	if len(changed) > 0 {
		var writers []string
		for _, item := range changed {
			for _, name := range flapping.Writers(now.Get("metadata.managedFields"), item.Path) {
				if name != fieldManager && !slices.Contains(writers, name) { // what a webhook changes in a patch of kopf belongs to kopf
					writers = append(writers, name)
				}
			}
		}
		var attrs []any
		if len(writers) > 0 {
			attrs = []any{"managers", strings.Join(writers, ",")}
		}
		s.warn("Fields of a patch have other values now, changed by another client or by an admission webhook", "K602", changed, attrs...)
	}
}

// warn logs fields that have other values than the patch. The first time, it is a warning with a code.
func (s *sender) warn(text, help string, missed Diff, attrs ...any) {
	level, fields := slog.LevelDebug, make([]string, len(missed))
	for i, item := range missed {
		if s.warned.Add(string(Path(item.Path...))) {
			level = slog.LevelWarn
		}
		fields[i] = fmt.Sprintf("%s: sent %s, stored %s", strings.Join(item.Path, "."), shown(item.Old), shown(item.New))
	}
	attrs = append(attrs, "differences", s.resource.loggable(fields))
	if level == slog.LevelWarn {
		attrs = append(attrs, "help", help)
	}
	s.log.Log(s.ctx, level, text, attrs...)
}

// shown returns a value of an object for the log.
func shown(value any) string {
	if value == nil {
		return "nothing"
	}
	text, _ := rawjson.Encode(value) // values from JSON can always be encoded
	return string(text)
}

// exitSendTimeout limits each of the two attempts to store the last patch of a task at shutdown.
const exitSendTimeout = 2 * time.Second

// maxResends limits the retries of the last patch of an ended task.
const maxResends = 10
