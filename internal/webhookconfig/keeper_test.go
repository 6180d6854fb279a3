package webhookconfig

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// requests is a stored configuration. It records the requests of a keeper, and returns the next status
// codes: 0 for a success.
type requests struct {
	codes  []int
	made   []string // verbs, with the number of webhooks
	last   []byte   // the last body
	stored map[string]any
	before func() // called before each patch that is no read
}

func newRequests(codes ...int) *requests {
	return &requests{codes: codes, stored: map[string]any{"metadata": map[string]any{"resourceVersion": "5"}}}
}

func (r *requests) answer(verb string, body []byte) ([]byte, int, error) {
	r.made = append(r.made, strings.TrimSpace(verb+" "+strings.Repeat("i", bytes.Count(body, []byte(`"sideEffects"`)))))
	r.last = body
	code := 0
	if len(r.codes) > 0 {
		code, r.codes = r.codes[0], r.codes[1:]
	}
	switch code {
	case 0:
		return r.store(body)
	case noResponse:
		return nil, 0, errRefused
	}
	return nil, code, errRefused
}

// store merges a body into the stored configuration.
func (r *requests) store(body []byte) ([]byte, int, error) {
	patch := rawjson.DecodeOrNil(body).(map[string]any)
	metadata, _ := r.stored["metadata"].(map[string]any)
	given, _ := patch["metadata"].(map[string]any)
	if version := given["resourceVersion"]; version != nil && version != metadata["resourceVersion"] {
		return nil, http.StatusConflict, errRefused
	}
	if len(patch) > 0 {
		version, _ := strconv.Atoi(metadata["resourceVersion"].(string))
		r.stored = rawjson.Merge(r.stored, patch).(map[string]any)
		r.stored["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(version + 1)
	}
	data, err := rawjson.Encode(r.stored)
	return data, 0, err
}

var errRefused = errors.New("refused")

func (r *requests) Patch(_ context.Context, patch []byte) ([]byte, int, error) {
	if string(patch) == "{}" {
		return r.answer("read", patch)
	}
	if before := r.before; before != nil {
		r.before = nil
		before()
	}
	return r.answer("patch", patch)
}

func (r *requests) Create(_ context.Context, configuration []byte) ([]byte, int, error) {
	if !bytes.HasPrefix(configuration, []byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"auto.kopf.dev","annotations":{"kopf.dev/webhooks":"`)) {
		return nil, 0, errors.New("it is no configuration")
	}
	return r.answer("create", configuration)
}

// wantRequests compares the new requests, each with a letter for each webhook, and the log messages.
func (k *testKeeper) wantRequests(made string, lines ...string) {
	k.t.Helper()
	if got := strings.Join(k.requests.made, ", "); got != made {
		k.t.Errorf("got the requests %q, want %q", got, made)
	}
	var got []string
	for line := range strings.Lines(k.log.String()) {
		got = append(got, strings.TrimSpace(line))
	}
	if !slices.EqualFunc(got, lines, strings.Contains) {
		k.t.Errorf("got the lines %q, want %q", got, lines)
	}
	k.requests.made = nil
	k.log.Reset()
}

// testKeeper is a keeper with its requests and its log.
type testKeeper struct {
	*Keeper
	t        *testing.T
	requests *requests
	log      *bytes.Buffer
}

func newTestKeeper(t *testing.T, codes ...int) *testKeeper {
	k := &testKeeper{t: t, requests: newRequests(codes...), log: &bytes.Buffer{}}
	k.Keeper = &Keeper{Kind: Mutating, Name: "auto.kopf.dev", Requests: k.requests, Log: slog.New(slog.NewTextHandler(k.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	return k
}

const reconfiguring = "Reconfiguring the mutating webhook auto.kopf.dev."

func TestKeeper(t *testing.T) {
	hooks := []Hook{things}
	t.Run("what has changed is written", func(t *testing.T) {
		k := newTestKeeper(t)
		for range 2 {
			if err := k.Write(t.Context(), hooks, plainClient); err != nil {
				t.Error(err)
			}
		}
		k.wantRequests("read, patch i", reconfiguring)
		if err := k.Write(t.Context(), hooks, Client{URL: "https://other"}); err != nil {
			t.Error(err)
		}
		k.wantRequests("read, patch i", reconfiguring)
	})
	t.Run("another replica may have changed it", func(t *testing.T) {
		k := newTestKeeper(t)
		_ = k.Write(t.Context(), hooks, plainClient)
		k.Forget()
		_ = k.Write(t.Context(), hooks, plainClient)
		k.wantRequests("read, patch i, read, patch i", reconfiguring, reconfiguring)
	})
	t.Run("it is made if it is not there", func(t *testing.T) {
		k := newTestKeeper(t, 404)
		if err := k.Write(t.Context(), hooks, plainClient); err != nil {
			t.Error(err)
		}
		k.wantRequests("read, create i, patch i", reconfiguring)
	})
	t.Run("another replica makes it first", func(t *testing.T) {
		k := newTestKeeper(t, 404, 409)
		if err := k.Write(t.Context(), hooks, plainClient); err != nil {
			t.Error(err)
		}
		k.wantRequests("read, create i, read, patch i", reconfiguring)
	})
	for verb, codes := range map[string][]int{"patch": {0, 403}, "create": {404, 403}} {
		t.Run("no permission to "+verb, func(t *testing.T) {
			k := newTestKeeper(t, codes...)
			err := k.Write(t.Context(), hooks, plainClient)
			if !errors.Is(err, errRefused) || !strings.HasPrefix(err.Error(), `write the MutatingWebhookConfiguration "auto.kopf.dev": `) {
				t.Errorf("got %v", err)
			}
			k.wantRequests("read, "+verb+" i", reconfiguring, "Not enough RBAC permissions to "+verb+" a MutatingWebhookConfiguration.")
			_ = k.Write(t.Context(), hooks, plainClient) // rejected webhooks were not written
			k.wantRequests("read, patch i", reconfiguring)
		})
	}
}

// sees notes a stored configuration as in an event, and reports whether a write is due.
func (k *testKeeper) sees(stored map[string]any) bool {
	k.Note(mustEncode(stored), false)
	return k.IsDue()
}

// sharing returns another keeper of the same configuration.
func (k *testKeeper) sharing() *testKeeper {
	other := newTestKeeper(k.t)
	other.requests.stored = nil
	other.Requests, other.requests = k.requests, k.requests
	return other
}

// TestOrder lets keepers write the same configuration. Without a watch, too, the webhooks of the one
// that started last stay.
func TestOrder(t *testing.T) {
	older := newTestKeeper(t)
	newer := older.sharing()
	other := things
	other.ID = "other"
	write := func(k *testKeeper, hook Hook, url string) {
		t.Helper()
		if err := k.Write(t.Context(), []Hook{hook}, Client{URL: url}); err != nil {
			t.Error(err)
		}
	}
	want := func(id, url string) {
		t.Helper()
		data, _ := rawjson.Encode(older.requests.stored["webhooks"])
		if !strings.Contains(string(data), `"`+url+"/") || !strings.Contains(string(data), `"`+id+".auto") {
			t.Errorf("the webhooks are %s, want %s at %s", data, id, url)
		}
	}
	write(older, things, "https://older")
	older.requests.before = func() { write(newer, other, "https://newer") } // in the middle of a write
	write(older, things, "https://older2")
	want("other", "https://newer")
	if !older.seen.state().overtaken() || newer.seen.state().overtaken() {
		t.Error("the older one is to be overtaken, the newer one not")
	}
	write(older, things, "https://older3")
	want("other", "https://newer")
	write(newer, other, "https://newer2")
	want("other", "https://newer2")

	older.NoteMissing(0) // deleted by hand
	older.requests.stored = map[string]any{"metadata": map[string]any{"resourceVersion": "90"}}
	write(older, things, "https://older3")
	want("fn", "https://older3")
	if !newer.sees(older.requests.stored) {
		t.Error("a write of the older one is no reason to write")
	}
	write(newer, other, "https://newer2")
	want("other", "https://newer2")

	newer.Release(t.Context()) // it stops
	if !older.sees(older.requests.stored) {
		t.Error("a configuration without an owner is no reason to write")
	}
	write(older, things, "https://older3")
	want("fn", "https://older3")

	newer.Release(t.Context()) // it is not the last writer any more
	older.Forget()
	write(newer, other, "https://newer3")
	write(older, things, "https://older3") // it leads now
	want("fn", "https://older3")
	if newer.sees(older.requests.stored) || !newer.seen.state().overtaken() {
		t.Error("a former leader writes")
	}
}

func mustEncode(v any) []byte {
	data, err := rawjson.Encode(v)
	if err != nil {
		panic(err)
	}
	return data
}

// TestMarks parses marks, also such of the first versions.
func TestMarks(t *testing.T) {
	for text, want := range map[string]mark{
		"":                         {},
		"0a1b":                     {hash: "0a1b"},
		"0a1b 12 Service ns/name":  {hash: "0a1b", since: 12, by: "Service ns/name"},
		"?0a1b 12 Service ns/name": {hash: "0a1b", since: 12, by: "Service ns/name", asked: true},
		"0a1b x y":                 {hash: "0a1b x y"},
		"0a1b 12 ":                 {hash: "0a1b", since: 12},
		"0a1b -1 https://host:1/a": {hash: "0a1b -1 https://host:1/a"},
	} {
		if got := parseMark(text); got != want {
			t.Errorf("%q: got %#v, want %#v", text, got, want)
		}
		for _, asked := range []bool{false, true} {
			if m := (mark{"0a1b", 1 << 63, "https://host:1/a b", asked}); parseMark(m.String()) != m {
				t.Errorf("%#v is not read back", m)
			}
		}
	}
}

// state returns a stored configuration with a mark and webhooks.
func state(version, mark, webhooks string) []byte {
	return []byte(`{"metadata":{"resourceVersion":"` + version + `","annotations":{"kopf.dev/webhooks":"` + mark + `"}},"webhooks":[` + webhooks + `]}`)
}

func TestSighting(t *testing.T) {
	events := func(all ...[]byte) (edited []bool) {
		var s sighting
		s.answer(parseConfiguration(state("10", "m", `{"name":"a"}`)), 1)
		for _, data := range all {
			if data == nil {
				s.noteMissing(0)
			} else {
				s.note(parseConfiguration(data), false)
			}
			edited = append(edited, s.state().edited)
		}
		return edited
	}
	unmarked := []byte(`{"metadata":{"resourceVersion":"11"},"webhooks":[{"name":"a"}]}`)
	for name, tt := range map[string]struct{ got, want []bool }{
		"the own write":                 {events(state("10", "m", `{"name":"a"}`)), []bool{false}},
		"other metadata":                {events(state("11", "m", `{ "name" : "a" }`)), []bool{false}},
		"an edit, and its undoing":      {events(state("11", "m", `{"name":"b"}`), state("12", "m", `{"name":"a"}`)), []bool{true, false}},
		"no webhooks":                   {events(state("11", "m", "")), []bool{true}},
		"no list of webhooks":           {events([]byte(`{"metadata":{"resourceVersion":"11","annotations":{"kopf.dev/webhooks":"m"}}}`)), []bool{true}},
		"a deletion":                    {events(nil), []bool{true}},
		"another one of the name":       {events(unmarked), []bool{true}},
		"an event before the own write": {events(state("9", "m", `{"name":"b"}`)), []bool{false}},
		"another replica":               {events(state("11", "n", `{"name":"b"}`)), []bool{false}},
		"an edit after another replica": {events(state("11", "n", `{"name":"b"}`), state("12", "n", `{"name":"c"}`)), []bool{false, true}},
		"another replica after an edit": {events(state("11", "m", `{"name":"b"}`), state("12", "n", `{"name":"b"}`)), []bool{true, false}},
	} {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, tt.got, tt.want)
		}
	}
	var s sighting
	s.noteMissing(0)
	for range 2 {
		if s.note(parseConfiguration(unmarked), true); s.state().edited || s.state().changed() {
			t.Error("a state before the first write counts as edited")
		}
	}
	s.answer(parseConfiguration(state("10", "m", `{"name":"a"}`)), 1)
	if s.note(parseConfiguration(state("5", "m", "")), true); !s.state().edited {
		t.Error("a list with an older version, as after a restore, is ignored")
	}
}

// TestDeletionBeforeAnswer shows the deletion of a configuration before the answer to its last write.
func TestDeletionBeforeAnswer(t *testing.T) {
	for version, want := range map[uint64]bool{10: false, 12: true} {
		var s sighting
		s.answer(parseConfiguration(state("9", "m", `{"name":"a"}`)), 1)
		s.noteMissing(version)
		s.answer(parseConfiguration(state("11", "m", `{"name":"a"}`)), 1)
		if got := s.state().edited; got != want {
			t.Errorf("a deletion at the version %d before an answer at 11 counts as an edit: %t", version, got)
		}
	}
}

// TestAsk lets replicas ask a later one.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		older := newTestKeeper(t)
		newer := older.sharing()
		other := things
		other.ID = "other"
		ask := func() {
			t.Helper()
			older.Note(mustEncode(older.requests.stored), false)
			if err := older.Ask(t.Context()); err != nil {
				t.Error(err)
			}
			newer.Note(mustEncode(older.requests.stored), false)
		}
		_ = older.Write(t.Context(), []Hook{things}, plainClient)
		_ = newer.Write(t.Context(), []Hook{things}, plainClient)
		older.requests.made = nil
		if ask(); older.requests.made != nil {
			t.Errorf("got the requests %q about the same webhooks", older.requests.made)
		}
		_ = newer.Write(t.Context(), []Hook{other}, plainClient)
		if ask(); !newer.IsAsked() {
			t.Fatal("the replica is not asked")
		}
		_ = newer.Write(t.Context(), []Hook{other}, plainClient)
		newer.requests.made = nil
		if ask(); older.IsDue() || newer.IsAsked() || newer.requests.made != nil {
			t.Errorf("the answer is not heard; then, the requests are %q", newer.requests.made)
		}
		time.Sleep(askInterval)
		if ask(); older.IsDue() || !newer.IsAsked() {
			t.Error("the replica is not asked again")
		}
		if ask(); !older.IsDue() || !newer.IsDue() {
			t.Error("the configuration is not left to all replicas")
		}
		older.requests.stored["metadata"].(map[string]any)["resourceVersion"] = "2" // as after a restore
		if older.Note(mustEncode(older.requests.stored), true); !older.IsDue() {
			t.Error("a mark of a later history counts")
		}
		_ = older.Write(t.Context(), []Hook{things}, plainClient)
		if older.Note(mustEncode(older.requests.stored), true); older.IsDue() {
			t.Error("the replica has no place in the earlier history")
		}
	})
}

