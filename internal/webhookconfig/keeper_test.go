package webhookconfig

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// requests records the requests of a keeper, and returns the next status codes: 0 for a success.
type requests struct {
	codes []int
	made  []string // verbs, with the number of webhooks
	last  []byte   // the last body
}

func (r *requests) answer(verb string, body []byte) ([]byte, int, error) {
	r.made = append(r.made, verb+" "+strings.Repeat("i", bytes.Count(body, []byte(`"sideEffects"`))))
	r.last = body
	code := 0
	if len(r.codes) > 0 {
		code, r.codes = r.codes[0], r.codes[1:]
	}
	switch code {
	case 0:
		return body, 0, nil
	case noResponse:
		return nil, 0, errRefused
	}
	return nil, code, errRefused
}

var errRefused = errors.New("refused")

func (r *requests) Patch(_ context.Context, patch []byte) ([]byte, int, error) {
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
	k := &testKeeper{t: t, requests: &requests{codes: codes}, log: &bytes.Buffer{}}
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
		k.wantRequests("patch i", reconfiguring)
		if err := k.Write(t.Context(), hooks, Client{URL: "https://other"}); err != nil {
			t.Error(err)
		}
		k.wantRequests("patch i", reconfiguring)
	})
	t.Run("another replica may have changed it", func(t *testing.T) {
		k := newTestKeeper(t)
		_ = k.Write(t.Context(), hooks, plainClient)
		k.Forget()
		_ = k.Write(t.Context(), hooks, plainClient)
		k.wantRequests("patch i, patch i", reconfiguring, reconfiguring)
	})
	t.Run("it is made if it is not there", func(t *testing.T) {
		k := newTestKeeper(t, 404)
		if err := k.Write(t.Context(), hooks, plainClient); err != nil {
			t.Error(err)
		}
		k.wantRequests("patch i, create i", reconfiguring)
	})
	t.Run("another replica makes it first", func(t *testing.T) {
		k := newTestKeeper(t, 404, 409)
		if err := k.Write(t.Context(), hooks, plainClient); err != nil {
			t.Error(err)
		}
		k.wantRequests("patch i, create i, patch i", reconfiguring)
	})
	for verb, codes := range map[string][]int{"patch": {403}, "create": {404, 403}} {
		t.Run("no permission to "+verb, func(t *testing.T) {
			k := newTestKeeper(t, codes...)
			err := k.Write(t.Context(), hooks, plainClient)
			if !errors.Is(err, errRefused) || !strings.HasPrefix(err.Error(), `write the MutatingWebhookConfiguration "auto.kopf.dev": `) {
				t.Errorf("got %v", err)
			}
			k.wantRequests(strings.Join(slices.Compact([]string{"patch i", verb + " i"}), ", "), reconfiguring, "Not enough RBAC permissions to "+verb+" a MutatingWebhookConfiguration.")
			_ = k.Write(t.Context(), hooks, plainClient) // rejected webhooks were not written
			k.wantRequests("patch i", reconfiguring)
		})
	}
}

// state returns a stored configuration with a mark and webhooks.
func state(version, mark, webhooks string) []byte {
	return []byte(`{"metadata":{"resourceVersion":"` + version + `","annotations":{"kopf.dev/webhooks":"` + mark + `"}},"webhooks":[` + webhooks + `]}`)
}

