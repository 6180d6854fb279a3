package kopf

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file notices when the operator and somebody else change the same fields of an object in turns, or the operator does because of its own
// changes, and slows that down. It runs on the goroutine of the object's worker, and on that of the timer that stores what has finished.

const (
	firstPause = time.Second
	maxClaims  = 16
)

// conflictPause returns how long the handling of the object is put off, because it goes round in circles.
func (c *cycle) conflictPause() time.Duration {
	b := c.entry.conflict
	switch {
	case b.left() == 0:
		if c.entry.conflict = nil; b.pause > 0 {
			c.log.Info("The fields of the object are not changed again and again any more.")
		}
	case b != nil && !c.event.Body.deleting:
		return time.Until(b.last.Add(b.pause))
	}
	return 0
}

// patched tells whether the operator has changed more of the object lately than what it keeps there itself.
func (c *cycle) patched() bool {
	return c.entry.wrote && c.clock()-c.entry.expectedUntil < conflictWindow-c.settings.Persistence.ConsistencyTimeout
}

// detectConflict looks whether what was just changed had been changed back, or was changed because of our own change.
func (c *cycle) detectConflict(before *Body, parts []*part, sent *Patch) {
	s, settings := c.entry, &c.settings.Queueing
	s.wrote = s.wrote || len(parts) > 0 || s.handled // the first finalizer is nothing special
	b := s.conflict
	if b == nil {
		if !c.repeated || settings.FightRounds <= 0 {
			return
		}
		b = &writeConflict{last: time.Now()}
		s.conflict = b
	}
	if len(b.claims) > maxClaims || b.claims == nil {
		b.claims = make(map[string]uint64)
	}
	old, now := c.shown(before), c.shown(c.known())
	circles := digestJSON(old) == b.shown && (c.anew || slices.ContainsFunc(parts, func(p *part) bool { return !p.change }))
	b.shown = digestJSON(now)
	foreign := false
	var fought Diff
	for _, item := range diffJSON(old, now) {
		if !sent.covers(item.Path) { // it has come meanwhile
			b.shown = 0
			continue
		}
		again := false
		for name, value := range b.claims {
			path := strings.Split(name, "\x00")
			if n := min(len(path), len(item.Path)); !slices.Equal(path[:n], item.Path[:n]) {
				continue
			}
			was, _ := rawjson.Lookup(old, path...)
			theirs := digestJSON(was) != value
			again, foreign = again || theirs || circles, foreign || theirs
			delete(b.claims, name) // it may be of more or less than the item is
		}
		if again {
			fought = append(fought, item)
		}
		b.claims[strings.Join(item.Path, "\x00")] = digestJSON(item.New)
	}
	if len(fought) == 0 || c.counted { // handlers may change a field several times in one cycle
		return
	}
	c.counted, b.last = true, time.Now()
	if b.rounds++; b.rounds > settings.FightRounds {
		b.pause = min(max(2*b.pause, firstPause), settings.FightPause)
	}
	if b.rounds == settings.FightRounds+1 {
		c.report(before, fought, foreign)
	}
}

// covers tells whether the patch is about a field.
func (p *Patch) covers(path []string) bool {
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

// shown returns what of the object does not belong to the framework, and the finalizers.
func (c *cycle) shown(body *Body) map[string]any {
	fields := essenceOf(body, []FieldPath{"status"}, &c.settings.Persistence).Map()
	fields["metadata.finalizers"] = body.Get("metadata.finalizers")
	return fields
}

func digestJSON(v any) uint64 {
	data, _ := rawjson.Encode(v) // it was JSON
	return (&Essence{raw: data}).digest()
}

// report tells people which fields are changed without end, and by whom.
func (c *cycle) report(before *Body, fought Diff, foreign bool) {
	fields := ""
	for _, item := range fought {
		fields += " " + strings.Join(item.Path, ".")
	}
	reason, text := "ChangedByItself", "The operator changes these fields again and again because of its own changes:"
	if foreign {
		reason, text = "ChangedBack", "The operator and "+cmp.Or(strings.Join(writersOf(before, fought[0].Path), ", "), "somebody else")+" change these fields in turns:"
	}
	text += fields + ". The handling of the object is slowed down while that goes on."
	var values Diff // which are nothing for everybody
	if r := c.served.resource; r.Group != "" || r.Plural != "secrets" {
		values = fought
	}
	c.meter.Add(metrics.Fights, 1)
	c.log.Warn(text, "differences", values)
	c.events.post(levelWarning, before.Reference(), EventWarning, reason, text)
}

// folded joins the patches of the same handler of raw events that follow each other, so that those which wait do not pile up.
func folded(parts []*part) (all []*part) {
	for i, p := range parts {
		if i > 0 && p.id == parts[i-1].id && !p.change && !parts[i-1].change && len(p.patch.transforms)+len(parts[i-1].patch.transforms) == 0 {
			p.patch.merge = combineMerges(parts[i-1].patch.merge, p.patch.merge)
			p.succeeded, p.refusals = p.succeeded || parts[i-1].succeeded, max(p.refusals, parts[i-1].refusals)
			all = all[:len(all)-1]
		}
		all = append(all, p)
	}
	return all
}