func TestRestoring(t *testing.T) {
	k := newTestKeeper(t)
	_ = k.Write(t.Context(), []Hook{things}, plainClient)
	k.wantRequests("read, patch i", reconfiguring)
	if k.NoteMissing(0); !k.IsDue() {
		t.Error("a deletion counts as no edit")
	}
	for range 2 {
		_ = k.Write(t.Context(), []Hook{things}, plainClient)
	}
	k.wantRequests("read, patch i", "Another client has changed the webhook configuration; restoring it")
	k.Note(state("1", "n", ""), true)
	k.CleanUp(t.Context(), []Hook{things}, plainClient)
	k.wantRequests("", leaving)
}

const leaving = "Leaving the webhook configuration to the replica that started last"

func TestClear(t *testing.T) {
	for _, tt := range []struct {
		code     int // of the first attempt
		requests string
		lines    []string
		failed   bool
	}{
		{0, "read, patch", nil, false},
		{404, "read", nil, false},
		{403, "read, read, patch", []string{"Emptying a webhook configuration without handlers is not permitted"}, false},
		{503, "read, read, patch", nil, true},
		{noResponse, "read, read, patch", nil, true},
	} {
		k := newTestKeeper(t, tt.code)
		if err := k.Clear(t.Context(), plainClient); (err != nil) != tt.failed {
			t.Errorf("%d: got the error %v", tt.code, err)
		}
		for range 2 {
			if err := k.Clear(t.Context(), plainClient); err != nil {
				t.Errorf("%d: %v", tt.code, err)
			}
		}
		k.wantRequests(tt.requests, tt.lines...)
		k.Forget()
		_ = k.Clear(t.Context(), plainClient)
		k.wantRequests("read, patch")
	}
}

