package kopf

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/applyset"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/flapping"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/ownership"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/safecall"
)

// This file applies the children that a reconcile handler wants, and deletes former children. It
// runs on the goroutine of the object's worker.

// applyAll applies the children. The functions in their options may change a typed object.
func (d *desiredSet) applyAll(ctx context.Context) error {
	err := d.apply(ctx)
	if slices.ContainsFunc(d.wanted, func(c *Child) bool { return c.made || c.options.Ready != nil }) {
		err = withPatchError(err, d.settle())
	}
	return err
}

// apply applies the children that differ, and deletes former children.
func (d *desiredSet) apply(ctx context.Context) error {
	if d.err != nil {
		return d.err
	}
	switch {
	case d.none && len(d.wanted) > 0:
		return errors.New("the handler called NoChildren, and declared children: want one of them")
	case len(d.reconciling.owns) == 0:
		return nil
	case len(d.wanted) == 0 && !d.none:
		d.kept = true
		d.warnOfFormer()
		return nil
	}
	keys := []string{d.owner.UID(), d.set}
	for _, c := range d.wanted {
		if c.options.Keep { // each one has a family of its own
			keys = append(keys, d.keyOf(c))
		}
	}
	maps.DeleteFunc(d.state.remade, func(_ string, t *flapping.Tracker) bool { return t.Remaining() == 0 })
	d.applying = d.reconciler.beginApplying(keys)
	defer d.reconciler.endApplying(keys, d.applying)
	if err := d.storeScope(ctx); err != nil {
		return err
	}
	var failures []error
	waiting := false
	for _, c := range d.wanted {
		if i := slices.IndexFunc(c.options.After, func(a *Child) bool { return !a.state.ready }); i >= 0 {
			waiting = true
			c.state.ready = false
			c.state.reason = "Waiting for " + c.options.After[i].ref.Kind
			continue
		}
		err := d.applyChild(ctx, c)
		if err == nil {
			err = d.judge(ctx, c)
		}
		if cancelled := (*cancelledError)(nil); errtype.As(err, &cancelled) {
			return err
		}
		if err != nil {
			c.failed, c.state.ready, c.state.reason = true, false, "Failed"
			failures = append(failures, fmt.Errorf("%s %s: %w", c.ref.Kind, c.ref, err))
		}
	}
	if len(failures) > 0 {
		return errors.Join(failures...)
	}
	if waiting {
		return nil
	}
	return d.prune(ctx)
}

// applyChild applies a child, unless it matches the desired state.
func (d *desiredSet) applyChild(ctx context.Context, c *Child) error {
	if c.known == nil {
		return d.create(ctx, c)
	}
	verdict, going := d.reconciler.check(c)
	if verdict == ownership.Unknown && !going && !c.options.Once {
		// The result of one apply also holds for other children of the kind, so they wait for it. Otherwise all of them would be applied after a restart.
		taught, err := d.reconciler.teaching.Begin(ctx, c.ref.APIVersion+" "+c.ref.Kind)
		if err != nil {
			return err
		}
		defer taught()
		verdict, going = d.reconciler.check(c)
	}
	switch {
	case going:
		c.state.ready, c.state.reason = false, "Terminating"
		return nil
	case verdict == ownership.Owned:
		return nil
	case c.options.Once:
		return d.mark(ctx, c)
	}
	if wait := d.reconciler.backOff(c); wait > 0 {
		return Temporary(fmt.Errorf("another client changes it back again and again"), wait)
	}
	return d.send(ctx, c, "uid", c.known.uid())
}

