package kopf

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf/internal/admissionreview"
	"github.com/kopf-go/kopf/internal/credtransport"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/kubeconfig"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/yaml"
)

// Here, objects and responses are those of attackers.

// listOf repeats a text, with numbers from 0 where it has a verb.
func listOf(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(format, "%") {
			fmt.Fprintf(&b, format, i)
		} else {
			b.WriteString(format)
		}
	}
	return b.String()
}

// TestHostileObjects processes each object as a handled one. The time must not grow with the square of its size, nor the stack with its depth.
func TestHostileObjects(t *testing.T) {
	size := 1_500_000 // the limit of API servers
	if racing {
		size /= 10
	}
	depth := size / 6
	nested := func(open, end string) string { return strings.Repeat(open, depth) + "1" + strings.Repeat(end, depth) }
	for name, text := range map[string]string{
		"many stanzas":            `{` + listOf(size/10, `"%x":1`) + `}`,
		"many fields":             `{"spec":{` + listOf(size/10, `"%x":1`) + `}}`,
		"many items":              `{"spec":{"l":[` + listOf(size/8, `{"a":1}`) + `]}}`,
		"many fields in status":   `{"status":{"kopf":{"progress":{` + listOf(size/10, `"%x":{}`) + `}}}}`,
		"many annotations":        `{"metadata":{"annotations":{` + listOf(25_000, `"%x":""`) + `}}}`,
		"many foreign operators":  `{"metadata":{"annotations":{` + listOf(10_000, `"%x/kopf-managed":""`) + `}}}`,
		"many labels":             `{"metadata":{"labels":{` + listOf(size/12, `"%x":""`) + `}}}`,
		"many finalizers":         `{"metadata":{"finalizers":[` + listOf(size/4, `"a"`) + `]}}`,
		"many owners":             `{"kind":"ReplicaSet","metadata":{"ownerReferences":[` + listOf(size/3, `{}`) + `]}}`,
		"one key again and again": `{"spec":{` + listOf(size/6, `"a":1`) + `}}`,
		"deep objects":            `{"spec":` + nested(`{"a":`, "}") + `}`,
		"deep lists":              `{"spec":` + nested("[", "]") + `}`,
		"deep metadata":           `{"metadata":{"x":` + nested("[", "]") + `}}`,
		"a deep state":            `{"metadata":{"annotations":{"kopf.zalando.org/last-handled-configuration":"{\"spec\":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + `}"}}}`,
		"a deep record":           `{"metadata":{"annotations":{"kopf.zalando.org/h":"` + strings.Repeat("[", 250_000) + `"}}}`,
		"deep records":            `{"status":{"kopf":{"progress":{"h":` + nested("[", "]") + `}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			body, err := ParseBody([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			p := &PersistenceSettings{DiffBaseStorage: &AnnotationsDiffBaseStorage{}, ProgressStorage: &SmartProgressStorage{}}
			essence := essenceOf(body, paths("status.x"), p)
			_ = diffRaw(essence.text(), []byte(`{"spec":{"x":1}}`))
			if stored, err := storedEssence(body, p); err == nil && stored != nil {
				_ = diffRaw(stored.text(), essence.text())
			}
			patch := &Patch{}
			_, _ = p.ProgressStorage.Fetch("h", body) // these only must return
			p.ProgressStorage.Purge("h", body, patch)
			p.DiffBaseStorage.Store(essence, body, patch)
			_ = essence.Set("spec.zz", 1)
			essence.Remove("spec.zz")
			_, _, _ = essence.text(), body.Map(), body.Finalizers()
			_, _ = body.Get("spec.a.a.a"), View{raw: body.raw}.Keys()
			if elapsed := time.Since(began); elapsed > 20*time.Second && !racing {
				t.Errorf("%d bytes take %s", len(text), elapsed)
			}
		})
	}
}

// TestHostileDepth feeds each parser a million levels of nesting. It must fail or return.
func TestHostileDepth(t *testing.T) {
	depth := 1_000_000
	if racing {
		depth /= 10
	}
	for name, text := range map[string]string{
		"lists": strings.Repeat("[", depth) + strings.Repeat("]", depth), "objects": strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
		"open lists": strings.Repeat("[", depth), "open objects": strings.Repeat(`{"a":`, depth), "open YAML": strings.Repeat("- ", depth), "YAML": strings.Repeat("? ", depth),
		"texts": strings.Repeat(`"\`, depth), "anchors": strings.Repeat("&a [", depth),
	} {
		data := []byte(text)
		for parser, parse := range map[string]func() error{
			"decodeJSON":      func() error { _, err := rawjson.Decode(data); return err },
			"ParseManifests":  func() error { _, err := yaml.ParseManifests(data); return err },
			"parseKubeconfig": func() error { _, err := kubeconfig.Parse(data); return err },
			"a review": func() error {
				if _, bad := admissionreview.Read(data); bad != nil {
					return (*ReviewError)(bad)
				}
				return nil
			},
			"record":  func() error { _, err := parseRecord(text); return err },
			"essence": func() error { return new(Essence).UnmarshalJSON(data) },
			"a body and a view": func() error {
				b, err := ParseBody(data)
				_ = View{raw: data}.Get("a.a")
				_ = b
				return errors.Join(err, rawjson.ErrMalformed)
			},
			"compaction":  func() error { _ = rawjson.AppendCompact(nil, data); return rawjson.ErrMalformed },
			"differences": func() error { _ = diffRaw(data, []byte(`{"a":{"a":1}}`)); return rawjson.ErrMalformed },
			"frames":      func() error { return new(rawjson.Frame).Scan(append([]byte(`{"type":"ADDED","object":`), data...)) },
		} {
			if err := parse(); err == nil {
				t.Errorf("%s takes %s nested %d times", parser, name, depth)
			}
		}
	}
}

// compressionBomb writes a small response whose decompressed content is huge.
func compressionBomb(w http.ResponseWriter, begin string) {
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Content-Type", "application/json")
	z := gzip.NewWriter(w)
	_, _ = io.WriteString(z, begin)
	_ = z.Close() // the rest belongs to the same response
	_, _ = w.Write(blanks())
}

// blanks are more spaces than an object may have bytes.
var blanks = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	part := bytes.Repeat([]byte(" "), 1<<20)
	for range rawjson.MaxObject>>20 + 8 {
		_, _ = z.Write(part)
	}
	_ = z.Close()
	return b.Bytes()
})