// TestClearMarks lets a keeper see how one of a newer version empties its configuration.
func TestClearMarks(t *testing.T) {
	older := newTestKeeper(t)
	newer := older.sharing()
	_ = older.Write(t.Context(), []Hook{things}, plainClient)
	_ = newer.Clear(t.Context(), plainClient)
	if older.sees(older.requests.stored) {
		t.Error("the emptying counts as an edit of another client")
	}
}

func TestCleanUp(t *testing.T) {
	persistent := things
	persistent.ID, persistent.Persistent = "stays", true
	hooks := []Hook{things, persistent}
	const cleaning, failed = "Cleaning up the mutating webhook auto.kopf.dev.", "Cleaning up the webhook configuration failed"
	for code, lines := range map[int][]string{0: {cleaning}, 404: {cleaning}, 500: {cleaning, failed}} {
		k := newTestKeeper(t, 0, 0, 0, code)
		k.CleanUp(t.Context(), hooks, plainClient)
		k.wantRequests("") // nothing was written
		_ = k.Write(t.Context(), hooks, plainClient)
		k.wantRequests("read, patch ii", reconfiguring)
		k.CleanUp(t.Context(), hooks, plainClient)
		k.wantRequests("read, patch i", lines...)
	}
	for _, code := range []int{403, 429, 500, noResponse} {
		k := newTestKeeper(t, 0, code)
		_ = k.Write(t.Context(), hooks, plainClient)
		k.requests.made = nil
		k.log.Reset()
		k.CleanUp(t.Context(), hooks, plainClient)
		if got := strings.Join(k.requests.made, ", "); got != "read, patch i" {
			t.Errorf("after a write with the code %d, got the requests %q", code, got)
		}
	}
	k := newTestKeeper(t)
	_ = k.Write(t.Context(), hooks, plainClient)
	_ = k.sharing().Write(t.Context(), hooks, plainClient)
	k.requests.made = nil
	k.log.Reset()
	k.CleanUp(t.Context(), hooks, plainClient)
	k.wantRequests("read", cleaning, leaving)
}

