package kopf

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/rights"
)

// This file compares what operators do in tests with the rights that their manifests have.

// recordings are what the operators of all Runners have done since the last call of CheckRights.
var recordings struct {
	mu  sync.Mutex // guards following
	all []*recording
}

// recording is what one operator has done.
type recording struct {
	requests *rights.Recorder
	operator *Operator
}

// record has the requests of an operator recorded, unless it makes its connections by itself.
func (o *Operator) record() {
	if o.Connection == nil || o.Connection.HTTPClient == nil {
		return
	}
	info, client := *o.Connection, *o.Connection.HTTPClient
	recorder := &rights.Recorder{Base: client.Transport}
	if recorder.Base == nil {
		recorder.Base = http.DefaultTransport
	}
	if server, err := url.Parse(info.Server); err == nil {
		recorder.Prefix = strings.TrimRight(server.Path, "/")
	}
	client.Transport, info.HTTPClient = recorder, &client
	if o.Settings == nil {
		o.Settings = NewSettings()
	}
	if o.Registry == nil {
		o.Registry = DefaultRegistry()
	}
	o.Connection = &info
	recordings.mu.Lock()
	defer recordings.mu.Unlock()
	recordings.all = append(recordings.all, &recording{recorder, o})
}

// CheckRights holds the requests of all operators that a [Runner] has run in this process, since the last call, against the rights that the command "manifests" prints for their handlers and settings: the test fails for
// each request that these do not allow, with the line to add, and for each right of a handler, or verb of [Needs], that no operator has needed. The latter is not looked at where -run or -skip may leave tests out. The
// requests of operators whose Connection has no HTTPClient are not known: those of [APIServer.ConnectionInfo] and of [Client.HTTPClient] have one. Call it in a test that runs after all others.
func CheckRights(t TB) {
	t.Helper()
	recordings.mu.Lock()
	all := recordings.all
	recordings.all = nil
	recordings.mu.Unlock()
	check := &rightsCheck{needed: make(map[string]bool), reasons: make(map[string][]string)}
	var err error
	if check.builtin, err = builtinResources(t.Context(), nil); err != nil {
		t.Errorf("the kinds of Kubernetes cannot be read: %v", err)
	}
	for _, r := range all {
		check.compare(t, r)
	}
	if len(all) == 0 {
		t.Errorf("no requests were recorded: run operators by NewRunner before, with a Connection such as that of APIServer.ConnectionInfo")
	}
	if rights.SomeLeftOut(os.Args) {
		return
	}
	for _, what := range slices.Sorted(maps.Keys(check.needed)) {
		if !check.needed[what] {
			t.Errorf("no test has needed the right to %s, for %s", what, strings.Join(check.reasons[what], ", "))
		}
	}
}

// rightsCheck is one call of [CheckRights].
type rightsCheck struct {
	builtin []Resource
	needed  map[string]bool     // whether a right was needed, by what it says
	reasons map[string][]string // of these rights
}

// compare compares what one operator has done with its rights.
func (c *rightsCheck) compare(t TB, r *recording) {
	t.Helper()
	op := r.operator
	collector := &rightsCollector{registry: op.Registry, settings: op.Settings, narrow: len(op.Namespaces) > 0, found: slices.Clone(c.builtin)}
	found, _, err := discovery.Read(context.Background(), r.requests, nil)
	if err != nil {
		t.Errorf("the recorded discovery cannot be read: %v", err)
	}
	for _, f := range found {
		known := func(r Resource) bool { return r.Name() == Resource(f).Name() }
		if !slices.ContainsFunc(c.builtin, known) {
			collector.found = append(collector.found, Resource(f))
		}
	}
	collector.collect()
	for _, problem := range collector.problems {
		t.Errorf("%v", problem)
	}
	set := &rights.Set{Rights: collector.all}
	if !namespaces.IsPattern(strings.Join(op.Namespaces, "")) { // which need their rights in all namespaces
		set.Namespaces = op.Namespaces
	}
	requests := r.requests.Requests()
	for _, message := range set.Refused(requests) {
		t.Errorf("%s", message)
	}
	for _, right := range collector.all {
		if !right.Certain {
			continue
		}
		for _, part := range right.Parts() {
			what := strings.TrimSpace(strings.Join(part.Verbs, ", ") + " " + part.Qualified() + " " + part.Name)
			if !slices.Contains(c.reasons[what], part.Reason) {
				c.reasons[what] = append(c.reasons[what], part.Reason)
			}
			c.needed[what] = c.needed[what] || set.Needed(&part, requests)
		}
	}
}
