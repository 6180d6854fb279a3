package kopf_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This file runs operators with a mark in every secret, through all failures that concern secrets, with all logs in each format. No output may contain a
// mark.

// The mark, and its encoded forms.
const (
	mark = "hunter2hunter2hunter2"
	seen = mark + "|aHVudGVyMmh1bnRlcjJodW50ZXIy|h1bnRlcjJodW50ZXIyaHVudGVyM|odW50ZXIyaHVudGVyMmh1bnRlcj|68756e74657232"
)

// tape collects output from any goroutine.
type tape struct {
	written chan struct{} // has a value after writes
	mu      sync.Mutex    // guards b
	b       bytes.Buffer
}

func (w *tape) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.written <- struct{}{}:
	default:
	}
	return w.b.Write(p)
}

func (w *tape) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// allFormats logs to all handlers at once.
type allFormats []slog.Handler

func newAllFormats(w io.Writer) allFormats {
	all := &slog.HandlerOptions{Level: slog.Level(-100), AddSource: true}
	handlers := allFormats{slog.NewTextHandler(w, all), slog.NewJSONHandler(w, all)}
	for _, format := range []kopf.LogFormat{kopf.LogFull, kopf.LogPlain, kopf.LogJSON} {
		handlers = append(handlers, kopf.NewLogHandler(&kopf.LogOptions{Debug: true, Output: w, Format: format}))
	}
	return handlers
}

func (all allFormats) Enabled(context.Context, slog.Level) bool { return true }

func (all allFormats) Handle(ctx context.Context, r slog.Record) (err error) {
	for _, h := range all {
		err = errors.Join(err, h.Handle(ctx, r.Clone()))
	}
	return err
}

func (all allFormats) each(change func(slog.Handler) slog.Handler) slog.Handler {
	changed := make(allFormats, len(all))
	for i, h := range all {
		changed[i] = change(h)
	}
	return changed
}