// TestRefusedCleanUp refuses the clean-up after a write with another code, 0 for a success.
func TestRefusedCleanUp(t *testing.T) {
	for _, tt := range []struct {
		write, cleanUp int
		warned         bool
	}{{403, 403, false}, {0, 403, true}, {500, 500, true}, {noResponse, 500, true}, {403, 500, true}} {
		k := newTestKeeper(t, 0, tt.write, 0, tt.cleanUp)
		_ = k.Write(t.Context(), []Hook{things}, plainClient)
		k.CleanUp(t.Context(), []Hook{things}, plainClient)
		if got := strings.Contains(k.log.String(), "requests may be rejected"); got != tt.warned {
			t.Errorf("%d after %d: got a warning %t, want %t", tt.cleanUp, tt.write, got, tt.warned)
		}
	}
}

// noResponse stands for a request without a response, which the server may have carried out.
const noResponse = -1

// TestSightingBeforeAnswer shows an event before the answer to a write. The answer does not hide a later change.
func TestSightingBeforeAnswer(t *testing.T) {
	for _, tt := range []struct {
		name  string
		event []byte
		want  bool
	}{
		{"the write itself", state("11", "m", `{"name":"a"}`), false},
		{"a later edit", state("12", "m", `{"name":"b"}`), true},
		{"a later write of another replica", state("12", "n", `{"name":"b"}`), false},
		{"an earlier edit", state("10", "m", `{"name":"b"}`), false},
	} {
		var s sighting
		s.answer(parseConfiguration(state("9", "m", `{"name":"a"}`)), 1)
		s.note(parseConfiguration(tt.event), false)
		s.answer(parseConfiguration(state("11", "m", `{"name":"a"}`)), 1)
		if got := s.state().edited; got != tt.want || s.known() != 11 {
			t.Errorf("%s: edited %t at the version %d, want %t at 11", tt.name, got, s.known(), tt.want)
		}
	}
}