// mark adds the annotation of declared children to a child with Once that another client has made,
// so that kopf deletes the child when the handler stops declaring it. Nothing else of the child
// changes.
func (d *desiredSet) mark(ctx context.Context, c *Child) error {
	rc := d.reconciler
	rc.mu.Lock()
	marked, seen := c.known.applied, c.known.version
	rc.mu.Unlock()
	if marked || c.options.Keep {
		return nil
	}
	body, err := d.client.object(ctx, c.resource, c.ref.Namespace, c.ref.Name)
	if err != nil || body.uid != c.ref.UID {
		return err // its event will call the handler
	}
	known := apirequest.VersionNumber(body.version) == seen
	contentType := ApplyPatch
	if d.manages(body) { // an apply would remove the other fields of the manager
		contentType = MergePatch
	}
	metadata := map[string]any{
		"name": body.name, "uid": body.uid, "resourceVersion": body.version,
		"annotations": map[string]any{wantedAnnotation: c.config.Digest()},
	}
	data, err := rawjson.Encode(map[string]any{"apiVersion": c.ref.APIVersion, "kind": c.ref.Kind, "metadata": metadata})
	if err != nil {
		return err
	}
	query := url.Values{"fieldManager": {d.reconciling.manager}}
	if contentType == ApplyPatch {
		query.Set("force", "true")
	}
	r := &request{
		method: http.MethodPatch, path: c.resource.path(c.ref.Namespace, c.ref.Name, ""),
		query: query, contentType: string(contentType), body: data,
	}
	body, err = d.client.body(ctx, r)
	if d.count(c.resource, metrics.Apply, err); StatusCode(err) == http.StatusConflict {
		return Temporary(fmt.Errorf("it has changed meanwhile: %w", err), time.Second)
	}
	if err == nil {
		d.log.Debug("Marked a child of another client as declared", "kind", c.ref.Kind, "child", body.Reference())
		rc.noteMarked(d, c.known, body, known)
	}
	return err
}

// noteMarked records the result of [desiredSet.mark]. If the version before it was not known, the
// handler has to see the change of the other client.
func (rc *reconciler) noteMarked(d *desiredSet, k *child, body *Body, known bool) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	own, came := apirequest.VersionNumber(body.version), d.applying
	if known {
		came.own[own] = true
	} else if !came.early[earlyChild{k, own}] {
		came.show(k, k.ref(), own)
	}
	if k.version < own {
		fields, apiVersion := ownership.FieldsOf(body.of(body.managers), d.reconciling.manager)
		rc.show(k, body, fields, apiVersion, false)
		k.details().own = own
	}
}

// check compares a child with its desired state, and reports whether it is being deleted.
func (rc *reconciler) check(c *Child) (verdict ownership.Result, going bool) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	k, digest := c.known, c.config.Digest()
	if k.going {
		return ownership.Drifted, true
	}
	same := k.digest == maphash.String(rc.seed, digest)
	if same && k.owned {
		return ownership.Owned, false
	}
	if !same || !k.applied || k.more == nil {
		return ownership.Drifted, false
	}
	apiVersion, fields, _ := strings.Cut(k.more.fields, "\n")
	if verdict = rc.checker.Check(c.config, digest, []byte(fields), apiVersion); verdict == ownership.Owned {
		k.setOwned()
	}
	return verdict, false
}

// backOff returns the delay before kopf reapplies a child that another client keeps changing.
func (rc *reconciler) backOff(c *Child) time.Duration {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	k, wanted := c.known, maphash.String(rc.seed, c.config.Digest())
	if k.digest != wanted && k.mine != uint16(wanted) {
		return 0
	}
	more := k.details() // another client, such as another version of the operator, has changed the child
	if more.conflict.Remaining() <= 0 {
		more.conflict = flapping.New()
		return 0
	}
	pause := max(more.conflict.Pause(), 0)
	if pause == 0 && more.conflict.Count(maxFlappingRounds, time.Minute) {
		rc.log.Warn("Another client changes a child again and again; slowing down", "kind", c.ref.Kind, "object", c.ref, handlerKey, rc.handlerOfLocked(k).id, "help", "K710")
	}
	return pause
}

// maxFlappingRounds is how often in a row kopf reapplies a child without a delay after changes of another client.
const maxFlappingRounds = 5

// errUndone means that a child was deleted, or taken over, before the response to its apply.
var errUndone = errors.New("it was deleted or taken over while it was made")

// nameKey identifies a child by its name, also after its deletion.
func (c *Child) nameKey() string { return keptKey(c.resource, c.ref.Namespace, c.ref.Name) }

