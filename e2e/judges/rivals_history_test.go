package judges

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kopf-go/kopf/e2e/judges/rivalry"
)

// This file checks the history. The order of the writes is that of the resource versions. A write took effect between its arrival at the server and its
// response. The checks assume the worst case of both.

// rivalHistory is the history of one Lease.
type rivalHistory struct {
	ours      map[string]bool // the processes, and whether they run kopf
	first     uint64          // the initial version of the Lease
	exchanges []exchange
	acts      []rivalry.Act
	freezes   []freeze
}

// The invariants.
const (
	ruleOverlap     = "ours does not work while another process holds the Lease"
	ruleReleased    = "a process of ours that gives the Lease up does not work any more"
	ruleEarly       = "a Lease is taken when it has not been renewed for its duration"
	ruleOrder       = "no write of ours is later than one of the next holder"
	ruleFence       = "a write of ours has the fence of its term"
	ruleTransitions = "each acquisition is one transition, and nothing else is"
	ruleRegister    = "the holders of the Lease are those of a register with compare-and-swap"
)

// verdict is the result of the checks.
type verdict struct {
	violations map[string][]string // by invariant
	permitted  map[string]int      // violations by the others, for which kopf is not responsible
	terms      map[string]int      // how often each place got the Lease
	works      int                 // the number of checked steps and writes of kopf
}

func (v *verdict) violate(rule, format string, args ...any) {
	v.violations[rule] = append(v.violations[rule], fmt.Sprintf(format, args...))
}

// wakeGrace is the time for the cancellation of a context in a process that was suspended, because its timers are late.
const wakeGrace = 250 * time.Millisecond

// clientGoPrecision is how much earlier client-go can take a Lease. It compares records with times in whole seconds, and so misses a second renewal within
// one second.
const clientGoPrecision = time.Second

// judge checks all invariants.
func (h *rivalHistory) judge() *verdict {
	v := &verdict{violations: map[string][]string{}, permitted: map[string]int{}, terms: map[string]int{}}
	leases := h.leaseWrites()
	for i, w := range leases {
		if w.Answer.Spec.HolderIdentity != "" && (i == 0 || leases[i-1].Answer.Spec.HolderIdentity != w.Answer.Spec.HolderIdentity) {
			place, _, _ := strings.Cut(w.Identity, ".")
			v.terms["terms of "+place]++
		}
	}
	h.checkTakeovers(v, leases)
	h.checkActs(v, leases)
	h.checkOrder(v, leases)
	h.checkRegister(v, leases)
	return v
}

// leaseWrites returns the successful writes of the Lease, in their order.
func (h *rivalHistory) leaseWrites() []exchange {
	var all []exchange
	for _, x := range h.exchanges {
		if x.Method != http.MethodGet && x.Code < http.StatusMultipleChoices && (x.Path == rivalry.LeasePath || x.Path == rivalry.LeasesPath) {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b exchange) int { return cmp.Compare(a.Answer.version(), b.Answer.version()) })
	return all
}

// checkTakeovers checks the times of takeovers, and their counter.
func (h *rivalHistory) checkTakeovers(v *verdict, leases []exchange) {
	for i, w := range leases {
		if i == 0 {
			continue
		}
		before := leases[i-1]
		was, is := &before.Answer.Spec, &w.Answer.Spec
		want := was.LeaseTransitions
		if is.HolderIdentity != "" && is.HolderIdentity != was.HolderIdentity {
			want++
		}
		if is.LeaseTransitions != want {
			v.violate(ruleTransitions, "%s makes %d of %d, want %d", w.Identity, is.LeaseTransitions, was.LeaseTransitions, want)
		}
		if was.HolderIdentity == "" || is.HolderIdentity == was.HolderIdentity || is.HolderIdentity == "" {
			continue
		}
		duration := time.Duration(was.LeaseDurationSeconds) * time.Second
		if after := w.Arrived.Sub(before.Arrived); after < duration {
			if h.ours[w.Identity] {
				v.violate(ruleEarly, "%s takes it %s after %s has renewed it, want %s", w.Identity, after, before.Identity, duration)
			} else if after >= duration-clientGoPrecision {
				v.permitted["taken early by client-go, which knows renewals by whole seconds"]++
			} else {
				v.permitted["taken early by another library"]++
			}
		}
	}
}

