package chaos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
	coordination "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
)

// This file checks several replicas: by the store, by their requests through the proxy, and by their journal.

// decodeLease decodes a Lease as the API server stores it: in protobuf, in an envelope.
func decodeLease(data []byte) (*Object, error) {
	rest, ok := bytes.CutPrefix(data, []byte("k8s\x00"))
	if !ok {
		return nil, errors.New("it is not stored in protobuf")
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(rest); err != nil {
		return nil, err
	}
	var stored coordination.Lease
	if err := stored.Unmarshal(envelope.Raw); err != nil {
		return nil, err
	}
	o := &Object{Spec: map[string]any{}}
	o.Metadata.Name, o.Metadata.Namespace, o.Metadata.UID = stored.Name, stored.Namespace, string(stored.UID)
	if stored.Spec.HolderIdentity != nil {
		o.Spec["holder"] = *stored.Spec.HolderIdentity
	}
	if stored.Spec.RenewTime != nil {
		o.Spec["renewed"] = stored.Spec.RenewTime.UTC().Format(leaseTime)
	}
	return o, nil
}

// leaseTime is the format of times in Leases.
const leaseTime = "2006-01-02T15:04:05.000000Z"

func (o *Object) holder() string { holder, _ := o.Spec["holder"].(string); return holder }

func (o *Object) renewed() string { renewed, _ := o.Spec["renewed"].(string); return renewed }

// leaseEvidence adds the evidence about the election.
func (b *bench) leaseEvidence(e *Evidence) {
	e.Replicas = b.opts.Replicas
	if b.leases == nil {
		return
	}
	for _, versions := range b.leases.versions(leaseName) { // the history treats each Lease of the namespace as a resource
		e.Leases = append(e.Leases, versions...)
	}
	slices.SortFunc(e.Leases, func(a, b *Version) int { return cmp.Compare(a.Revision, b.Revision) })
	b.replicas.mu.Lock()
	e.Frozen = slices.Clone(b.replicas.frozen)
	b.replicas.mu.Unlock()
	l := &b.proxy.links
	l.mu.Lock()
	e.Sent, e.Asked = slices.Clone(l.sent), slices.Clone(l.asked)
	l.mu.Unlock()
}

// term is a process's tenure of the Lease, from its start on.
type term struct {
	run      int
	holder   string
	revision int64
	at       time.Time // the time of the response or of the watch event, whichever came first: it was stored by then
}

// terms returns those of all processes, in the order of the store.
func (e *Evidence) terms() []term {
	answered := map[int64]time.Time{}
	for _, q := range e.Asked {
		if revision, err := strconv.ParseInt(q.Got.Version, 10, 64); err == nil && q.Code < 300 && q.Method != http.MethodGet {
			answered[revision] = q.Answered
		}
	}
	var all []term
	before := ""
	for _, v := range e.Leases {
		now := v.Object.holder()
		if v.Gone {
			now = ""
		}
		if now != before && now != "" {
			t := term{run: runOf(now), holder: now, revision: v.Revision, at: v.Seen}
			if earlier, ok := answered[v.Revision]; ok && earlier.Before(t.at) {
				t.at = earlier
			}
			all = append(all, t)
		}
		before = now
	}
	return all
}

// superseded marks calls that ended after another process had got the Lease. Their results are not stored, and the other process calls the handlers again.
func (e *Evidence) superseded() *Evidence {
	if e.Replicas < 2 {
		return e
	}
	terms := e.terms()
	changed := *e
	changed.Journal = slices.Clone(e.Journal)
	for i, entry := range changed.Journal {
		if entry.Ended() && slices.ContainsFunc(terms, func(t term) bool {
			return t.revision > int64(entry.Fence) && t.run != entry.Run && t.at.Before(entry.Time)
		}) {
			changed.Journal[i].Event = journal.Superseded
		}
	}
	return &changed
}

// replicas checks how the replicas took over from each other.
func (c *court) replicas() {
	terms := c.terms()
	c.callsOfReplicas()
	for uid, entries := range c.changes {
		c.handledAgain(uid, entries, c.Versions[uid])
	}
	c.fences(terms)
	c.writesOfReplicas(terms)
	c.register()
}

// thaw is the time in which a frozen process must notice that its calls are over.
const thaw = time.Second

// stay is a time in which a process worked on an object.
type stay struct {
	life
	handler string
}

// callsOfReplicas finds concurrent calls for one object by several processes.
func (c *court) callsOfReplicas() {
	ended := map[int]time.Time{}
	for _, p := range c.Processes {
		ended[p.run] = p.to
	}
	for uid, handlers := range c.calls {
		var stays []stay
		name := ""
		for handler, entries := range handlers {
			name = entries[0].Name
			for i, e := range entries {
				if e.Event != journal.Begun || e.Deaf {
					continue
				}
				to := ended[e.Run]
				for _, later := range entries[i+1:] {
					if later.Run == e.Run && later.Call == e.Call && later.Ended() {
						to = later.Time
						break
					}
				}
				for _, s := range c.awake(life{e.Run, span{e.Time, to}}) {
					stays = append(stays, stay{s, handler})
				}
			}
		}
		slices.SortFunc(stays, func(a, b stay) int { return a.from.Compare(b.from) })
		for i, s := range stays {
			for _, other := range stays[i+1:] {
				if !other.from.Before(s.to) {
					break
				}
				if other.run != s.run {
					c.complain(oneReplica, uid, name, "process %d calls %s at %s, while process %d calls %s from %s to %s", other.run, other.handler,
						other.from.Format(clock), s.run, s.handler, s.from.Format(clock), s.to.Format(clock))
					break
				}
			}
		}
	}
}

// handledAgain finds calls for a state that another process had already stored as handled. It ignores processes that had not yet seen that, unless they
// could have read the object.
func (c *court) handledAgain(uid string, entries []journal.Entry, versions []*Version) {
	calledBy := map[int64]int{} // the last called process by value
	for _, e := range entries {
		before := calledBy[e.Value]
		calledBy[e.Value] = e.Run
		if e.Event != journal.Begun || e.Reason != "create" && e.Reason != "update" || before == 0 || before == e.Run || wasLarge(versions) {
			continue
		}
		v := versionAt(versions, e.Time)
		if v == nil {
			continue
		}
		var handled struct{ Spec map[string]any }
		text := v.Object.Metadata.Annotations[prefix+"last-handled-configuration"]
		if json.Unmarshal([]byte(text), &handled) != nil {
			continue
		}
		if value, _ := handled.Spec["value"].(float64); int64(value) == e.Value {
			c.complain(goesOnThere, uid, e.Name, "process %d calls %s for the %s at %s, with the version %s, though process %d has handled the value %d, as version %d tells, of %s",
				e.Run, e.Handler, e.Reason, e.Time.Format(clock), e.Version, before, e.Value, v.Revision, v.Seen.Format(clock))
		}
	}
}

// awake returns the parts of a time in which a process was not frozen. After that, it may take a while to notice.
func (c *court) awake(whole life) []life {
	parts := []life{whole}
	for _, f := range c.Frozen {
		var left []life
		for _, p := range parts {
			if f.run != p.run || !f.from.Before(p.to) || !p.from.Before(f.to) {
				left = append(left, p)
				continue
			}
			if p.from.Before(f.from) {
				left = append(left, life{p.run, span{p.from, f.from}})
			}
			if again := f.to.Add(thaw); again.Before(p.to) {
				left = append(left, life{p.run, span{again, p.to}})
			}
		}
		parts = left
	}
	return parts
}

// fences checks the fences that handlers got. Each must be a version of the Lease that the process has written, and not older than its first one.
func (c *court) fences(terms []term) {
	written := map[uint64]int{}
	for _, v := range c.Leases {
		if !v.Gone {
			written[uint64(v.Revision)] = runOf(v.Object.holder())
		}
	}
	told := map[[2]uint64]bool{}
	for _, e := range c.Journal {
		key := [2]uint64{uint64(e.Run), e.Fence}
		if e.Handler == "" || told[key] {
			continue
		}
		told[key] = true
		if written[e.Fence] != e.Run {
			c.complain(fencesGrow, e.UID, e.Name, "process %d is called with the fence %d, which is of process %d", e.Run, e.Fence, written[e.Fence])
		}
	}
	if c.Census.Fence != 0 && len(terms) > 0 && c.Census.Fence < uint64(terms[len(terms)-1].revision) {
		c.complain(fencesGrow, "", "", "the last fence is %d, that of the Lease %d", c.Census.Fence, terms[len(terms)-1].revision)
	}
	for _, s := range c.Standbys {
		if s.Fence != 0 {
			c.complain(fencesGrow, "", "", "a second process leads with the fence %d", s.Fence)
		}
	}
}

// writesOfReplicas finds requests that a process sent after another one had got the Lease. A request that was about to be sent when the process was frozen
// arrives when it continues.
func (c *court) writesOfReplicas(terms []term) {
	for _, s := range c.Sent {
		var holder *term
		for i := range terms {
			if terms[i].at.Before(s.At) {
				holder = &terms[i]
			}
		}
		frozen := slices.ContainsFunc(c.Frozen, func(f life) bool {
			return f.run == s.Run && !s.At.Before(f.from) && s.At.Before(f.to.Add(thaw/10))
		})
		if holder == nil {
			c.complain(fenced, "", "", "process %d sends %s %s at %s, before any holds the Lease", s.Run, s.Method, s.Path, s.At.Format(clock))
		} else if holder.run != s.Run && !frozen {
			c.complain(fenced, "", s.Path, "process %d sends %s at %s and makes the version %d (%d); process %d holds the Lease since version %d, at %s", s.Run, s.Method,
				s.At.Format(clock), s.Version, s.Code, holder.run, holder.revision, holder.at.Format(clock))
		}
	}
}

// registerModel models a Lease as a register with compare-and-swap. A deleted one has no version.
var registerModel = porcupine.Model{
	Init: func() any { return leaseState{} },
	Step: func(state, input, output any) (bool, any) {
		now, q := state.(leaseState), input.(leaseRequest)
		switch {
		case q.Code == http.StatusNotFound:
			return now.Version == "" && q.Method != http.MethodPost, now
		case q.Code == http.StatusConflict && q.Method == http.MethodPost:
			return now.Version != "", now
		case q.Code == http.StatusConflict:
			return now.Version != q.Expected, now
		case q.Method == http.MethodGet:
			return now == q.Got, now
		case q.Method == http.MethodPost:
			return now.Version == "", q.Got
		}
		return now.Version == q.Expected && q.Holder == q.Got.Holder, q.Got
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// register checks that one register can explain all responses about the Lease. A request without a response took effect if the store contains it.
func (c *court) register() {
	stored := map[leaseState]string{} // the versions by renewal time and holder
	for _, v := range c.Leases {
		if !v.Gone {
			stored[leaseState{v.Object.renewed(), v.Object.holder()}] = strconv.FormatInt(v.Revision, 10)
		}
	}
	began := time.Now()
	if len(c.Asked) > 0 {
		began = c.Asked[0].At.Add(-time.Hour)
	}
	var operations []porcupine.Operation
	for _, q := range c.Asked {
		returned := q.Answered
		switch {
		case q.Code == http.StatusOK, q.Code == http.StatusCreated, q.Code == http.StatusConflict, q.Code == http.StatusNotFound:
		case q.Method == http.MethodGet:
			continue
		default:
			version := stored[leaseState{q.RenewTime, q.Holder}]
			if version == "" {
				continue
			}
			q.Code, q.Got, returned = http.StatusOK, leaseState{version, q.Holder}, began.Add(24*time.Hour)
		}
		operations = append(operations, porcupine.Operation{ClientId: q.Run, Input: q, Call: q.At.Sub(began).Nanoseconds(), Return: returned.Sub(began).Nanoseconds()})
	}
	if result := porcupine.CheckOperationsTimeout(registerModel, operations, time.Minute); result != porcupine.Ok {
		c.complain(linearizable, "", leaseName, "the %d requests for the Lease are not linearizable: %s", len(operations), result)
	}
}