// answered returns an operator's client of a server, and the number of requests to it.
func answered(t *testing.T, handler http.HandlerFunc) (*Client, *atomic.Int64) {
	t.Helper()
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	client, err := NewClient(&ConnectionInfo{Server: s.URL, Token: "hunter2hunter2"}, &NetworkingSettings{ErrorBackoffs: []time.Duration{time.Millisecond, time.Millisecond}, RequestTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	client.log = slog.New(slog.DiscardHandler)
	t.Cleanup(client.close)
	return client, &requests
}

var thingsResource = Resource{Group: "example.com", Version: "v1", Plural: "things", Kind: "Thing", Namespaced: true}

// clientRequests are the kinds of requests of clients.
var clientRequests = map[string]func(ctx context.Context, c *Client) error{
	"an object": func(ctx context.Context, c *Client) error {
		_, err := c.object(ctx, thingsResource, "default", "a")
		return err
	},
	"a patch": func(ctx context.Context, c *Client) error {
		_, err := c.patchObject(ctx, thingsResource, "default", "a", "", "application/merge-patch+json", []byte("{}"))
		return err
	},
	"a list": func(ctx context.Context, c *Client) error {
		return c.list(ctx, thingsResource, "", url.Values{}, 0, true, func(*Body) bool { return true })
	},
	"a watch": func(ctx context.Context, c *Client) error {
		return c.watch(ctx, thingsResource, "", url.Values{}, func(RawEvent) error { return nil })
	},
	"the resources": func(ctx context.Context, c *Client) error { _, _, err := c.discover(ctx, nil); return err },
}

// TestHostileAnswers sends responses that no API server would send. Each time, there is a clear error, no useless retry, no secret in the error, and a limit
// of the memory.
func TestHostileAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		once   bool   // whether there must be no retry
		ways   string // the requests for which bombs are tested
	}{
		"a bomb in an object": {func(w http.ResponseWriter, r *http.Request) { compressionBomb(w, `{"a":`) }, true, "an object, a patch, the resources"},
		"a bomb in an item":   {func(w http.ResponseWriter, r *http.Request) { compressionBomb(w, `{"items":[{"a":`) }, true, "a list"},
		"a bomb in an error": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(403)
			compressionBomb(w, `{"kind":"Status","message":"`)
		}, true, "an object, a list, a watch"},
		"a page":          {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>"+strings.Repeat("x", 1<<20)+"\n") }, true, ""},
		"nothing":         {func(w http.ResponseWriter, r *http.Request) {}, false, ""},
		"a list of lists": {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, strings.Repeat("[", 5<<20)+"\n") }, true, ""},
		"endless headers": {func(w http.ResponseWriter, r *http.Request) {
			for i := range 300 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 100<<10))
			}
		}, false, ""},
		"a wrong length": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000000000000")
			fmt.Fprint(w, `{"kind":"Thing"}`)
		}, false, ""},
		"a status that is none": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "99999999999999999999")
			w.WriteHeader(409)
			fmt.Fprint(w, `{"kind":"Status","details":{"causes":7,"retryAfterSeconds":-1e300},"code":"x"}`)
		}, true, ""},
		"a redirect without end": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) }, false, ""},
	} {
		for way, ask := range clientRequests {
			t.Run(name+"/"+way, func(t *testing.T) {
				if strings.HasPrefix(name, "a bomb") && (racing || testing.Short() || !strings.Contains(tt.ways, way)) {
					t.Skip("it would take a while")
				}
				client, requests := answered(t, tt.answer)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := ask(ctx, client)
				runtime.ReadMemStats(&after)
				if err == nil && way+name != "a watchnothing" && way+name != "the resourcesa wrong length" {
					t.Fatal("there is no error")
				}
				if err != nil && (strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 2<<10 && !strings.HasPrefix(name, "a bomb in an error")) {
					t.Errorf("the error has %d bytes: %.300s", len(err.Error()), err)
				}
				most := int64(1)
				if name == "a bomb in an error" && way == "an object" {
					most = 2 // a list replaces a forbidden get
				}
				if n := int64(requests.Load()); tt.once && n > most && way != "the resources" {
					t.Errorf("it was asked %d times: %v", n, err)
				}
				if strings.HasPrefix(name, "a bomb in an object") || strings.HasPrefix(name, "a bomb in an item") {
					if !errors.Is(err, rawjson.ErrTooLarge) {
						t.Errorf("the error is not that it is too large: %v", err)
					}
				}
				if elapsed := after.TotalAlloc - before.TotalAlloc; elapsed > 8*rawjson.MaxObject {
					t.Errorf("%d MiB were allocated: %v", elapsed>>20, err)
				}
			})
		}
	}
}