// checkActs checks each step and each write of a process: it must be possible that the process still held the Lease.
func (h *rivalHistory) checkActs(v *verdict, leases []exchange) {
	type act struct {
		rivalry.Act
		write bool
	}
	var acts []act
	for _, a := range h.acts {
		if a.Kind != rivalry.Ended {
			acts = append(acts, act{a, false})
		}
	}
	for _, x := range h.exchanges {
		if x.Method != http.MethodGet && x.Path != rivalry.LeasePath && x.Path != rivalry.LeasesPath {
			acts = append(acts, act{rivalry.Act{At: x.Sent, Identity: x.Identity, Kind: x.Method + " " + x.Path}, true})
		}
	}
	for _, a := range acts {
		state, write := standing(leases, a.Identity, a.At)
		ours := h.ours[a.Identity]
		if ours {
			v.works++
		}
		switch {
		case state == holds:
		case state == gaveUp && ours:
			v.violate(ruleReleased, "%s: %s at %s, %s after its release was sent", a.Identity, a.Kind, clock(a.At), a.At.Sub(write.Arrived))
		case a.Kind == rivalry.Unwinding: // it knows that it has lost the Lease, and ends
		case state == wiped:
			v.permitted["work while another process has emptied the Lease"]++
		case !ours:
			v.permitted["work of another library while it does not hold the Lease"]++
		case !a.write && a.Kind == rivalry.Step && h.justAwake(a.Identity, a.At):
			v.permitted["a step right after the process was stopped"]++
		case a.Kind == rivalry.Begun && h.justAwake(a.Identity, a.At):
			v.permitted["a call begun right after the process was stopped"]++
		default:
			v.violate(ruleOverlap, "%s: %s at %s, %s after the Lease was got by %q", a.Identity, a.Kind, clock(a.At), a.At.Sub(write.Answered), write.Answer.Spec.HolderIdentity)
		}
	}
}

// clock formats a time.
func clock(at time.Time) string { return at.Format("15:04:05.000000") }

// justAwake reports whether the process was suspended just before.
func (h *rivalHistory) justAwake(identity string, at time.Time) bool {
	return slices.ContainsFunc(h.freezes, func(f freeze) bool {
		return f.Identity == identity && at.After(f.From) && at.Before(f.To.Add(wakeGrace))
	})
}

// The relation of a process to the Lease at some time.
type leaseStanding int

const (
	holds  leaseStanding = iota // it may hold the Lease
	lost                        // it does not
	gaveUp                      // it has released it itself
	wiped                       // it held it, until another process emptied it
)

// standing returns the standing of a process, and the write that led to it. Writes with a response by then took effect for certain. Those that had arrived
// may have taken effect.
func standing(leases []exchange, identity string, at time.Time) (leaseStanding, *exchange) {
	state, by := lost, &exchange{}
	for i := range leases {
		w := &leases[i]
		holder := processOf(w.Answer.Spec.HolderIdentity)
		switch {
		case holder == identity && !w.Arrived.After(at):
			state, by = holds, w
		case holder == "" && w.Identity == identity && !w.Arrived.After(at) && state == holds:
			state, by = gaveUp, w
		case w.Answered.After(at) || holder == identity:
		case state == holds && holder == "":
			state, by = wiped, w
		case state == holds:
			state, by = lost, w
		}
	}
	return state, by
}

// checkOrder checks the results in the order in which they were stored.
func (h *rivalHistory) checkOrder(v *verdict, leases []exchange) {
	var writes []exchange
	for _, x := range h.exchanges {
		if x.Method == http.MethodPatch && x.Path == rivalry.ResultPath && x.Code == http.StatusOK {
			writes = append(writes, x)
		}
	}
	slices.SortFunc(writes, func(a, b exchange) int { return cmp.Compare(a.Answer.version(), b.Answer.version()) })
	var latest *exchange // the acquisition of the latest term with a write so far
	for _, w := range writes {
		got := acquisition(leases, w.Identity, w.Sent)
		if h.ours[w.Identity] {
			fence, _ := strconv.ParseUint(w.Query.Data["fence"], 10, 64) // 0 if there is none
			// A process that returns to a Lease of its own begins a term without an acquisition.
			term := slices.IndexFunc(leases, func(l exchange) bool {
				return l.Answer.version() == fence && l.Identity == w.Identity && !l.Arrived.After(w.Sent)
			})
			if got == nil || term < 0 || fence < got.Answer.version() {
				v.violate(ruleFence, "%s writes with the fence %d at %s", w.Identity, fence, clock(w.Sent))
			}
			late := got != nil && latest != nil && latest.Answer.version() > got.Answer.version() && w.Sent.After(latest.Answered)
			if state, _ := standing(leases, w.Identity, w.Sent); late && state != wiped { // kopf learns by its next renewal that another process has emptied the Lease
				v.violate(ruleOrder, "%s: a write that was sent %s after %s has got the Lease is stored after one of that", w.Identity, w.Sent.Sub(latest.Answered), latest.Identity)
			}
		}
		if got != nil && (latest == nil || latest.Answer.version() < got.Answer.version()) {
			latest = got
		}
	}
}

