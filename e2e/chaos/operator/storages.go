package main

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/chaos/journal"
)

// This file has storages, predicates and transformations that sometimes panic.

// mine is user code that may panic, on any goroutine of the framework.
type mine struct {
	book *journal.Writer
	seed string
	calm func() bool

	mu    sync.Mutex // guards count
	count int64
}

// The rates of panics.
const (
	storagePanics   = 100 // one in so many
	predicatePanics = 40
	transformPanics = 15
)

// may panics at random, depending only on the seed and the number of the call.
func (m *mine) may(what string, one uint32) {
	if m.calm() {
		return
	}
	m.mu.Lock()
	m.count++
	n := m.count
	m.mu.Unlock()
	h := fnv.New32a()
	fmt.Fprint(h, m.seed, what, n)
	if h.Sum32()%one == 0 {
		m.book.Write(journal.Entry{Event: journal.Panicked, Note: what})
		panic(errChance)
	}
}

// calmFile reports whether the bench has ended all faults. It reads the file at most ten times a second.
func calmFile(dir string) func() bool {
	var mu sync.Mutex
	var looked time.Time
	calm := false
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		if !calm && time.Since(looked) > 100*time.Millisecond {
			_, err := os.Stat(filepath.Join(dir, "calm"))
			calm, looked = err == nil, time.Now()
		}
		return calm
	}
}

// progress is a storage of progress that panics.
type progress struct {
	kopf.ProgressStorage
	mine *mine
}

func (p *progress) Fetch(id kopf.HandlerID, body *kopf.Body) (*kopf.ProgressRecord, error) {
	p.mine.may(journal.StoragePanic, storagePanics)
	return p.ProgressStorage.Fetch(id, body)
}

func (p *progress) Store(id kopf.HandlerID, record *kopf.ProgressRecord, body *kopf.Body, patch *kopf.Patch) {
	p.mine.may(journal.StoragePanic, storagePanics)
	p.ProgressStorage.Store(id, record, body, patch)
}

func (p *progress) Purge(id kopf.HandlerID, body *kopf.Body, patch *kopf.Patch) {
	p.mine.may(journal.StoragePanic, storagePanics)
	p.ProgressStorage.Purge(id, body, patch)
}

func (p *progress) Clear(essence *kopf.Essence) {
	p.mine.may(journal.StoragePanic, storagePanics)
	p.ProgressStorage.Clear(essence)
}

// states is a storage of last-handled states that panics.
type states struct {
	kopf.DiffBaseStorage
	mine *mine
}

func (s *states) Build(body *kopf.Body, fields []kopf.FieldPath) *kopf.Essence {
	s.mine.may(journal.StoragePanic, storagePanics)
	return s.DiffBaseStorage.Build(body, fields)
}

func (s *states) Fetch(body *kopf.Body) (*kopf.Essence, error) {
	s.mine.may(journal.StoragePanic, storagePanics)
	return s.DiffBaseStorage.Fetch(body)
}

func (s *states) Store(essence *kopf.Essence, body *kopf.Body, patch *kopf.Patch) {
	s.mine.may(journal.StoragePanic, storagePanics)
	s.DiffBaseStorage.Store(essence, body, patch)
}

// store sets the panicking storages in some processes. Others keep those of the framework, whose code paths are shorter.
func (o *operator) store(s *kopf.PersistenceSettings) {
	if !o.has("storages") || o.run%2 != 1 {
		return
	}
	s.ProgressStorage = &progress{s.ProgressStorage, o.mine}
	s.DiffBaseStorage = &states{s.DiffBaseStorage, o.mine}
}