// mayRemake checks a child that was deleted before kopf makes it again. The garbage collector may
// have deleted it because its owner is gone, while the stream of the owner is silent. The call is
// cancelled then. A child that is deleted again and again has to wait.
func (d *desiredSet) mayRemake(c *Child) error {
	t := d.state.remade[c.nameKey()]
	if t == nil && !d.isDeleted(c) {
		return nil
	}
	if t == nil {
		d.state.noteRemade(c)
	} else if wait := t.Pause(); wait > 0 {
		return Temporary(errors.New("another client deletes it again and again"), wait)
	}
	owner, err := d.cycle.sender.get(d.owner)
	switch {
	case errors.Is(err, errGone):
		return &cancelledError{errGone}
	case err == nil && owner.deleting:
		return &cancelledError{ErrSuperseded}
	case StatusCode(err) == http.StatusForbidden: // it is assumed to exist
		return nil
	}
	return err
}

// isDeleted reports whether the call may have been triggered by the deletion of a child.
func (d *desiredSet) isDeleted(c *Child) bool {
	return len(d.triggers) == maxTriggers || slices.ContainsFunc(d.triggers, func(t Trigger) bool {
		o := t.Object
		return t.Reason == TriggerChild && o.Kind == c.ref.Kind && o.Namespace == c.ref.Namespace && o.Name == c.ref.Name
	})
}

// noteRemade records that a child was deleted.
func (s *reconcileState) noteRemade(c *Child) *flapping.Tracker {
	if s.remade == nil {
		s.remade = make(map[string]*flapping.Tracker)
	}
	t := flapping.New()
	s.remade[c.nameKey()] = t
	return t
}

// countRemaking counts a creation of a child that was deleted before, or meanwhile.
func (d *desiredSet) countRemaking(c *Child, err error) {
	undone := errors.Is(err, errUndone)
	t := d.state.remade[c.nameKey()]
	if err != nil && !undone || t == nil && !undone {
		return
	}
	if t == nil {
		t = d.state.noteRemade(c)
	}
	if t.Count(maxFlappingRounds, time.Minute) {
		d.log.Warn("Another client deletes a child again and again; slowing down", "kind", c.ref.Kind, "child", c.ref, "help", "K717")
	}
}

// create creates a child. The apply has a resource version that no object has, so it fails instead of merging into an existing object.
func (d *desiredSet) create(ctx context.Context, c *Child) error {
	if err := d.mayRemake(c); err != nil {
		return err
	}
	if c.options.Create != nil {
		body, err := d.client.object(ctx, c.resource, c.ref.Namespace, c.ref.Name)
		if err == nil { // its stream may be late
			return d.takeOver(ctx, c, body)
		}
		if StatusCode(err) != http.StatusNotFound {
			return err
		}
		if err := d.make(ctx, c); err != nil {
			return err
		}
	}
	err := d.send(ctx, c, "resourceVersion", "1")
	d.countRemaking(c, err)
	if StatusCode(err) != http.StatusConflict {
		return err
	}
	body, err := d.client.object(ctx, c.resource, c.ref.Namespace, c.ref.Name)
	if StatusCode(err) == http.StatusNotFound {
		return Temporary(errors.New("it was there, and is gone now"), time.Second)
	}
	if err != nil {
		return err
	}
	return d.takeOver(ctx, c, body)
}

// make adds the fields of the option Create to a missing child.
func (d *desiredSet) make(ctx context.Context, c *Child) error {
	c.made = true
	fields, err := d.askFields(ctx, c)
	if err != nil {
		return err
	}
	if fields, err = rawjson.NormalizeObject(fields); err != nil {
		return Permanent(fmt.Errorf("the result of the option Create: %w", err))
	}
	declared, err := rawjson.NormalizeObject(json.RawMessage(c.config.JSON(nil)))
	if err != nil {
		return err
	}
	made := &Child{options: c.options}
	if err := d.configure(made, rawjson.Merge(declared, fields)); err != nil {
		return Permanent(fmt.Errorf("the result of the option Create: %w", err))
	}
	if made.ref != c.ref {
		return Permanent(fmt.Errorf("the option Create returned a %s %s: want the declared child", made.ref.Kind, made.ref))
	}
	c.config = made.config
	return nil
}

