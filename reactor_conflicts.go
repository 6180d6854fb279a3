package kopf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file notices when the operator and another client change the same fields of an object alternately, or the operator does because of its own
// changes, and slows that down. It runs on the goroutine of the object's worker, and on that of the timer that stores what has finished.

const (
	minConflictBackoff = time.Second
	maxTrackedFields   = 16
)

// cycleConflict is what a cycle knows of write conflicts.
type cycleConflict struct {
	first   bool // whether no handling was under way
	recent  bool // whether our last patch was not long ago
	counted bool // whether the cycle has changed again what it had changed before
}

// conflictBackoff returns how long the handling of the object is put off because of a write conflict.
func (c *cycle) conflictBackoff() time.Duration {
	w := c.entry.state.conflict
	switch {
	case w.remaining() == 0:
		if c.entry.state.conflict = nil; w.backoff > 0 {
			c.log.Info("The fields of the object are not changed again and again any more.")
		}
	case w != nil && !c.event.Body.deleting:
		return time.Until(w.last.Add(w.backoff))
	}
	return 0
}

// wasPatchedRecently reports whether the operator has changed more of the object lately than what it keeps there itself.
func (c *cycle) wasPatchedRecently() bool {
	return c.entry.last.changedByUs && c.reactor.clock()-c.entry.last.expectedUntil < conflictWindow-c.reactor.settings.Persistence.ConsistencyTimeout
}

// detectConflict checks whether what was just changed had been changed back, or was changed because of our own change.
func (c *cycle) detectConflict(before *Body, patches []*handlerPatch, sent *Patch) {
	e, settings := c.entry, &c.reactor.settings.Queueing
	e.last.changedByUs = e.last.changedByUs || len(patches) > 0 || e.last.handled // the first finalizer is nothing special
	w := e.state.conflict
	if w == nil {
		if !c.conflict.recent || settings.FightRounds <= 0 {
			return
		}
		w = &writeConflict{last: time.Now()}
		e.state.conflict = w
	}
	if len(w.written) > maxTrackedFields || w.written == nil {
		w.written = make(map[string]uint64)
	}
	old, now := c.conflictFields(before), c.conflictFields(c.knownBody())
	flapping := digestJSON(old) == w.writtenDigest && (c.conflict.first || slices.ContainsFunc(patches, func(p *handlerPatch) bool { return !p.change }))
	w.writtenDigest = digestJSON(now)
	foreign := false
	var conflicting Diff
	for _, item := range diffJSON(old, now) {
		if !sent.touches(item.Path) { // it has come meanwhile
			w.writtenDigest = 0
			continue
		}
		again := false
		for name, value := range w.written {
			path := strings.Split(name, "\x00")
			if n := min(len(path), len(item.Path)); !slices.Equal(path[:n], item.Path[:n]) {
				continue
			}
			was, _ := rawjson.Lookup(old, path...)
			theirs := digestJSON(was) != value
			again, foreign = again || theirs || flapping, foreign || theirs
			delete(w.written, name) // it may be of more or less than the item is
		}
		if again {
			conflicting = append(conflicting, item)
		}
		w.written[strings.Join(item.Path, "\x00")] = digestJSON(item.New)
	}
	if len(conflicting) == 0 || c.conflict.counted { // handlers may change a field several times in one cycle
		return
	}
	c.conflict.counted, w.last = true, time.Now()
	if w.rounds++; w.rounds > settings.FightRounds {
		w.backoff = min(max(2*w.backoff, minConflictBackoff), settings.FightPause)
	}
	if w.rounds == settings.FightRounds+1 {
		c.reportConflict(before, conflicting, foreign)
	}
}

// touches reports whether the patch is about a field.
func (p *Patch) touches(path []string) bool {
	fields := p.merge
	for _, key := range path {
		v, ok := fields[key]
		if !ok {
			return len(p.transforms) > 0 || p.finalizes() && path[0] == "metadata.finalizers" // transformations are sent for a version
		}
		if fields, ok = v.(map[string]any); !ok {
			break
		}
	}
	return true
}

// conflictFields returns what of the object does not belong to the framework, and the finalizers.
func (c *cycle) conflictFields(body *Body) map[string]any {
	fields := essenceOf(body, []FieldPath{"status"}, &c.reactor.settings.Persistence).Map()
	fields["metadata.finalizers"] = body.Get("metadata.finalizers")
	return fields
}

func digestJSON(v any) uint64 {
	data, _ := rawjson.Encode(v) // it was JSON
	return (&Essence{raw: data}).digest()
}

