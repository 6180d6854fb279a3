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
}

func (r *requests) answer(verb string, body []byte) (int, error) {
	r.made = append(r.made, verb+" "+strings.Repeat("i", bytes.Count(body, []byte(`"sideEffects"`))))
	if len(r.codes) == 0 {
		return 0, nil
	}
	code := r.codes[0]
	if r.codes = r.codes[1:]; code == 0 {
		return 0, nil
	}
	if code == noResponse {
		return 0, errRefused
	}
	return code, errRefused
}

var errRefused = errors.New("refused")

func (r *requests) Patch(_ context.Context, patch []byte) (int, error) {
	return r.answer("patch", patch)
}

func (r *requests) Create(_ context.Context, configuration []byte) (int, error) {
	if !bytes.HasPrefix(configuration, []byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"auto.kopf.dev"},"webhooks":[`)) {
		return 0, errors.New("it is no configuration")
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

func TestClear(t *testing.T) {
	const failed = "Emptying a webhook configuration without handlers failed"
	for code, lines := range map[int][]string{0: nil, 404: nil, 403: {failed}} {
		k := newTestKeeper(t, code)
		k.Clear(t.Context())
		k.Clear(t.Context())
		k.wantRequests("patch ", lines...)
		k.Forget()
		k.Clear(t.Context())
		k.wantRequests("patch ")
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

// noResponse stands for a request without a response, which the server may have carried out.
const noResponse = -1