// TestForeignRedirects redirects clients to other servers, which must not get the credentials.
func TestForeignRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("another server was asked, with %q", r.Header)
	}))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	for name, own := range map[string]*http.Client{
		"ours": nil, "its own": {}, "its own that follows": {CheckRedirect: func(*http.Request, []*http.Request) error { return nil }},
	} {
		client, err := NewClient(&ConnectionInfo{Server: s.URL, Token: "hunter2hunter2", HTTPClient: own}, &NetworkingSettings{})
		if err != nil {
			t.Fatal(err)
		}
		for way, ask := range clientRequests {
			if err := ask(t.Context(), client); err == nil || !strings.Contains(err.Error(), "redirects to") {
				t.Errorf("%s with %s client: %v", way, name, err)
			}
		}
		if resp, err := client.HTTPClient().Get(s.URL); err == nil {
			t.Errorf("%s client, lent, has followed: %s", name, resp.Status)
		}
		client.close()
	}
	same := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/there" {
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
		}
	}))
	defer same.Close()
	redirects := 0
	own := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { redirects++; return nil }}
	if _, err := fetch(t, &ConnectionInfo{Server: same.URL, HTTPClient: own}); err != nil || redirects != 1 {
		t.Errorf("a redirect within the server: %v, and the client's own opinion was asked for %d times", err, redirects)
	}
}

