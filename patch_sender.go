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
	"github.com/kopf-go/kopf/internal/flapping"
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/objectpatch"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file sends the patch of one object in as few requests as it takes, so that a namesake is never hit,
// and classifies refusals. It runs on the goroutine that wants the object changed.

// sender sends patches of one object. It remembers nothing of that: the state that a patch is made for is handed in, and the newest state
// that the answers have shown is returned, also together with an error.
type sender struct {
	client    *Client
	ctx       context.Context // of the requests
	resource  Resource
	log       *slog.Logger
	discovery discoverer
	warned    *boundedset.Set      // what was warned of for the resource; may be nil
	lenient   bool                 // whether transformations conflict only with changes of what they change themselves
	sent      bool                 // whether a request was made
	state     *PersistenceSettings // of the state that patches may store; nil for senders of others
}

// The HTTP codes that mean something to what is done with an object.
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

// maxRefusals is how often in a row a handler patch is refused alone, with a code that may mean that it is taken later, before it is given up: if a webhook
// or a policy has refused it, or if a handler of raw events has left it.
const maxRefusals = 10

// errStateDropped means that a status has not kept the state that was sent with a patch.
var errStateDropped = errors.New("the status does not keep the state")

// errGone means that the object does not exist any more, or that another one has its name.
var errGone = errors.New("the object is gone")

// conflictError means that the object was changed by another client meanwhile.
type conflictError struct{ err error }

func (e *conflictError) Error() string { return e.err.Error() }

func (e *conflictError) Unwrap() error { return e.err }

// patchRefusedError means that the API server does not take a patch, however often it is sent.
type patchRefusedError struct{ err error }

func (e *patchRefusedError) Error() string { return e.err.Error() }

func (e *patchRefusedError) Unwrap() error { return e.err }

// request makes the requests of one patch. Nothing is sent for what is already so in the known state, which is returned then; if the answers show that it
// was not so any more, that is sent, too.
func (s *sender) request(known *Body, patch *Patch) (*Body, error) {
	if patch.holds(known) {
		return known, nil
	}
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
	if !patch.changes.Finalizes() { // the records of a handling go with the finalizer, perhaps with the whole map
		s.warnMissed(missed, now)
	}
	return now, nil
}

// overtaken reports whether any of what a merge patch has missed was so in the state that it was made for, and so was not sent.
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

// sendOnce makes the requests of one patch for a known state: that of the status first, where it is a subresource, because the other one says that all is done.
func (s *sender) sendOnce(known *Body, patch *Patch) (*Body, error) {
	before, after, err := patch.sides(known)
	if err != nil {
		return known, err
	}
	apart, first := slices.Contains(s.resource.Subresources, "status"), ""
	if apart {
		first = "status"
	}
	if known, err = s.sendPart(known, first, before, after, patch); err == nil && s.state != nil && s.state.dropped(patch, known) { // what is elsewhere must not be removed
		err = &conflictError{errStateDropped}
	}
	if err != nil || !apart {
		return known, err
	}
	return s.sendPart(known, "", before, after, patch)
}

// sendPart sends what changes in the status, or in the object itself, if anything does.
func (s *sender) sendPart(known *Body, subresource string, before, after map[string]any, patch *Patch) (*Body, error) {
	state := &objectpatch.State{UID: known.uid, Version: known.version, Finalizers: known.of(known.finalizers), Apart: slices.Contains(s.resource.Subresources, "status"), Lenient: s.lenient}
	request := state.Main
	if subresource != "" {
		request = state.Status
	}
	if r := request(&patch.changes, before, after); r != nil {
		return s.patch(known, subresource, r)
	}
	return known, nil
}