// acquisition returns the last acquisition by a process before some time.
func acquisition(leases []exchange, identity string, at time.Time) *exchange {
	var got *exchange
	for i := range leases {
		w := &leases[i]
		mine := processOf(w.Answer.Spec.HolderIdentity) == identity
		if mine && !w.Arrived.After(at) && (i == 0 || leases[i-1].Answer.Spec.HolderIdentity != w.Answer.Spec.HolderIdentity) {
			got = w
		}
	}
	return got
}

// registerCall is a call of the register that models the Lease: a read, a compare-and-swap, or the belief of a process that it holds the Lease.
type registerCall struct {
	kind            string // the method, or "" for a belief
	expected        uint64
	holder          string
	code            int
	version         uint64 // afterwards
	holderAfterward string
}

type registerState struct {
	version uint64
	holder  string
}

// register returns the model of the Lease.
func register(first uint64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return registerState{version: first} },
		Step: func(state, input, _ any) (bool, any) {
			s, c := state.(registerState), input.(registerCall)
			next := registerState{c.version, c.holderAfterward}
			switch {
			case c.kind == "":
				return processOf(s.holder) == c.holder, s
			case c.kind == http.MethodGet && c.code == http.StatusNotFound:
				return s.version == 0, s
			case c.kind == http.MethodGet:
				return s == next, s
			case c.code == http.StatusConflict:
				return s.version != c.expected, s
			}
			return s.version == c.expected, next
		},
		Equal: func(a, b any) bool { return a == b },
	}
}

// registerTimeout limits the search for an order.
const registerTimeout = 5 * time.Minute

// checkRegister checks that an order of all calls explains all results, and that kopf holds the Lease in it whenever it works. Steps between the same writes
// of the Lease count as one.
func (h *rivalHistory) checkRegister(v *verdict, leases []exchange) {
	var calls []porcupine.Operation
	for _, x := range h.exchanges {
		of := x.Path == rivalry.LeasePath || x.Path == rivalry.LeasesPath
		if !of || x.Code >= http.StatusMultipleChoices && x.Code != http.StatusConflict && x.Code != http.StatusNotFound {
			continue // refused without reading the Lease
		}
		calls = append(calls, porcupine.Operation{Call: x.Arrived.UnixNano(), Return: x.Answered.UnixNano(), Input: registerCall{
			kind: x.Method, expected: x.Query.version(), code: x.Code, version: x.Answer.version(), holderAfterward: x.Answer.Spec.HolderIdentity}})
	}
	type span struct {
		identity          string
		arrived, answered int
	}
	seen := map[span]bool{}
	for _, a := range h.acts {
		if !h.ours[a.Identity] || a.Kind != rivalry.Step || h.justAwake(a.Identity, a.At) {
			continue
		}
		s := span{identity: a.Identity}
		for _, w := range leases {
			if !w.Arrived.After(a.At) {
				s.arrived++
			}
			if !w.Answered.After(a.At) {
				s.answered++
			}
		}
		if state, _ := standing(leases, a.Identity, a.At); state == wiped || seen[s] {
			continue
		}
		seen[s] = true
		calls = append(calls, porcupine.Operation{Call: a.At.UnixNano(), Return: a.At.UnixNano(), Input: registerCall{holder: a.Identity}})
	}
	for i := range calls {
		calls[i].ClientId = i
	}
	if result := porcupine.CheckOperationsTimeout(register(h.first), calls, registerTimeout); result != porcupine.Ok {
		v.violate(ruleRegister, "%s, of %d calls", result, len(calls))
	}
}