func (all allFormats) WithAttrs(attrs []slog.Attr) slog.Handler {
	return all.each(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

func (all allFormats) WithGroup(name string) slog.Handler {
	return all.each(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

// checkSecrets runs a function until all words are logged that prove the failure, and checks that no output until then has marks.
func checkSecrets(t *testing.T, words string, run func(ctx context.Context, log *slog.Logger) error) {
	t.Helper()
	w := &tape{written: make(chan struct{}, 1)}
	log := slog.New(newAllFormats(w))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := run(ctx, log)
		fmt.Fprintf(w, "\n%v\n%+v\n%#v\n", err, err, err)
		log.Error("The end.", "error", err)
	}()
	missing := func() string {
		text := w.String()
		for word := range strings.SplitSeq(words, "|") {
			if strings.Count(text, word) < len(newAllFormats(w)) && !strings.Contains(text, "The end.") || !strings.Contains(text, word) {
				return word
			}
		}
		return ""
	}
	for over := false; !over && missing() != ""; {
		select {
		case <-done:
			over = true
		case <-w.written:
		}
	}
	cancel()
	<-done
	text := w.String()
	if found := regexp.MustCompile(seen).FindString(text); found != "" {
		at := strings.Index(text, found)
		t.Fatalf("a secret is told: …%s…", text[max(0, at-300):min(len(text), at+100)])
	}
	if word := missing(); word != "" {
		t.Fatalf("%q is not told:\n%s", word, text)
	}
}

// kubeconfig writes a kubeconfig with a user, and returns its path.
func kubeconfig(t *testing.T, server, user string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: '" + server + "'}}]\nusers: [{name: u, user: {" + user + "}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// plugin writes a program for logins that prints a text and ends, and returns its path.
func plugin(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSecretsOfLogins(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("the plugins are for a shell")
	}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"kind":"Status","code":401,"reason":"Unauthorized","message":"who are you?"}`)
	}))
	defer refusing.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	secure.StartTLS()
	defer secure.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + gone.Addr().String()
	_ = gone.Close()
	for name, tt := range map[string]struct{ server, user, words string }{
		"a token that is refused":       {refusing.URL, "token: " + mark, "who are you?"},
		"a password that is refused":    {refusing.URL, "username: me, password: " + mark, "who are you?"},
		"a token for nobody":            {nobody, "token: " + mark, "refused"},
		"a token for a stranger":        {secure.URL, "token: " + mark, "certificate"},
		"a key that is none":            {secure.URL, "client-certificate-data: '" + mark + "', client-key-data: '" + mark + "'", "client certificate"},
		"a key that is base64 of none":  {secure.URL, "client-certificate-data: aHVudGVyMmh1bnRlcjJodW50ZXIy, client-key-data: aHVudGVyMmh1bnRlcjJodW50ZXIy", "no PEM"},
		"a token with line breaks":      {nobody, `token: "` + mark + `\r\nX: y"`, "line breaks"},
		"a token and a password":        {nobody, "token: " + mark + ", username: me, password: " + mark, "exclude each other"},
		"a password in an address":      {"http://me:" + mark + "@" + strings.TrimPrefix(nobody, "http://"), "token: a", "a host and a path alone"},
		"an old provider":               {refusing.URL, "auth-provider: {name: gcp, config: {access-token: " + mark + "}}", "who are you?"},
		"a plugin that fails":           {nobody, byPlugin(plugin(t, "echo "+mark+"; echo it is late >&2; exit 3")), "it is late"},
		"a plugin that writes nonsense": {nobody, byPlugin(plugin(t, "echo '{\"token\": \""+mark+"\"'")), "not an ExecCredential"},
		"a plugin that writes too much": {nobody, byPlugin(plugin(t, "yes "+mark+" | head -c 3000000")), "bytes of output"},
		"a plugin of another version": {nobody, byPlugin(plugin(t, `echo '{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"`+mark+`"}}'`)),
			"is expected"},
		"a plugin with a key alone": {nobody, byPlugin(plugin(t, `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientKeyData":"`+mark+`"}}'`)),
			"without its certificate"},
		"a plugin with a wrong key": {secure.URL, byPlugin(plugin(t, `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientKeyData":"`+mark+`","clientCertificateData":"`+mark+`"}}'`)),
			"client certificate"},
		"a plugin whose token is refused": {refusing.URL, byPlugin(plugin(t, `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"`+mark+`"}}'`)),
			"who are you?|returned credentials"},
		"a plugin that is not there": {nobody, byPlugin("/nowhere/plugin"), "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := kubeconfig(t, tt.server, tt.user)
			checkSecrets(t, tt.words, func(ctx context.Context, log *slog.Logger) error {
				op := &kopf.Operator{Registry: &kopf.Registry{}, Logger: log, Kubeconfig: path, Settings: kopf.NewSettings()}
				op.Settings.Networking.ErrorBackoffs = []time.Duration{time.Millisecond}
				op.Registry.OnEvent("kopfexamples", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event"})
				info, err := kopf.LoginWithKubeconfig(ctx, &kopf.Login{Kubeconfig: path, Logger: log})
				log.Debug("The login.", "info", info, "error", err)
				return errors.Join(err, op.Run(ctx))
			})
		})
	}
}

// byPlugin returns a user with a plugin, which gets a secret as its argument and in its environment.
func byPlugin(path string) string {
	return "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: '" + path + "', args: [" + mark + "], env: [{name: SECRET, value: " + mark + "}]}"
}