// askFields calls the option Create, which may be slow.
func (d *desiredSet) askFields(ctx context.Context, c *Child) (fields any, err error) {
	defer d.reconciler.limiter.Yield()()
	err = safecall.Do(func() (err error) {
		fields, err = c.options.Create(ctx)
		return err
	})
	return fields, err
}

// takeOver applies a child that existed already, if it may belong to the owner.
func (d *desiredSet) takeOver(ctx context.Context, c *Child, body *Body) error {
	controller := controllerOf(body)
	set, _ := body.Label(applyset.PartOfLabel)
	own := true
	switch {
	case body.Deleting():
		return Temporary(errors.New("an object of its name is being deleted"), 5*time.Second)
	case controller.UID == d.owner.UID() && !c.member, controller.UID == "" && c.member && set == d.set, c.options.Keep && d.manages(body): // its watch stream will show it
	case controller.UID == "" && set == "" && c.options.Adopt:
		own = false
	default:
		return &ForeignError{Object: body.Reference(), Controller: controller, ApplySet: set}
	}
	if c.ref.UID, c.found = body.UID(), body; !c.options.Once {
		return d.send(ctx, c, "uid", body.UID())
	}
	digest, _ := body.Annotation(wantedAnnotation)
	if mine := c.made || c.options.Create == nil; own && mine && digest != c.config.Digest() {
		return Temporary(errors.New("it exists already, with the values of another call"), time.Second)
	}
	return nil
}

// losesOnce reports whether a child with Once is missing that this call has not created, so that the
// values of the call for that child are lost.
func (d *desiredSet) losesOnce() bool {
	for _, c := range d.wanted {
		if c.options.Once && (c.made || c.options.Create == nil) && d.isMissing(c) {
			d.log.Warn("Not storing the patch of a call, because a child with Once is missing", "kind", c.ref.Kind, "child", c.ref,
				"hint", "use the option Create for values that are known only once", "help", "K718")
			return true
		}
	}
	return false
}

// isMissing reports whether a child does not exist after a call, or will be gone soon.
func (d *desiredSet) isMissing(c *Child) bool {
	if c.known == nil {
		return c.found == nil || c.failed
	}
	d.reconciler.mu.Lock()
	defer d.reconciler.mu.Unlock()
	return c.known.going
}

// manages reports whether the field manager of the handler has applied an object.
func (d *desiredSet) manages(body *Body) bool {
	return d.appliedFields(body) != nil
}

// appliedFields returns the fields that the handler's field manager has applied.
func (d *desiredSet) appliedFields(body *Body) []byte {
	managed := body.of(body.managers)
	fields, _ := ownership.FieldsOf(managed, d.reconciling.manager)
	return fields
}

// controllerOf returns the controller of an object, empty if it has none.
func controllerOf(body *Body) ObjectReference {
	references := body.of(body.owners)
	ref := ownership.ControllerOf(references)
	if ref == nil {
		return ObjectReference{}
	}
	return ObjectReference{APIVersion: rawjson.StringAt(ref, "apiVersion"), Kind: rawjson.StringAt(ref, "kind"), Name: rawjson.StringAt(ref, "name"), Namespace: body.Namespace(), UID: rawjson.StringAt(ref, "uid")}
}