// patch makes one request.
func (s *sender) patch(known *Body, subresource string, r *objectpatch.Request) (*Body, error) {
	data, err := rawjson.Encode(r.Body)
	if err != nil {
		return known, err
	}
	s.sent = true
	s.log.Debug("Patching.", "subresource", subresource, "patch", s.resource.loggable(View{raw: data}))
	now, err := s.client.patchObject(s.ctx, s.resource, known.namespace, known.name, subresource, r.Type, data)
	if err != nil {
		return s.classifyRefusal(err, known, subresource, r.Type == objectpatch.OperationsType)
	}
	return now, nil
}

// classifyRefusal finds out what the refusal of a patch means, which was made for a known state of the object. Whether the object is gone, or was
// changed meanwhile, it looks up: webhooks refuse with any code and any text, about any object.
func (s *sender) classifyRefusal(err error, known *Body, subresource string, tested bool) (*Body, error) {
	var api *APIError
	if !errors.As(err, &api) {
		return known, err
	}
	if api.denied() {
		switch {
		case api.Code == codeUnauthorized, api.Code == codeNotFound, api.Code == codeConflict, api.Code == codeTooMany, api.Code >= 500:
			return known, err // it may be taken later
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
	case getErr != nil: // that it was changed or has gone is what it is in most cases, and the stream will show it
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

// get asks for the object. It fails with errGone if the API server says of this very object that it is not there, or that another one
// has its name; any other error means nothing for the object.
func (s *sender) get(known *Body) (*Body, error) {
	body, err := s.client.object(s.ctx, s.resource, known.namespace, known.name)
	var api *APIError
	switch {
	case err == nil && body.uid != known.uid:
		return nil, errGone
	case errors.As(err, &api) && api.Code == codeNotFound && api.Reason == "NotFound" && api.Name == known.name:
		return nil, errGone
	case errors.As(err, &api) && api.Code == codeNotFound:
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
	return errors.As(err, &api) && !api.denied() && slices.ContainsFunc(api.Causes, func(c ErrorCause) bool {
		return c.Field == "metadata.annotations" && c.Reason == "FieldValueTooLong"
	})
}

// warnMissed warns of what the API server has not taken over, as it does with fields that the schema does not know, and of what has another
// value by now.
func (s *sender) warnMissed(missed Diff, now *Body) {
	var dropped, changed Diff
	for _, item := range missed {
		if item.New == nil {
			dropped = append(dropped, item)
		} else {
			changed = append(changed, item)
		}
	}
	if len(dropped) > 0 {
		s.warn("The API server dropped fields of a patch", dropped, "help", "K601",
			"hint", "declare the fields in the schema of the custom resource definition, or set x-kubernetes-preserve-unknown-fields on their parent")
	}
	if len(changed) > 0 {
		var writers []string
		for _, item := range changed {
			for _, name := range flapping.Writers(now.Get("metadata.managedFields"), item.Path) {
				if !slices.Contains(writers, name) {
					writers = append(writers, name)
				}
			}
		}
		s.warn("Fields of a patch have other values now, changed by another client or by an admission webhook", changed, "help", "K602", "managers", strings.Join(writers, ","))
	}
}

// warn logs fields that are not what they were set to: as a warning at the first time.
func (s *sender) warn(text string, missed Diff, attrs ...any) {
	level, fields := slog.LevelDebug, make([]string, len(missed))
	for i, item := range missed {
		if s.warned.Add(string(Path(item.Path...))) {
			level = slog.LevelWarn
		}
		fields[i] = fmt.Sprintf("%s: sent %s, stored %s", strings.Join(item.Path, "."), shown(item.Old), shown(item.New))
	}
	s.log.Log(s.ctx, level, text, append(attrs, "differences", s.resource.loggable(fields))...)
}

// shown returns a value of an object as text for the log.
func shown(value any) string {
	if value == nil {
		return "nothing"
	}
	text, _ := rawjson.Encode(value) // it comes from JSON
	return string(text)
}

// exitSendTimeout is how long one attempt at storing what a task has left may take when the operator stops. There are two.
const exitSendTimeout = 2 * time.Second

// maxResends is how often the last patch of a task that has ended is sent again before it is given up.
const maxResends = 10