// TestInjections uses line breaks and slashes in names. There must be no request, or one with the escaped name.
func TestInjections(t *testing.T) {
	client, _ := answered(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.RequestURI; strings.Contains(got, "..") || strings.Count(got, "/") != 7 || r.Header.Get("X-Injected") != "" {
			t.Errorf("the request is of %q with %q", got, r.Header)
		}
		w.WriteHeader(404)
		_, _ = w.Write([]byte(`{"kind":"Status","reason":"NotFound","details":{"name":"x"}}`)) // otherwise the client would discover the kind
	})
	client.kinds.Set([]discovery.Resource{discovery.Resource(thingsResource)})
	for _, name := range []string{"../a", "..", ".", "a/status", "a%2fstatus", "a\r\nX-Injected: y", "a?x=y", "a#b", "é", "a b"} {
		ref := ObjectReference{APIVersion: "example.com/v1", Kind: "Thing", Namespace: "default", Name: name}
		_ = client.Get(t.Context(), ref, &map[string]any{}, nil) // only the request matters
		ref.Namespace, ref.Name = name, "a"
		_ = client.Get(t.Context(), ref, &map[string]any{}, nil)
		_, _ = client.object(t.Context(), thingsResource, "default", strings.ReplaceAll(name, "..", "x"))
	}
	sent := false
	transport := fixedResponse(func(r *http.Request) *http.Response {
		sent = true
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}
	})
	for _, info := range []ConnectionInfo{{Token: "hunter2hunter2\r\nX-Injected: y"}, {Token: "a", Scheme: "hunter2hunter2\nX: y"}} {
		info.Server, info.HTTPClient = "http://x", &http.Client{Transport: transport}
		if _, err := NewClient(&info, nil); err == nil || strings.Contains(err.Error(), "hunter2") || sent {
			t.Errorf("line breaks in a token: %v", err)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Errorf("sent: %q", r.Header) }))
	defer s.Close()
	for _, info := range []ConnectionInfo{{ImpersonateUser: "me\r\nX-Injected: y"}, {ImpersonateUser: "me", ImpersonateGroups: []string{"a\nX-Injected: y"}}, {ImpersonateUser: "me", ImpersonateExtra: map[string][]string{"a": {"b\r\n\r\n"}}}} {
		info.Server, info.Token = s.URL, "hunter2hunter2"
		if _, err := fetch(t, &info); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("line breaks in %s: %v", &info, err)
		}
	}
}

func TestConcealingProxy(t *testing.T) {
	choose := credtransport.ConcealingProxy(func(*http.Request) (*url.URL, error) {
		return nil, errors.New(`invalid proxy address "http://u:hunter2hunter2@ x"`)
	})
	if _, err := choose(nil); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
	want := &url.URL{Host: "proxy"}
	if got, err := credtransport.ConcealingProxy(func(*http.Request) (*url.URL, error) { return want, nil })(nil); got != want || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestServersKeepSecrets prints webhook servers in all ways.
func TestServersKeepSecrets(t *testing.T) {
	var output bytes.Buffer
	w := WebhookServer{Addr: "host", Port: 7, Password: "hunter2hunter2"}
	n := WebhookNgrokTunnel{Addr: "host", Token: "hunter2hunter2"}
	tunnel := WebhookAutoTunnel(n)
	for _, v := range []any{w, &w, n, &n, tunnel, &tunnel, w.Password, &w.Password, []any{&w}, AdmissionSettings{Server: &w}, Settings{Admission: AdmissionSettings{Server: &n}}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			fmt.Fprintf(&output, verb+"\n", v)
		}
		data, _ := json.Marshal(v) // encoding errors have no secrets
		output.Write(data)
		for _, h := range []slog.Handler{slog.NewTextHandler(&output, nil), slog.NewJSONHandler(&output, nil), NewLogHandler(&LogOptions{Output: &output}), NewLogHandler(&LogOptions{Output: &output, Format: LogJSON})} {
			slog.New(h).Info("serving", "server", v)
		}
	}
	if text := output.String(); strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
		t.Errorf("a secret is told:\n%s", text)
	}
	for secret, want := range map[Secret]string{"": "", "x": "[redacted]"} {
		if got := fmt.Sprint(secret); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