// TestDeletedDuringWrite deletes the configuration between two requests of a write.
func TestDeletedDuringWrite(t *testing.T) {
	for name, codes := range map[string][]int{
		"between the read and the patch":     {0, http.StatusNotFound, http.StatusNotFound},
		"between the creation and the patch": {http.StatusNotFound, 0, http.StatusNotFound, http.StatusNotFound},
	} {
		k := newTestKeeper(t, codes...)
		if err := k.Write(t.Context(), []Hook{things}, plainClient); err != nil {
			t.Errorf("deleted %s: %v", name, err)
		}
	}
}

// TestFormerStateOfItself restores webhooks of the keeper that it has replaced.
func TestFormerStateOfItself(t *testing.T) {
	k := newTestKeeper(t)
	_ = k.Write(t.Context(), []Hook{things}, Client{URL: "https://former"})
	backup := mustEncode(k.requests.stored)
	_ = k.Write(t.Context(), []Hook{things}, Client{URL: "https://present"})
	if k.Note(backup, true); !k.IsDue() { // as in the list after a restore
		t.Error("the webhooks of the former address stay")
	}
}

// TestMissingInOlderHistory shows a configuration that was made after a restore from a backup without it.
func TestMissingInOlderHistory(t *testing.T) {
	k := newTestKeeper(t)
	k.Note(state("1000", "m", `{"name":"a"}`), true)
	k.NoteMissing(0) // the list after the restore
	k.Note(state("60", "m", `{"name":"a","clientConfig":{}}`), false)
	bundle := []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	if k.HasBundle(bundle) {
		t.Error("webhooks without the bundle count as having it")
	}
}

// TestLateEventIsNoAnswer repeats an event from before a question.
func TestLateEventIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		older := newTestKeeper(t)
		newer := older.sharing()
		_ = older.Write(t.Context(), []Hook{things}, plainClient)
		other := things
		other.ID = "other"
		_ = newer.Write(t.Context(), []Hook{other}, plainClient)
		before := mustEncode(older.requests.stored)
		older.Note(before, false)
		_ = older.Ask(t.Context()) // the newer one was killed
		older.Note(before, false)  // the watch has repeated it after an interruption
		older.Note(mustEncode(older.requests.stored), false)
		time.Sleep(time.Minute)
		if _ = older.Ask(t.Context()); !older.IsDue() {
			t.Error("after a minute without an answer, the webhooks are not replaced")
		}
	})
}