// send applies a child, with a precondition.
func (d *desiredSet) send(ctx context.Context, c *Child, field, value string) error {
	if c.member { // an unread response could leave a child that the cleanup has not seen
		if err := ctx.Err(); err != nil {
			return err
		}
		ctx = d.cycle.sender.ctx
	}
	c.before = d.appliedState(c)
	body, err := d.request(ctx, c, field, value)
	if err == nil && d.reconciler.settings.Process.Audit != nil {
		d.applied = append(d.applied, c.ref.Kind+" "+c.ref.String())
	}
	if checker := &d.reconciler.checker; err == nil && field == "uid" && c.config.HasEmptyMap() && checker.Lost(c.config, d.appliedFields(body), body.raw) {
		if err = d.reconciler.noteApplied(d, c, body); err != nil {
			return err
		}
		if body, err = d.request(ctx, c, field, value); err == nil {
			checker.NoteLost(c.config, d.appliedFields(body), body.raw)
		}
	}
	switch {
	case err == nil:
		d.log.Debug("Applied a child", "kind", c.ref.Kind, "child", body.Reference(), "version", body.version)
		return d.reconciler.noteApplied(d, c, body)
	case field == "uid" && (StatusCode(err) == http.StatusConflict || isCause(err, "metadata.uid")):
		return Temporary(fmt.Errorf("it is gone, or another one of its name is there: %w", err), time.Second)
	case field == "uid" && c.options.Recreate && isImmutable(err):
		return d.recreate(ctx, c)
	}
	return err
}

// request sends an apply. It first requires the newest version that kopf knows, and so learns whether another client has
// changed the child since. After a new list, no event would show that change.
func (d *desiredSet) request(ctx context.Context, c *Child, field, value string) (*Body, error) {
	version := d.reconciler.newestVersion(c.known)
	c.missed = false
	if version != 0 {
		body, err := d.requestWith(ctx, c, map[string]string{
			field: value, "resourceVersion": strconv.FormatUint(version, 10),
		})
		if c.missed = StatusCode(err) == http.StatusConflict && !isDenied(err); !c.missed {
			return body, err
		}
	}
	return d.requestWith(ctx, c, map[string]string{field: value})
}

// requestWith sends an apply with preconditions.
func (d *desiredSet) requestWith(
	ctx context.Context, c *Child, preconditions map[string]string,
) (*Body, error) {
	r := &request{
		method: http.MethodPatch, path: c.resource.path(c.ref.Namespace, c.ref.Name, ""),
		query:       url.Values{"fieldManager": {d.reconciling.manager}, "force": {"true"}},
		contentType: string(ApplyPatch), body: c.config.JSON(preconditions),
	}
	body, err := d.client.body(ctx, r)
	d.count(c.resource, metrics.Apply, err)
	return body, err
}