// reportConflict warns of fields that are changed again and again, and names the writers.
func (c *cycle) reportConflict(before *Body, conflicting Diff, foreign bool) {
	fields := ""
	for _, item := range conflicting {
		fields += " " + strings.Join(item.Path, ".")
	}
	reason, text := "ChangedByItself", "The operator changes these fields again and again because of its own changes:"
	if foreign {
		reason, text = "ChangedBack", "The operator and "+cmp.Or(strings.Join(writersOf(before, conflicting[0].Path), ", "), "somebody else")+" change these fields in turns:"
	}
	text += fields + ". The handling of the object is slowed down while that goes on."
	var values Diff // which are confidential
	if r := c.served.resource; r.Group != "" || r.Plural != "secrets" {
		values = conflicting
	}
	c.reactor.meter.Add(metrics.WriteConflicts, 1)
	c.log.Warn(text, "differences", values)
	c.reactor.events.post(levelWarning, before.Reference(), EventWarning, reason, text)
}

// coalesce joins the patches of the same handler of raw events that follow each other, so that those which wait do not pile up.
func coalesce(patches []*handlerPatch) (all []*handlerPatch) {
	for i, p := range patches {
		if i > 0 && p.id == patches[i-1].id && !p.change && !patches[i-1].change && len(p.patch.transforms)+len(patches[i-1].patch.transforms) == 0 {
			p.patch.merge = jsonpatch.CombineMerges(patches[i-1].patch.merge, p.patch.merge)
			p.succeeded, p.refusals = p.succeeded || patches[i-1].succeeded, max(p.refusals, patches[i-1].refusals)
			all = all[:len(all)-1]
		}
		all = append(all, p)
	}
	return all
}

// throttle logs an error that is not of a handler, and pauses the object. Nothing is lost: the newest
// state is handled again after the pause (CH-T3, CH-T4).
func (c *cycle) throttle(err error) result {
	e := c.entry
	if c.reactor.requests.Err() != nil {
		return result{}
	}
	delays := c.reactor.settings.Queueing.ErrorDelays
	if conflict := (*conflictError)(nil); errors.As(err, &conflict) {
		return c.retryConflict(err)
	}
	if len(delays) == 0 {
		c.log.Error("The processing of the object has failed and will be repeated with its next event.", "error", err)
		return result{}
	}
	delay := delays[min(e.state.retry.errors, len(delays)-1)]
	e.state.retry.errors++
	e.state.retry.pausedUntil = time.Now().Add(delay)
	c.log.Error(fmt.Sprintf("The processing of the object has failed and will be repeated in %s.", delay), "error", err)
	return result{requeue: true, requeueAfter: delay, body: c.knownBody()}
}

// manyConflicts is how many conflicts in a row lead to a warning.
const manyConflicts = 5

// retryConflict has the object handled again with its newest state: at once after the first conflict, and after growing pauses, which
// no event ends, after more in a row.
func (c *cycle) retryConflict(err error) result {
	e := c.entry
	delay := time.Duration(0)
	if e.state.retry.conflicts > 0 {
		delay = backoffDelay(e.state.retry.conflicts - 1)
		e.state.retry.pausedUntil = time.Now().Add(delay)
	}
	if e.state.retry.conflicts++; e.state.retry.conflicts == manyConflicts {
		c.log.Warn(fmt.Sprintf("Another client changed the object before it could be patched, %d times in a row; it is patched less and less often.", e.state.retry.conflicts), "error", err)
	} else {
		c.log.Debug("Another client changed the object meanwhile; its newest state is awaited.", "error", err)
	}
	return result{requeue: true, requeueAfter: delay, body: c.knownBody()}
}

// backoffDelay is how long to wait before something is tried again that has failed so often before.
func backoffDelay(failures int) time.Duration {
	return min(time.Second<<min(failures, 5), 30*time.Second)
}

// writeConflict is what the operator has changed of an object again and again lately. An object that it has changed once has none.
type writeConflict struct {
	written       map[string]uint64 // the fields, as their keys with a NUL between them, and the digests of the values that they were given
	rounds        int               // in a row: changes of what was changed back since, or of what was changed only because of the change before
	last          time.Time         // when the last one was
	backoff       time.Duration     // between two of them; zero while they are few
	writtenDigest uint64            // the digest of the object as our last patch alone has left it, 0 if others have changed it as well
}

// conflictWindow is how long after one another two changes have something to do with each other.
const conflictWindow = 10 * time.Second

// remaining returns after what time without another change the conflict counts as over; -1 if there is no write conflict.
func (w *writeConflict) remaining() time.Duration {
	if w == nil {
		return -1
	}
	return max(time.Until(w.last.Add(2*w.backoff+conflictWindow)), 0)
}
