package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kopf-go/kopf"
)

// This suite proves what "status --live" prints about running operators.

var _ = SerialSuite("live_page_command", func(t *testing.T, c *C) {
	statusLive(t, c)
})

// podProxy is an API server with pods, and the proxy to them.
type podProxy struct {
	base  http.RoundTripper
	pods  map[string]*pipe // with live pages, by name; nil where nothing listens
	codes map[string]int   // the codes of refusals, by the ends of paths
	lie   string           // the response of all pods; "" for the real one
	mu    sync.Mutex       // guards asked
	asked []string
}

// RoundTrip implements [http.RoundTripper].
func (s *podProxy) RoundTrip(req *http.Request) (*http.Response, error) {
	_, path, isPod := strings.Cut(req.URL.Path, "/pods")
	if !isPod {
		return s.base.RoundTrip(req)
	}
	s.mu.Lock()
	s.asked = append(s.asked, req.Method+" "+req.URL.RequestURI())
	s.mu.Unlock()
	for end, code := range s.codes {
		if strings.HasSuffix(req.URL.Path, end) {
			return Answer(code, http.StatusText(code), "no"), nil
		}
	}
	if path == "" {
		var items []any
		for name := range s.pods {
			items = append(items, map[string]any{"metadata": map[string]any{"name": name}})
		}
		return reviewAnswer(map[string]any{"kind": "PodList", "items": items}), nil
	}
	name, path, _ := strings.Cut(strings.TrimPrefix(path, "/"), ":8080/proxy")
	p, known := s.pods[name]
	switch {
	case s.lie != "":
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(s.lie))}, nil
	case !known:
		return Answer(404, "NotFound", "no such pod"), nil
	case p == nil:
		return Answer(503, "ServiceUnavailable", "connection refused"), nil
	}
	a := p.get(path, "Host: 10.0.0.1:8080", "X-Kopf-Token: "+req.Header.Get("X-Kopf-Token"))
	return &http.Response{StatusCode: a.code, Header: a.header, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// statusOf runs "status --live".
func (s *podProxy) statusOf(c *C, args ...string) (code int, stdout, stderr string) {
	c.Helper()
	c.changesProcess()
	before, logger := kopf.DefaultRegistry(), slog.Default()
	defer kopf.SetDefaultRegistry(before)
	defer slog.SetDefault(logger)
	info := c.ConnectionInfo()
	s.base, s.asked = info.HTTPClient.Transport, nil
	info.HTTPClient = &http.Client{Transport: s}
	r := &kopf.Registry{}
	r.OnLogin(func(context.Context, *kopf.Login) (*kopf.ConnectionInfo, error) { return info, nil }, &kopf.ActivityOptions{ID: "login"})
	kopf.SetDefaultRegistry(r)
	var out, errs bytes.Buffer
	code = kopf.Command(c.Context(), append([]string{"status", "--live", "-n", c.Namespace}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func statusLive(t *testing.T, c *C) {
	c.Run(t, "OB-10 status --live asks the pods by the API server's proxy", func(c *C) {
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error {
			return kopf.Temporary(errors.New("the database\x1b is down"), time.Hour)
		}, named("create"))
		c.Create("a", nil)
		op := c.Operator(r, paged(p))
		op.waitLogged(c, "Handler 'create' failed")
		s := &podProxy{pods: map[string]*pipe{"one": p, "two": nil}}
		code, stdout, stderr := s.statusOf(c)
		for _, want := range []string{"Pod one: working for", "IN RETRY", "KopfExample " + c.Namespace + "/a", `the database\x1b is down`, "kopfexamples.v1.kopf.dev", "Pod two: nothing answers at the port 8080, which run --liveness=http://0.0.0.0:8080/healthz opens"} {
			if code != 0 || !strings.Contains(stdout, want) {
				c.Errorf("there is no %q in %s%s", want, stdout, stderr)
			}
		}
		if len(s.asked) != 3 || !strings.Contains(s.asked[0], "/api/v1/namespaces/"+c.Namespace+"/pods?labelSelector=app.kubernetes.io%2Fname%3D") || !strings.Contains(strings.Join(s.asked, " "), "/pods/one:8080/proxy/api/v1/state") {
			c.Errorf("asked was %q", s.asked)
		}
		if code, _, stderr := s.statusOf(c, "--pod", "one", "--pods", "app=x"); code != 0 || len(s.asked) != 1 {
			c.Errorf("one pod: %d after %q: %s", code, s.asked, stderr)
		}
	})
	c.Run(t, "OB-10 without a right, status --live says which one is missing", func(c *C) {
		token := filepath.Join(c.TempDir(), "token")
		if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
			c.Fatal(err)
		}
		p := newPipe()
		c.Operator(&kopf.Registry{}, paged(p, func(s *kopf.PageSettings) { s.TokenFile = token }))
		off := newPipe()
		c.Operator(&kopf.Registry{}, probed(off, "http://0.0.0.0/healthz"))
		for _, leaf := range []struct {
			s    *podProxy
			args []string
			want string
		}{
			{&podProxy{codes: map[string]int{"/pods": 403}}, nil, `missing permission to list pods in the namespace "` + c.Namespace + `", so name one by --pod`},
			{&podProxy{codes: map[string]int{"/state": 403}}, []string{"--pod", "one"}, `missing permission to get pods/proxy in the namespace "` + c.Namespace + `"`},
			{&podProxy{}, nil, "have the labels"},
			{&podProxy{}, []string{"--pod", "one"}, "there is no such pod"},
			{&podProxy{pods: map[string]*pipe{"one": off}}, nil, "its operator has no live page, which run --page switches on"},
			{&podProxy{pods: map[string]*pipe{"one": p}}, nil, "the live page needs a token"},
			{&podProxy{pods: map[string]*pipe{"one": p}}, []string{"--page-token", token}, ""},
		} {
			code, stdout, stderr := leaf.s.statusOf(c, leaf.args...)
			if leaf.want == "" && code != 0 || leaf.want != "" && (code != 1 || !strings.Contains(stderr, leaf.want)) {
				c.Errorf("%q: %d, want %q: %s%s", leaf.args, code, leaf.want, stdout, stderr)
			}
		}
	})
	c.Run(t, "OB-27 status --live -o json is the same JSON", func(c *C) {
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		c.Operator(r, paged(p))
		s := &podProxy{pods: map[string]*pipe{"one": p}}
		_, stdout, _ := s.statusOf(c, "-o", "json")
		var got struct {
			Pods []struct {
				Pod   string
				State map[string]any
			}
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(p.get("/api/v1/state").body), &want); err != nil {
			c.Fatal(err)
		}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || len(got.Pods) != 1 || got.Pods[0].Pod != "one" || len(got.Pods[0].State) != len(want) || got.Pods[0].State["version"] != want["version"] {
			c.Errorf("got %v (%v) of %s", got, err, stdout)
		}
	})
	c.Run(t, "OB-6 whatever a pod answers, nothing of it moves on a terminal", func(c *C) {
		for _, lie := range []string{
			"null", "[]", "{}", "7", `{"resources":[null],"streams":[{}],"calls":[null,{}],"retries":[null,{"error":"\u001b[31m\u009b31m\u202e"}],"version":"\u0007"}`, "{\"version\":\"\xff\x9b31m\"}", "{\"version\":\"\u009b31m\"}",
			`{"time":"0001-01-01T00:00:00Z","started":"9999-01-01T00:00:00Z","memoryBytes":-1,"goroutines":-5}`, `{"time":7}`, `{"version":` + strings.Repeat("[", 100_000), "<html>\x1b[31m",
		} {
			for _, format := range []string{"table", "json"} {
				s := &podProxy{lie: lie}
				code, stdout, stderr := s.statusOf(c, "--pod", "one", "-o", format)
				moves := func(r rune) bool { return r != '\n' && r < ' ' || r >= 0x7f && r < 0xa0 }
				if text := stdout + stderr; !utf8.ValidString(text) || strings.ContainsFunc(text, moves) || text == "" || code > 1 {
					c.Errorf("%.80q as %s: %d, %.200q", lie, format, code, text)
				}
			}
		}
	})
	c.Run(t, "OB-10 options that do not go together are wrong usage", func(c *C) {
		for _, args := range [][]string{{"status", "--live", "pods"}, {"status", "--live", "--failed"}, {"status", "--live", "-o", "yaml"}, {"status", "--pod", "x"}, {"status", "--live", "--page-port", "-1"}, {"status", "--live", "--page-port", "65536"}, {"run", "--page"}, {"run", "--page-auth", "--liveness", "http://127.0.0.1:1/x"}} {
			if code, _, stderr := c.command(args...); code != 2 || !strings.Contains(stderr, "--page") && !strings.Contains(stderr, "--live") {
				c.Errorf("%q: %d: %s", args, code, stderr)
			}
		}
	})
}