// newestVersion returns the newest version of a child that an event or an answer has shown; 0 for none.
func (rc *reconciler) newestVersion(k *child) uint64 {
	if k == nil {
		return 0
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return k.newest()
}

// isCause reports whether an API server refuses the value of a field.
func isCause(err error, field string) bool {
	var e *APIError
	return errtype.As(err, &e) && e.Code == http.StatusUnprocessableEntity && slices.ContainsFunc(e.Causes, func(c ErrorCause) bool { return c.Field == field })
}

func isImmutable(err error) bool {
	var e *APIError
	return errtype.As(err, &e) && e.Code == http.StatusUnprocessableEntity && slices.ContainsFunc(e.Causes, func(c ErrorCause) bool {
		return strings.Contains(c.Message, "immutable") || strings.Contains(c.Message, "may not change") || strings.Contains(c.Message, "updates to") && strings.Contains(c.Message, "forbidden")
	})
}

// recreate deletes a child whose change is refused. After the deletion, kopf calls the handler again, which creates the child.
func (d *desiredSet) recreate(ctx context.Context, c *Child) error {
	d.log.Info("Deleting a child to make it anew, because a field of it is immutable", "kind", c.ref.Kind, "child", c.ref)
	c.state.ready, c.state.reason = false, "Terminating"
	if c.known != nil {
		return d.delete(ctx, c.known, "Foreground")
	}
	if _, err := d.deleteObject(ctx, c.ref, "Foreground"); err != nil {
		return err
	}
	// Another client has created the child, or its watch stream has not shown it yet. No other event might call the handler.
	return Temporary(errors.New("it is being deleted, to be made anew"), 5*time.Second)
}

// delete deletes a child. It fails if the API server does not find a child that exists: when it has just started, it may
// not serve the kind yet.
func (d *desiredSet) delete(ctx context.Context, known *child, propagation string) error {
	rc := d.reconciler
	rc.mu.Lock()
	ref := known.ref()
	ref.UID = known.uid()
	rc.mu.Unlock()
	going, err := d.deleteObject(ctx, ref, propagation)
	if err == nil && !going {
		going, err = d.isGoing(ctx, ref)
	}
	if err == nil && going {
		rc.mu.Lock()
		known.going = true
		rc.mu.Unlock()
	}
	return err
}

// isGoing reports whether an object that a deletion has not found is being deleted. It fails if the object lives.
func (d *desiredSet) isGoing(ctx context.Context, ref ObjectReference) (bool, error) {
	r, unowned := d.resourceOf(ref.APIVersion, ref.Kind)
	if unowned != nil { // its kind is gone, too
		return false, nil
	}
	body, err := d.client.object(ctx, r, ref.Namespace, ref.Name)
	switch code := StatusCode(err); {
	case code == http.StatusNotFound || code == http.StatusForbidden:
		return false, nil // its event will follow
	case err != nil:
		return false, err
	case body.uid != ref.UID || body.deleting:
		return body.uid == ref.UID, nil
	}
	return false, Temporary(errors.New("the API server has not found it for its deletion, but it exists"), time.Second)
}

// count counts a write request for a child.
func (d *desiredSet) count(r Resource, verb metrics.Verb, err error) {
	for _, owned := range d.reconciling.owns {
		if owned.isVersionOf(r) { // the applied version may differ from the watched one
			d.reconciler.meter.Resource(owned.Name()).Wrote(verb, StatusCode(err), err == nil)
		}
	}
}

// deleteObject deletes the object with the UID, and reports whether the API server has found it. It also succeeds if the
// object is gone, or if another object has its name.
func (d *desiredSet) deleteObject(
	ctx context.Context, ref ObjectReference, propagation string,
) (found bool, err error) {
	err = d.client.Delete(ctx, ref, &DeleteOptions{Propagation: propagation, UID: ref.UID})
	if r, unowned := d.resourceOf(ref.APIVersion, ref.Kind); unowned == nil {
		d.count(r, metrics.Delete, err)
	}
	if err == nil && d.reconciler.settings.Process.Audit != nil {
		d.deleted = append(d.deleted, ref.Kind+" "+ref.String())
	}
	if code := StatusCode(err); (code == http.StatusNotFound || code == http.StatusConflict) && !isDenied(err) {
		return false, nil
	}
	return err == nil, err
}

// noteApplied records the result of an apply. It fails if the child is gone by now.
func (rc *reconciler) noteApplied(d *desiredSet, c *Child, body *Body) error {
	if err := rc.recordApplied(d, c, body); err != nil {
		return err
	}
	if rc.dropGone(body.Reference(), apirequest.VersionNumber(body.version)) != nil {
		c.known = nil
		return Temporary(errUndone, time.Second)
	}
	return nil
}

// recordApplied stores the child in the answer to an apply. It fails if an event has shown its end.
func (rc *reconciler) recordApplied(d *desiredSet, c *Child, body *Body) error {
	managed := body.of(body.managers)
	fields, apiVersion := ownership.FieldsOf(managed, d.reconciling.manager)
	verdict := rc.checker.Learn(c.config, fields, apiVersion)
	rc.mu.Lock()
	defer rc.mu.Unlock()
	c.ref.UID = body.uid
	k := c.known
	if k == nil {
		if k = rc.memberLocked(d.keyOf(c), objectName{c.ref.Namespace, c.ref.Name}, body.uid); k == nil && d.applying.left[body.uid] > apirequest.VersionNumber(body.version) {
			return Temporary(errUndone, time.Second)
		} else if k == nil {
			k = rc.addUnseenLocked(d.keyOf(c), rc.kindOfLocked(d.reconciling.handler, c.resource), body)
		}
		c.known, k.family.owner = k, d.owner.UID()
	}
	k.mine = uint16(maphash.String(rc.seed, c.config.Digest()))
	changed := c.before != d.appliedStateOf(body)
	own, came := apirequest.VersionNumber(body.version), d.applying
	early := came.early[earlyChild{k, own}] // the watch event came before the response
	unchanged := k.version == own && !early
	if verdict != ownership.Owned && unchanged {
		rc.checker.Accept(c.config, fields)
		verdict = ownership.Owned
	}
	if k.version <= own { // otherwise another client has changed it since
		rc.show(k, body, fields, apiVersion, verdict == ownership.Owned)
	}
	switch {
	case unchanged:
	case changed && !c.missed:
		came.own[own] = true
	case !early: // the version contains a change of another client, which the handler has not seen
		came.show(k, k.ref(), own)
	}
	if !unchanged && !early {
		k.details().own = own
	}
	c.state = childState{exists: true, ready: k.ready, reason: k.reason()}
	return nil
}

// appliedState is what a handler has applied to an object. It changes with each apply that changes
// the object, unless it repeats a former one.
type appliedState struct {
	digest uint64 // of the annotation with the digest of the applied configuration
	fields string // of the handler's field manager, with their version
}

// appliedState returns what the handler has applied to a child so far; the zero value for a new one.
func (d *desiredSet) appliedState(c *Child) (s appliedState) {
	rc := d.reconciler
	rc.mu.Lock()
	defer rc.mu.Unlock()
	switch {
	case c.found != nil:
		return d.appliedStateOf(c.found)
	case c.known != nil:
		if s.digest = c.known.digest; c.known.more != nil {
			s.fields = c.known.more.fields
		}
	}
	return s
}

func (d *desiredSet) appliedStateOf(b *Body) appliedState {
	digest, _ := b.Annotation(wantedAnnotation)
	managed := b.of(b.managers)
	fields, apiVersion := ownership.FieldsOf(managed, d.reconciling.manager)
	return appliedState{maphash.String(d.reconciler.seed, digest), apiVersion + "\n" + string(fields)}
}

// addUnseenLocked remembers a written child before its watch event.
func (rc *reconciler) addUnseenLocked(key string, kind uint16, body *Body) *child {
	k := &child{family: rc.familyLocked(key), kind: kind}
	ref := body.Reference()
	k.details().unseen = &ref
	k.family.addLocked(k)
	rc.unseen[body.uid] = k
	return k
}

// judge finds out whether a child is ready, with the function of the user if there is one.
func (d *desiredSet) judge(ctx context.Context, c *Child) error {
	if c.options.Ready == nil || c.known == nil {
		return nil
	}
	rc := d.reconciler
	rc.mu.Lock()
	custom, version, going := c.known.custom(), c.known.version, c.known.going
	rc.mu.Unlock()
	if going {
		return nil
	}
	if custom == nil || custom.version != version || custom.owner != d.owner.version {
		body, err := d.client.object(ctx, c.resource, c.ref.Namespace, c.ref.Name)
		if err != nil {
			return err
		}
		custom = &customReady{version: version, owner: d.owner.version}
		if err = rc.askReady(custom, c.options.Ready, body); err != nil {
			return err
		}
		rc.mu.Lock()
		c.known.details().custom = custom
		rc.mu.Unlock()
	}
	c.state.ready, c.state.reason = custom.ready, custom.reason
	return nil
}

// askReady calls the readiness function of the user, which may be slow.
func (rc *reconciler) askReady(custom *customReady, ask func(*Body) (ready bool, reason string), body *Body) error {
	defer rc.limiter.Yield()()
	return safecall.Do(func() error {
		custom.ready, custom.reason = ask(body)
		return nil
	})
}

// prune deletes former children.
func (d *desiredSet) prune(ctx context.Context) error {
	rc := d.reconciler
	var failures []error
	for _, k := range d.withoutNamespacesInUse(d.former()) {
		rc.setPruned(k, true)
		err, ref := d.delete(ctx, k, "Background"), rc.refOf(k)
		if err != nil {
			rc.setPruned(k, false)
			failures = append(failures, fmt.Errorf("delete %s %s: %w", ref.Kind, ref, err))
			continue
		}
		d.log.Info("Deleted a child that is not desired any more", "kind", ref.Kind, "child", ref)
	}
	d.logLeft()
	return errors.Join(failures...)
}

// logLeft logs once which children stay because no handler has ever declared them, such as those of
// a former operator. It leaves out those that the handler has listed in the call.
func (d *desiredSet) logLeft() {
	if d.state.left {
		return
	}
	left := d.undeclared(func(k *child) bool { return !k.applied && !d.listed[k] })
	if d.state.left = len(left) > 0; d.state.left {
		d.log.Info("Leaving children that no handler has declared", "children", len(left), "names", d.namesOf(left),
			"hint", "delete them, or declare them once: kopf deletes them when the handler stops declaring them", "help", "K719")
	}
}

// former returns the children that the handler has applied, and does not want any more.
func (d *desiredSet) former() []*child {
	return d.undeclared(func(k *child) bool { return k.applied })
}

// undeclared returns the children of the owned kinds that the handler has not declared, and for
// which a function returns true. It leaves out all of a declared name, because only one of them exists,
// and events may be late.
func (d *desiredSet) undeclared(fits func(*child) bool) (all []*child) {
	rc := d.reconciler
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for _, key := range []string{d.owner.UID(), d.set} {
		for k := range rc.families[key].all() {
			r := rc.kinds[k.kind].reactor.resource()
			declared := d.declared[childKey{r.Group, r.Plural, k.name()}] != nil
			if !k.going && d.ownsLocked(k) && !declared && fits(k) {
				all = append(all, k)
			}
		}
	}
	slices.SortFunc(all, func(a, b *child) int { // a large family is a map
		x, y := a.name(), b.name()
		return cmp.Or(cmp.Compare(a.kind, b.kind), strings.Compare(x.namespace, y.namespace), strings.Compare(x.name, y.name))
	})
	return all
}

// maxNamedChildren limits the children that a message names.
const maxNamedChildren = 10

// namesOf returns the names of the first children.
func (d *desiredSet) namesOf(children []*child) string {
	var names []string
	for _, k := range children[:min(len(children), maxNamedChildren)] {
		ref := d.reconciler.refOf(k)
		names = append(names, ref.Kind+" "+ref.String())
	}
	return strings.Join(names, ", ")
}

// warnOfFormer logs which children are kept because the handler has neither declared a child nor called NoChildren.
func (d *desiredSet) warnOfFormer() {
	if former := d.former(); len(former) > 0 {
		d.log.Warn("Keeping all children, because the handler has declared none", "children", len(former), "names", d.namesOf(former),
			"hint", "call NoChildren if there should be none, or return kopf.Unchanged", "help", "K716")
	}
}

// ownsLocked reports whether the handler owns the kind of a child. A set has the members of one owner, whose handlers may own different kinds.
func (d *desiredSet) ownsLocked(k *child) bool {
	if !applyset.IsID(k.family.key) {
		return d.reconciler.handlerOfLocked(k) == d.reconciling.handler
	}
	r := d.reconciler.kinds[k.kind].reactor.resource()
	return slices.ContainsFunc(d.reconciling.owns, r.isVersionOf)
}

// withoutNamespacesInUse returns the children without the namespaces of desired children, whose deletion would delete those, too.
func (d *desiredSet) withoutNamespacesInUse(children []*child) []*child {
	used := make(map[string]bool)
	for _, c := range d.wanted {
		used[c.ref.Namespace] = true
	}
	return slices.DeleteFunc(children, func(k *child) bool {
		ref := d.reconciler.refOf(k)
		inUse := ref.APIVersion == "v1" && ref.Kind == "Namespace" && used[ref.Name]
		if inUse {
			d.log.Warn("Leaving a namespace that is not desired any more, because desired objects are in it", "child", ref, "help", "K713")
		}
		return inUse
	})
}

// refOf returns the reference to a child, which its watch stream may set concurrently.
func (rc *reconciler) refOf(k *child) ObjectReference {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return k.ref()
}

// setPruned records whether kopf is deleting a child because the handler does not want it any more.
func (rc *reconciler) setPruned(k *child, pruned bool) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	k.details().pruned = pruned
}
