package kopf

import (
	"context"
	"net/http"
	"net/url"
	"os"
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
	var comparison rights.Comparison
	builtin, err := builtinResources(t.Context(), nil)
	if err != nil {
		t.Errorf("the kinds of Kubernetes cannot be read: %v", err)
	}
	for _, r := range all {
		for _, message := range r.compare(builtin, &comparison) {
			t.Errorf("%s", message)
		}
	}
	if len(all) == 0 {
		t.Errorf("no requests were recorded: run operators by NewRunner before, with a Connection such as that of APIServer.ConnectionInfo")
	}
	if rights.SomeLeftOut(os.Args) {
		return
	}
	for _, message := range comparison.Unneeded() {
		t.Errorf("%s", message)
	}
}

// compare compares what one operator has done with its rights, and returns what is wrong.
func (r *recording) compare(builtin []discovery.Resource, comparison *rights.Comparison) (messages []string) {
	op := r.operator
	found, _, err := discovery.Read(context.Background(), r.requests, nil)
	if err != nil {
		messages = append(messages, "the recorded discovery cannot be read: "+err.Error())
	}
	needed := op.Registry.rights(op.Settings, discovery.Added(builtin, found), len(op.Namespaces) > 0).Needed()
	for _, problem := range needed.Problems {
		messages = append(messages, problem.Error())
	}
	set := &rights.Set{Rights: needed.Rights}
	if !namespaces.IsPattern(strings.Join(op.Namespaces, "")) { // which need their rights in all namespaces
		set.Namespaces = op.Namespaces
	}
	return append(messages, comparison.Add(set, r.requests.Requests())...)
}
