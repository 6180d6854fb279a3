package chaos

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
)

// This file selects the faults of requests.

// fault is a way in which a request fails.
type fault struct {
	name string
	// only selects requests; nil means all
	only func(r *http.Request) bool
	// code and the fields below are a response instead of the API server's.
	code       int
	reason     string
	retryAfter bool
	// meet makes the request fail in another way. The normal case is forward.
	meet func(p *proxy, w http.ResponseWriter, r *http.Request, random *rand.Rand)
}

func isWatch(r *http.Request) bool {
	return r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1"
}
func isWrite(r *http.Request) bool  { return r.Method != http.MethodGet }
func isList(r *http.Request) bool   { return r.Method == http.MethodGet && r.URL.Query().Has("limit") }
func isPatch(r *http.Request) bool  { return r.Method == http.MethodPatch }
func isSingle(r *http.Request) bool { return !isWatch(r) }

// faults are all faults, in the order of the report.
var faults = []*fault{
	{name: "delayed", meet: (*proxy).delay},
	{name: "dropped before", meet: (*proxy).dropBefore},
	{name: "dropped after", only: isSingle, meet: (*proxy).dropAfter},
	{name: "stalled", meet: (*proxy).stall},
	{name: "answer cut", only: isSingle, meet: (*proxy).cutAnswer},
	{name: "watch cut", only: isWatch, meet: (*proxy).cutWatch},
	{name: "watch stalled", only: isWatch, meet: (*proxy).stallWatch},
	{name: "watch expired", only: isWatch, meet: (*proxy).expireWatch},
	{name: "watch garbled", only: isWatch, meet: (*proxy).garbleWatch},
	{name: "401", code: http.StatusUnauthorized, reason: "Unauthorized"},
	{name: "409", only: isWrite, code: http.StatusConflict, reason: "Conflict"},
	{name: "410", only: func(r *http.Request) bool { return isList(r) || isWatch(r) }, code: http.StatusGone, reason: "Expired"},
	{name: "422", only: isPatch, code: http.StatusUnprocessableEntity, reason: "Invalid"},
	{name: "429", code: http.StatusTooManyRequests, reason: "TooManyRequests", retryAfter: true},
	{name: "500", code: http.StatusInternalServerError, reason: "InternalError"},
	{name: "503", code: http.StatusServiceUnavailable, reason: "ServiceUnavailable", retryAfter: true},
	{name: "HTML", meet: (*proxy).answerPage},
}

// Faults that do not concern single requests.
const (
	expiredCredentials = "credentials expired"
	failedPlugin       = "plugin failed"
	killedOperator     = "operator killed"
	stoppedOperator    = "operator stopped"
	restartedServer    = "API server restarted"
	killedServer       = "API server killed"
	killedStore        = "etcd killed"
	compacted          = "history compacted"
	skewedRecord       = "record skewed"
	skewedPeer         = "peer skewed"
	blackout           = "blackout"

	versionAdded      = "version added"
	versionRemoved    = "version no longer served"
	nothingServed     = "no version served"
	largeObject       = "large object written"
	removedRoom       = "namespace removed"
	removedPeering    = "peering removed first"
	removedUnseen     = "namespace removed unseen"
	lateCreation      = "creation answered late"
	creationRelogin   = "login refused amid a creation"
	rotatedAuthority  = "authority rotated"
	downExtension     = "extension unavailable"
	contestedDeletion = "deletion contested"

	updatedReplica = "replica replaced"
	killedLeader   = "leader killed"
	frozenLeader   = "leader frozen"
	cutReplica     = "replica cut off"
	heldReplica    = "requests of a replica held back"
)

// family is a set of faults that can be selected.
type family struct {
	name   string
	faults []string
}

// families are all families, in the order of the report. Each fault happens at least once in a run, except those of the first family.
var families = []family{
	{basic, []string{expiredCredentials, failedPlugin, killedOperator, stoppedOperator, restartedServer, killedServer, killedStore,
		compacted, skewedRecord, skewedPeer, blackout}},
	{"definitions", []string{versionAdded, versionRemoved, nothingServed}},
	{"refusals", refusalNames()},
	{"large", []string{largeObject}},
	{"storages", []string{journal.StoragePanic, journal.PredicatePanic, journal.TransformPanic}},
	{"namespaces", []string{removedRoom, removedPeering, removedUnseen}},
	{"creations", []string{lateCreation, creationRelogin}},
	{"authorities", []string{rotatedAuthority}},
	{"extensions", []string{downExtension}},
	{"contests", []string{contestedDeletion}},
	{"children", gardenFaults},
	{replicated, []string{updatedReplica, killedLeader, frozenLeader, cutReplica, heldReplica}},
}

const (
	// basic is the family of the general faults.
	basic = "basic"
	// replicated is the family of the faults that require several replicas.
	replicated = "replicas"
)

// Families returns the names of all families.
func Families() []string {
	var names []string
	for _, f := range families {
		names = append(names, f.name)
	}
	return names
}

// FaultNames returns the names of all faults, in the order of the report.
func FaultNames() []string {
	var names []string
	for _, f := range faults {
		names = append(names, f.name)
	}
	for _, f := range families {
		names = append(names, f.faults...)
	}
	return names
}

// missing returns the selected faults that did not happen: the bench proves nothing about them.
func (o *Options) missing(happened map[string]int) []string {
	var names []string
	for _, f := range families {
		if f.name == basic || !slices.Contains(o.Families, f.name) {
			continue
		}
		for _, name := range f.faults {
			if happened[name] == 0 && (name != creationRelogin || slices.Contains(o.Families, basic)) {
				names = append(names, name)
			}
		}
	}
	return names
}

// tally counts events by name. It is safe for concurrent use.
type tally struct {
	mu     sync.Mutex // guards counts
	counts map[string]int
}

func newTally() *tally { return &tally{counts: map[string]int{}} }

func (t *tally) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[name]++
}

func (t *tally) of(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[name]
}

// choices selects the faults of requests by the seed alone: the n-th request to one address has the same fault in each run.
type choices struct {
	seed uint64
	mu   sync.Mutex // guards seen
	seen map[string]uint64
}

// choose returns the fault of a request, nil for none, and a source of random numbers for its details.
func (c *choices) choose(r *http.Request, rate float64) (*fault, *rand.Rand) {
	key := fmt.Sprint(r.Method, r.URL.Path, isWatch(r))
	c.mu.Lock()
	n := c.seen[key]
	c.seen[key]++
	c.mu.Unlock()
	h := fnv.New64a()
	fmt.Fprint(h, key, n)
	random := rand.New(rand.NewPCG(c.seed, h.Sum64()))
	own := false // whether to choose a fault that only watches have
	if isWatch(r) {
		rate *= 4 // there are few watches
		own = random.IntN(2) == 0
	}
	if random.Float64() >= rate {
		return nil, random
	}
	var fitting []*fault
	for _, f := range faults {
		if f.only == nil && !own || f.only != nil && f.only(r) {
			fitting = append(fitting, f)
		}
	}
	return fitting[random.IntN(len(fitting))], random
}

// statusOf returns a Status in the format of the API server.
func statusOf(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`,
		"the fault bench says "+strings.ToLower(reason), reason, code)
}

// between returns a random duration.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}