// TestSecretsOfObjects handles Secrets with handlers that succeed, fail and panic, and reviews them with webhooks.
func TestSecretsOfObjects(t *testing.T) {
	inWorldOf := func(log *slog.Logger, run func(server *kopf.APIServer, client *kopf.Client, registry *kopf.Registry)) {
		server := kopf.NewAPIServer(&kopf.APIServerOptions{Logger: log})
		client, err := kopf.NewClient(server.ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		run(server, client, &kopf.Registry{})
	}
	checkSecrets(t, "Creation is in progress|Updating is in progress|Patching|Deletion is in progress|panic|for some reason|concealed", func(_ context.Context, log *slog.Logger) (ended error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for the whole test
		defer cancel()
		inWorldOf(log, func(server *kopf.APIServer, client *kopf.Client, registry *kopf.Registry) {
			ref := kopf.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "default", Name: "a"}
			handled := make(chan kopf.Reason, 100)
			handle := func(_ context.Context, c *kopf.Change) error {
				handled <- c.Reason
				c.Patch.SetPath(mark, "stringData", "more")
				switch {
				case c.Retry == 0:
					return kopf.Temporary(errors.New("for some reason"), time.Millisecond)
				case c.Retry == 1:
					store(nil, fmt.Sprint(c.Body.Get("data.token")), c.Body) // a panic with secrets on its stack
				}
				handled <- "done"
				return nil
			}
			o := func(id string) *kopf.ChangeOptions {
				return &kopf.ChangeOptions{ID: kopf.HandlerID(id), Backoff: time.Millisecond}
			}
			registry.OnCreate("secrets", handle, o("create"))
			registry.OnUpdate("secrets", handle, o("update"))
			registry.OnDelete("secrets", handle, o("delete"))
			ctx, cancel := context.WithCancel(ctx)
			done := make(chan error, 1)
			ready := make(chan struct{})
			op := &kopf.Operator{Registry: registry, Logger: log, Connection: server.ConnectionInfo(), Ready: func() { close(ready) }}
			go func() { done <- op.Run(ctx) }()
			<-ready
			wait := func() {
				for {
					select {
					case reason := <-handled:
						if reason == "done" {
							return
						}
					case <-ctx.Done():
						t.Error("nothing is handled")
						return
					}
				}
			}
			secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a", "namespace": "default"}, "stringData": map[string]any{"token": mark}}
			if err := client.Create(ctx, secret, nil); err != nil {
				t.Error(err)
			}
			wait()
			if _, err := kopf.WaitFor(ctx, client, ref, "with a stored creation", func(body *kopf.Body) bool {
				if body == nil {
					return false
				}
				_, pending := body.Annotation("kopf.zalando.org/create")
				return !pending && len(body.Finalizers()) > 0
			}); err != nil {
				t.Error(err)
			}
			if _, err := client.Patch(ctx, ref, map[string]any{"stringData": map[string]any{"token": mark + mark}}, nil); err != nil {
				t.Error(err)
			}
			wait()
			if err := client.Delete(ctx, ref, nil); err != nil {
				t.Error(err)
			}
			wait()
			cancel()
			ended = <-done
		})
		return ended
	})
}

// TestSecretsOfReviews sends reviews of Secrets to a webhook server, with credentials in their headers, for handlers that fail and panic.
func TestSecretsOfReviews(t *testing.T) {
	checkSecrets(t, "The webhook server panicked|Refused a review|for some reason", func(_ context.Context, log *slog.Logger) error {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for the whole test
		defer cancel()
		announced, done := make(chan string, 1), make(chan error, 1)
		server := &kopf.WebhookServer{Listener: listener, Insecure: true, Logger: log}
		go func() {
			done <- server.Serve(ctx, func(_ context.Context, r *kopf.ReviewRequest) ([]byte, error) {
				if r.Handler == "panic" {
					store(nil, r.Header.Get("Authorization"), string(r.Body))
				}
				return nil, errors.New("for some reason")
			}, func(c kopf.WebhookClientConfig) { announced <- c.URL })
		}()
		address := <-announced
		for _, path := range []string{"/panic", "/fail", "/" + mark[:0]} {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+path, strings.NewReader(`{"request":{"object":{"kind":"Secret","data":"`+mark+`"}}}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+mark)
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(resp.Body) // it is small
			_ = resp.Body.Close()
			if strings.Contains(string(answer), mark) {
				t.Errorf("the answer is %s", answer)
			}
		}
		cancel()
		return <-done
	})
}

// store panics if there is no map, on purpose.
func store(m map[string]any, key string, value any) { m[key] = value }