func TestSighting(t *testing.T) {
	events := func(all ...[]byte) (edited []bool) {
		var s sighting
		s.answer(state("10", "m", `{"name":"a"}`))
		for _, data := range all {
			edited = append(edited, s.note(data, false))
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
	if s.note(nil, true) || s.note(unmarked, true) {
		t.Error("a state before the first write counts as edited")
	}
	s.answer(state("10", "m", `{"name":"a"}`))
	if !s.note(state("5", "m", ""), true) {
		t.Error("a list with an older version, as after a restore, is ignored")
	}
}

func TestRestoring(t *testing.T) {
	k := newTestKeeper(t)
	_ = k.Write(t.Context(), []Hook{things}, plainClient)
	k.wantRequests("patch i", reconfiguring)
	if !k.Note(nil, false) {
		t.Error("a deletion counts as no edit")
	}
	for range 2 {
		_ = k.Write(t.Context(), []Hook{things}, plainClient)
	}
	k.wantRequests("patch i", "Another client has changed the webhook configuration; restoring it")
	k.Note(state("1", "n", ""), true)
	k.CleanUp(t.Context(), []Hook{things}, plainClient)
	k.wantRequests("", "Leaving the webhook configuration to the replica that has written it last")
}

func TestClear(t *testing.T) {
	for _, tt := range []struct {
		code     int // of the first attempt
		requests string
		lines    []string
		failed   bool
	}{
		{0, "patch ", nil, false},
		{404, "patch ", nil, false},
		{403, "patch , patch ", []string{"Emptying a webhook configuration without handlers is not permitted"}, false},
		{503, "patch , patch ", nil, true},
		{noResponse, "patch , patch ", nil, true},
	} {
		k := newTestKeeper(t, tt.code)
		if err := k.Clear(t.Context()); (err != nil) != tt.failed {
			t.Errorf("%d: got the error %v", tt.code, err)
		}
		for range 2 {
			if err := k.Clear(t.Context()); err != nil {
				t.Errorf("%d: %v", tt.code, err)
			}
		}
		k.wantRequests(tt.requests, tt.lines...)
		k.Forget()
		_ = k.Clear(t.Context())
		k.wantRequests("patch ")
	}
}

// TestClearMarks lets a keeper see how one of a newer version empties its configuration.
func TestClearMarks(t *testing.T) {
	older, newer := newTestKeeper(t), newTestKeeper(t)
	_ = older.Write(t.Context(), []Hook{things}, plainClient)
	_ = newer.Clear(t.Context())
	if older.Note(newer.requests.last, false) {
		t.Error("the emptying counts as an edit of another client")
	}
}

func TestCleanUp(t *testing.T) {
	persistent := things
	persistent.ID, persistent.Persistent = "stays", true
	hooks := []Hook{things, persistent}
	const cleaning, failed = "Cleaning up the mutating webhook auto.kopf.dev.", "Cleaning up the webhook configuration failed"
	for code, lines := range map[int][]string{0: {cleaning}, 404: {cleaning}, 500: {cleaning, failed}} {
		k := newTestKeeper(t, 0, code)
		k.CleanUp(t.Context(), hooks, plainClient)
		k.wantRequests("") // nothing was written
		_ = k.Write(t.Context(), hooks, plainClient)
		k.wantRequests("patch ii", reconfiguring)
		k.CleanUp(t.Context(), hooks, plainClient)
		k.wantRequests("patch i", lines...)
	}
	for code, made := range map[int]string{403: "patch i", 429: "patch i", 500: "patch i", noResponse: "patch i"} {
		k := newTestKeeper(t, code)
		_ = k.Write(t.Context(), hooks, plainClient)
		k.requests.made = nil
		k.log.Reset()
		k.CleanUp(t.Context(), hooks, plainClient)
		if got := strings.Join(k.requests.made, ", "); got != made {
			t.Errorf("after a write with the code %d, got the requests %q, want %q", code, got, made)
		}
	}
}

// TestRefusedCleanUp refuses the clean-up after a write with another code, 0 for a success.
func TestRefusedCleanUp(t *testing.T) {
	for _, tt := range []struct {
		write, cleanUp int
		warned         bool
	}{{403, 403, false}, {0, 403, true}, {500, 500, true}, {noResponse, 500, true}, {403, 500, true}} {
		k := newTestKeeper(t, tt.write, tt.cleanUp)
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
		s.answer(state("9", "m", `{"name":"a"}`))
		s.note(tt.event, false)
		s.answer(state("11", "m", `{"name":"a"}`))
		if got := s.isEdited(); got != tt.want || s.known() != 11 {
			t.Errorf("%s: edited %t at the version %d, want %t at 11", tt.name, got, s.known(), tt.want)
		}
	}
}
