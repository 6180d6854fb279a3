package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/pauser"
)

// board is a server with one peering object. It reports each change to its follower at once.
type board struct {
	mu       sync.Mutex
	gone     bool
	version  int
	records  map[string]any
	writes   []string // identities of each write; a minus marks a removal
	ending   bool     // the namespace is being deleted
	err      error    // for the next writes
	follower *Keeper
}

// errCode is the status code of a rejected request.
type errCode int

func (e errCode) Error() string { return fmt.Sprint("HTTP ", int(e)) }

func (b *board) state() State {
	status, _ := json.Marshal(b.records) // cannot fail for strings and numbers
	return State{Version: fmt.Sprint(b.version), Status: status}
}

// Write implements [Server].
func (b *board) Write(_ context.Context, version string, records map[string]any) (State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, record := range records {
		if record == nil {
			id = "-" + id
		}
		b.writes = append(b.writes, id)
	}
	switch {
	case b.err != nil:
		return State{}, b.err
	case b.gone:
		return State{}, errCode(http.StatusNotFound)
	case version != "" && version != fmt.Sprint(b.version):
		return State{}, errCode(http.StatusConflict)
	}
	maps.Copy(b.records, records)
	maps.DeleteFunc(b.records, func(_ string, record any) bool { return record == nil })
	b.version++
	return b.state(), nil
}

// NamespaceEnding implements [Server].
func (b *board) NamespaceEnding(context.Context) (bool, error) { return b.ending, nil }

// Failure implements [Server].
func (b *board) Failure(err error) Failure {
	var code errCode
	errors.As(err, &code)
	return Failure{Code: int(code)}
}

// Follow implements [Server].
func (b *board) Follow(ctx context.Context, k *Keeper) {
	b.mu.Lock()
	b.follower = k
	state, gone := b.state(), b.gone
	b.mu.Unlock()
	k.BeginListing()
	if !gone {
		k.See(state)
	}
	k.EndListing()
	<-ctx.Done()
}

// put writes the record of another operator.
func (b *board) put(id string, priority, lifetime int) {
	b.mu.Lock()
	b.records[id] = map[string]any{"priority": priority, "lifetime": lifetime, "lastseen": time.Now().UTC().Format(time.RFC3339)}
	b.version++
	state := b.state()
	b.mu.Unlock()
	b.follower.See(state)
}

func (b *board) written() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.writes = nil }()
	return b.writes
}

// membership is a running keeper for the operator "me" with priority 5.
type membership struct {
	*Keeper
	t      *testing.T
	pauser *pauser.Pauser
	meter  *metrics.Metrics
	log    *bytes.Buffer
	done   sync.WaitGroup
}

func join(t *testing.T, server Server, adjust func(*Options)) *membership {
	m := &membership{t: t, pauser: &pauser.Pauser{}, meter: metrics.New(metrics.State{}, nil), log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(m.log, nil))
	o := &Options{Server: server, Name: "the peering", Pauser: m.pauser, Meter: m.meter, Session: Session{
		Identity: "me", Priority: 5, Lifetime: time.Minute, Name: "default", Logger: log, Log: log,
	}}
	o.Leave = func(session context.Context) (context.Context, context.CancelFunc) {
		return context.WithCancel(context.WithoutCancel(session))
	}
	if adjust != nil {
		adjust(o)
	}
	m.Keeper = NewKeeper(t.Context(), o)
	m.done.Go(m.Run)
	synctest.Wait()
	return m
}

// leave stops the session and waits until it has ended.
func (m *membership) leave() {
	m.Stop()
	m.done.Wait()
}

func (m *membership) wantPaused(want bool) {
	m.t.Helper()
	synctest.Wait()
	if got := m.pauser.Paused(); got != want {
		m.t.Errorf("paused %t, want %t: %s", got, want, m.log)
	}
}

// elector is an election.
type elector struct{ atomic.Bool }

func (e *elector) Holds() bool { return e.Load() }

func TestKeeper(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"the record is renewed, and removed at the end": func(t *testing.T) { // in a bubble
			b := &board{records: map[string]any{}}
			m := join(t, b, nil)
			if m.Observed().Err() == nil {
				t.Error("the object was listed, and counts as not observed")
			}
			time.Sleep(3 * time.Minute)
			if got := b.written(); len(got) < 3 || slices.ContainsFunc(got, func(id string) bool { return id != "me" }) {
				t.Errorf("got the writes %v in three lifetimes, want one for each at least", got)
			}
			m.leave()
			if got := b.written(); !slices.Equal(got, []string{"-me"}) || len(b.records) > 0 {
				t.Errorf("got the writes %v at the end, want the removal", got)
			}
		},
		"a rival has it pause until that is dead": func(t *testing.T) { // in a bubble
			b := &board{records: map[string]any{}}
			m := join(t, b, nil)
			b.put("weak", 1, 60)
			m.wantPaused(false)
			b.put("strong", 10, 60)
			m.wantPaused(true)
			if got := m.meter.Load(metrics.Peers); got != 2 {
				t.Errorf("%d others count, want 2", got)
			}
			time.Sleep(2 * time.Minute)
			m.wantPaused(false)
			if got := b.written(); !slices.Contains(got, "-strong") || !slices.Contains(got, "-weak") {
				t.Errorf("got the writes %v, want the removal of what is dead", got)
			}
			m.leave()
			if got := m.meter.Load(metrics.Peers); got != 0 {
				t.Errorf("%d others count at the end", got)
			}
		},
		"a record that cannot be renewed has it pause, and goes on later": func(t *testing.T) { // in a bubble
			b := &board{records: map[string]any{}}
			m := join(t, b, nil)
			b.mu.Lock()
			b.err = errCode(http.StatusInternalServerError)
			b.mu.Unlock()
			time.Sleep(2 * time.Minute)
			m.wantPaused(true)
			b.mu.Lock()
			b.err = nil
			b.mu.Unlock()
			time.Sleep(time.Minute)
			m.wantPaused(false)
			m.leave()
		},
		"a replica that stands by writes nothing, and renews at the beginning of its term": func(t *testing.T) { // in a bubble
			b, e := &board{records: map[string]any{}}, &elector{}
			m := join(t, b, func(o *Options) { o.Elector = e })
			time.Sleep(time.Hour + time.Second) // not when a write is due, which another one would follow
			if got := b.written(); len(got) > 0 {
				t.Errorf("got the writes %v while standing by", got)
			}
			e.Store(true)
			<-m.Renew()
			if got := b.written(); !slices.Equal(got, []string{"me"}) {
				t.Errorf("got the writes %v at the beginning of the term", got)
			}
			m.leave()
			if got := b.written(); len(got) > 0 {
				t.Errorf("got the writes %v at the end, want none: the record is that of all replicas", got)
			}
			if m.Renew() != nil {
				t.Error("there is something to renew after the end")
			}
		},
		"a mandatory object is waited for, unless its namespace ends": func(t *testing.T) {
			b := &board{gone: true}
			m := join(t, b, func(o *Options) { o.Session.Mandatory, o.Session.Namespace = true, "ns" })
			m.wantPaused(true)
			b.ending = true
			m.Recheck()
			m.wantPaused(false)
			m.leave()
		},
		"without a resource, it is paused until the end": func(t *testing.T) {
			m := join(t, nil, nil)
			m.wantPaused(true)
			if m.Observed().Err() == nil {
				t.Error("what cannot be observed is waited for")
			}
			m.leave()
			m.wantPaused(false)
		},
		"an object that must not be watched is done without": func(t *testing.T) {
			b := &board{records: map[string]any{}, gone: true}
			m := join(t, silent{b}, nil)
			b.follower.FailWatching(errCode(http.StatusInternalServerError))
			if m.Observed().Err() != nil {
				t.Error("a failure that may pass counts as a refusal")
			}
			b.follower.FailWatching(errCode(http.StatusForbidden))
			if m.Observed().Err() == nil {
				t.Error("the stream is waited for, though it is refused")
			}
			m.wantPaused(false)
			m.leave()
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// silent is a board whose stream delivers nothing.
type silent struct{ *board }

func (s silent) Follow(ctx context.Context, k *Keeper) {
	s.follower = k
	<-ctx.Done()
}
