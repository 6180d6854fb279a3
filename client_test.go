package kopf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/apiserver"
	"github.com/kopf-go/kopf/internal/credtransport"
	"github.com/kopf-go/kopf/internal/discovery"
)

// The tests in this file check the client against servers with unusual behavior, which the embedded one does not have.

var testPods = Resource{Version: "v1", Plural: "pods", Kind: "Pod", Singular: "pod", Namespaced: true, Preferred: true}

// clientOf returns a client of a handler in the same process, and the buffer of its log.
func clientOf(t *testing.T, h http.Handler, change func(*Settings)) (*Client, *bytes.Buffer) {
	t.Helper()
	s := NewSettings()
	if change != nil {
		change(s)
	}
	info := &ConnectionInfo{Server: "http://server.test", HTTPClient: &http.Client{Transport: &apiserver.Transport{Handler: h}}}
	var logged bytes.Buffer
	c := newLoginClient(info.login, s, slog.New(slog.NewTextHandler(&logged, nil)))
	c.kinds.Set([]discovery.Resource{discovery.Resource(testPods)})
	t.Cleanup(c.close)
	return c, &logged
}

// answer is one response of a test server.
type answer struct {
	code   int // 200 if 0
	header string
	text   string
	cut    bool          // drop the connection after the text
	delay  time.Duration // before the response
}

func (a answer) serve(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(a.delay):
	case <-r.Context().Done():
		return
	}
	if key, value, ok := strings.Cut(a.header, ": "); ok {
		w.Header().Set(key, value)
	}
	if a.code != 0 {
		w.WriteHeader(a.code)
	}
	if a.text == "" && a.cut {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, a.text)
	if a.cut {
		panic(http.ErrAbortHandler)
	}
}

const (
	podText       = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"ns","resourceVersion":"1"}}`
	throttledText = `{"kind":"Status","code":429,"reason":"TooManyRequests","message":"slow down","details":{"retryAfterSeconds":7}}`
)

var podRef = ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "p"}

func TestClientRepeats(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // the start of the clocks of bubbles
	few := func(s *Settings) { s.Networking.ErrorBackoffs = seconds(1, 2) }
	enforced := func(s *Settings) { few(s); s.Networking.EnforceRetryAfter = true }
	get := func(c *Client) error { return c.Get(context.Background(), podRef, &Body{}, nil) }
	create := func(c *Client) error {
		return c.Create(context.Background(), map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "p", "namespace": "ns"}}, nil)
	}
	tests := []struct {
		name    string
		change  func(*Settings)
		call    func(*Client) error
		answers []answer
		code    int     // of the error; 0 for success
		other   string  // a part of an error that is not the server's
		pauses  []int64 // whole seconds between the requests
	}{
		{"AC-84 server errors", few, get, []answer{{code: 500}, {code: 503}, {text: podText}}, 0, "", []int64{1, 2}},
		{"AC-84 lost connections", few, get, []answer{{cut: true}, {text: podText[:9], cut: true}, {text: podText}}, 0, "", []int64{1, 2}},
		{"AC-84 the last error is raised", few, get, []answer{{code: 500}, {code: 500}, {code: 502}}, 502, "", []int64{1, 2}},
		{"AC-84 time-outs", func(s *Settings) { few(s); s.Networking.RequestTimeout = 10 * time.Second }, get,
			[]answer{{delay: time.Minute}, {text: podText}}, 0, "", []int64{11}},
		{"AC-84 no backoffs, no retries", func(s *Settings) { s.Networking.ErrorBackoffs = nil }, get, []answer{{code: 500}}, 500, "", nil},
		{"AC-84 refusals are final", few, get, []answer{{code: 422}}, 422, "", nil},
		{"a page is of something on the way, which may let the next one through", few, get, []answer{{code: 403, header: "Content-Type: text/html; charset=utf-8", text: "<html>not yet</html>"}, {text: podText}}, 0, "", []int64{1}},
		{"but a creation is not repeated for it", few, create, []answer{{code: 403, header: "Content-Type: text/html", text: "<html>not yet</html>"}}, 403, "", nil},
		{"AC-T16 a missing permission", few, get, []answer{{code: 403}}, 403, "", nil},
		{"AC-86 the wish in the body", few, get, []answer{{code: 429, text: throttledText}, {text: podText}}, 0, "", []int64{7}},
		{"AC-86 the wish in the header", few, get, []answer{{code: 429, header: "Retry-After: 5"}, {text: podText}}, 0, "", []int64{5}},
		{"AC-86 the larger of both pauses", func(s *Settings) { s.Networking.ErrorBackoffs = seconds(30) }, get,
			[]answer{{code: 429, header: "Retry-After: 5"}, {text: podText}}, 0, "", []int64{30}},
		{"AC-86 the wish enforced", func(s *Settings) { enforced(s); s.Networking.ErrorBackoffs = seconds(30) }, get,
			[]answer{{code: 429, header: "Retry-After: 5"}, {text: podText}}, 0, "", []int64{5}},
		{"AC-T17 a date", few, get, []answer{{code: 429, header: "Retry-After: " + start.Add(40*time.Second).Format(http.TimeFormat)}, {text: podText}}, 0, "", []int64{40}},
		{"AC-T17 also with 503", few, get, []answer{{code: 503, header: "Retry-After: 5"}, {text: podText}}, 0, "", []int64{5}},
		{"AC-T17 nonsense", few, get, []answer{{code: 429, header: "Retry-After: soon"}, {text: podText}}, 0, "", []int64{1}},
		{"creations are repeated if the server says that they were not begun", few, create, []answer{{code: 429}, {text: podText}}, 0, "", []int64{1}},
		{"creations are repeated when the server asks for it", few, create, []answer{{code: 503, header: "Retry-After: 3"}, {text: podText}}, 0, "", []int64{3}},
		{"creations that may have been carried out are not repeated", few, create, []answer{{code: 500}}, 500, "", nil},
		{"creations whose answer was lost are not repeated", few, create, []answer{{cut: true}}, 0, "connection reset", nil},
		{"what is no object is not asked for again", few, get, []answer{{text: "<html>log in</html>"}}, 0, "an object in JSON is expected", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var times []time.Time
				c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					times = append(times, time.Now())
					tt.answers[min(len(times), len(tt.answers))-1].serve(w, r)
				}), tt.change)
				err := tt.call(c)
				if got := StatusCode(err); got != tt.code {
					t.Errorf("the error is %v, want the code %d", err, tt.code)
				}
				if tt.other != "" && (err == nil || !strings.Contains(err.Error(), tt.other)) {
					t.Errorf("the error is %v, want one with %q", err, tt.other)
				}
				if tt.code == 0 && tt.other == "" && err != nil {
					t.Error(err)
				}
				if len(times) != len(tt.pauses)+1 {
					t.Fatalf("%d requests, want %d", len(times), len(tt.pauses)+1)
				}
				for i, want := range tt.pauses {
					got := times[i+1].Sub(times[i]).Seconds()
					if got < float64(want) || got > float64(want)*1.11 { // jitter is at most a tenth
						t.Errorf("pause %d is %.2f s, want %d", i, got, want)
					}
				}
			})
		})
	}
}

func TestClientErrors(t *testing.T) {
	html := "<html>" + strings.Repeat("x", 1000)
	tests := []struct {
		name   string
		answer answer
		want   APIError
	}{
		{"AC-87 a status", answer{code: 422, text: `{"kind":"Status","reason":"Invalid","message":"no","details":{"name":"p","causes":[{"reason":"R","message":"M","field":"spec.x"}]}}`},
			APIError{Code: 422, Reason: "Invalid", Message: "no", Name: "p", Causes: []ErrorCause{{"R", "M", "spec.x"}}}},
		{"AC-87 other JSON is no status", answer{code: 404, text: `{"kind":"Pod","message":"x"}`}, APIError{Code: 404, Reason: "Not Found", Message: `{"kind":"Pod","message":"x"}`}},
		{"AC-87 long text is cut", answer{code: 404, text: html}, APIError{Code: 404, Reason: "Not Found", Message: html[:256] + "..."}},
		{"AC-87 nothing", answer{code: 409}, APIError{Code: 409, Reason: "Conflict"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Audit-Id", "7")
				tt.answer.serve(w, r)
			}), nil)
			err := c.Get(context.Background(), podRef, &Body{}, nil)
			var got *APIError
			if !errors.As(err, &got) {
				t.Fatalf("the error is %v", err)
			}
			if id := got.Header.Get("Audit-Id"); id != "7" {
				t.Errorf("the header of the answer has the id %q", id)
			}
			got.Header = nil
			tt.want.Method, tt.want.Path = "GET", "/api/v1/namespaces/ns/pods/p"
			if diff := cmp.Diff(tt.want, *got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestClientRequests(t *testing.T) {
	half := 1500 * time.Millisecond
	tests := []struct {
		name string
		call func(*Client) error
		want string // method, URL, content type, body
		fail string // a part of the error, if no request must be sent
	}{
		{"AC-81 get", func(c *Client) error {
			return c.Get(context.Background(), podRef, &Body{}, &GetOptions{Subresource: "status"})
		},
			"GET /api/v1/namespaces/ns/pods/p/status", ""},
		{"AC-82 a merge patch", func(c *Client) error {
			_, err := c.Patch(context.Background(), podRef, map[string]any{"a": nil}, &PatchOptions{Subresource: "scale", DryRun: true})
			return err
		}, `PATCH /api/v1/namespaces/ns/pods/p/scale?dryRun=All&fieldManager=kopf application/merge-patch+json {"a":null}`, ""},
		{"an apply", func(c *Client) error {
			return c.Apply(context.Background(), map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "namespace": "ns"}},
				&WriteOptions{FieldManager: "me", Force: true})
		}, `PATCH /api/v1/namespaces/ns/pods/p?fieldManager=me&force=true application/apply-patch+yaml {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"ns"}}`, ""},
		{"a deletion", func(c *Client) error {
			return c.Delete(context.Background(), podRef, &DeleteOptions{UID: "u", ResourceVersion: "3", Propagation: "Orphan"})
		}, `DELETE /api/v1/namespaces/ns/pods/p application/json {"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"3","uid":"u"},"propagationPolicy":"Orphan"}`, ""},
		{"a grace period is not cut off", func(c *Client) error {
			return c.Delete(context.Background(), podRef, &DeleteOptions{GracePeriod: &half})
		}, `DELETE /api/v1/namespaces/ns/pods/p application/json {"apiVersion":"v1","gracePeriodSeconds":2,"kind":"DeleteOptions"}`, ""},
		{"a deletion without a name is not that of all", func(c *Client) error {
			return c.Delete(context.Background(), ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns"}, nil)
		}, "", `invalid name "" of the Pod`},
		{"a reading without a name", func(c *Client) error {
			return c.Get(context.Background(), ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns"}, &Body{}, nil)
		}, "", `invalid name "" of the Pod`},
		{"a name is one part of a path", func(c *Client) error {
			return c.Delete(context.Background(), ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "../../secrets"}, nil)
		}, "", "name"},
		{"a name has no query", func(c *Client) error {
			return c.Get(context.Background(), ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "system:a?b"}, &Body{}, nil)
		}, "GET /api/v1/namespaces/ns/pods/system:a%3Fb", ""},
		{"a namespace is one part of a path", func(c *Client) error {
			return c.Delete(context.Background(), ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "..", Name: "p"}, nil)
		}, "", `invalid name ".." of a namespace`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, _ := io.ReadAll(r.Body)
				got = strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.RequestURI, r.Header.Get("Content-Type"), data))
				if agent := r.Header.Get("User-Agent"); agent != "kopf-go/"+Version {
					t.Errorf("the user agent is %q", agent)
				}
				_, _ = io.WriteString(w, podText)
			}), nil)
			err := tt.call(c)
			if tt.fail == "" && err != nil || tt.fail != "" && (err == nil || !strings.Contains(err.Error(), tt.fail)) {
				t.Errorf("the error is %v, want one with %q", err, tt.fail)
			}
			if got != tt.want {
				t.Errorf("the request is\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestClientStores(t *testing.T) {
	c, _ := clientOf(t, http.HandlerFunc(answer{text: podText}.serve), nil)
	type pod struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]string `json:"metadata"`
	}
	sent := pod{"v1", "Pod", map[string]string{"name": "p", "namespace": "ns"}}
	t.Run("a struct that cannot be written to", func(t *testing.T) {
		if err := c.Create(context.Background(), sent, nil); err == nil || !strings.Contains(err.Error(), "want a pointer or a map") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a pointer", func(t *testing.T) {
		mine := sent
		if err := c.Create(context.Background(), &mine, nil); err != nil || mine.Metadata["resourceVersion"] != "1" {
			t.Errorf("got %v, %v", mine, err)
		}
	})
	t.Run("a map", func(t *testing.T) {
		mine := map[string]any{"apiVersion": "v1", "kind": "Pod", "gone": 1, "metadata": map[string]any{"name": "p", "namespace": "ns"}}
		if err := c.Create(context.Background(), mine, nil); err != nil || mine["gone"] != nil {
			t.Errorf("got %v, %v", mine, err)
		}
	})
}

func TestClientLists(t *testing.T) {
	pages := func(w http.ResponseWriter, r *http.Request) {
		text := `{"metadata":{"resourceVersion":"9","continue":"more"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`
		if r.URL.Query().Get("continue") == "more" {
			text = `{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"c"}}]}`
		}
		if strings.Contains(r.URL.Path, "/pods/") {
			text = podText
		}
		_, _ = io.WriteString(w, text)
	}
	t.Run("AC-T12 pages", func(t *testing.T) {
		c, _ := clientOf(t, http.HandlerFunc(pages), nil)
		var got []string
		for b, err := range c.List(context.Background(), ObjectReference{APIVersion: "v1", Kind: "Pod"}, nil) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b.APIVersion()+" "+b.Kind()+" "+b.Name())
		}
		if diff := cmp.Diff([]string{"v1 Pod a", "v1 Pod b", "v1 Pod c"}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("requests within a list, with no place left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := clientOf(t, http.HandlerFunc(pages), func(s *Settings) { s.Networking.MaxInFlight = 1 })
			begun := time.Now()
			for b, err := range c.List(context.Background(), ObjectReference{APIVersion: "v1", Kind: "Pod"}, nil) {
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Get(context.Background(), ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: b.Name()}, &Body{}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if elapsed := time.Since(begun); elapsed > time.Second {
				t.Errorf("took %s", elapsed)
			}
		})
	})
	t.Run("work within a list takes what it takes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := clientOf(t, http.HandlerFunc(pages), nil)
			for _, err := range c.List(context.Background(), ObjectReference{APIVersion: "v1", Kind: "Pod"}, nil) {
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(4 * time.Minute)
			}
		})
	})
	for name, text := range map[string]string{
		"before the items":     `{"kind":"PodList","metadata":{"resourceVersion":"9"}`,
		"after the items":      `{"items":[{"metadata":{"name":"a"}}]`,
		"within the items":     `{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"}}`,
		"after another object": `{}`,
		"after something else": `{"kind":"Status","status":"Success"}`,
	} {
		t.Run("AC-T11 a list that ends "+name+" is not complete", func(t *testing.T) {
			c, _ := clientOf(t, http.HandlerFunc(answer{text: text, cut: strings.HasPrefix(text, `{"k`)}.serve), func(s *Settings) { s.Networking.ErrorBackoffs = nil })
			if err := c.list(context.Background(), testPods, "", map[string][]string{}, 500, true, func(*Body) bool { return true }); err == nil {
				t.Error("the list counts as complete")
			}
		})
	}
	t.Run("AC-108 all at once", func(t *testing.T) {
		query := ""
		c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { query = r.URL.RawQuery; pages(w, r) }), nil)
		if err := c.list(context.Background(), testPods, "", map[string][]string{"continue": {"more"}}, 0, true, func(*Body) bool { return true }); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(query, "limit=") {
			t.Errorf("the query is %s; a PageSize of 0 means all at once", query)
		}
	})
}

func TestClientLends(t *testing.T) {
	var token string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { token = r.Header.Get("Authorization") }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	c, err := NewClient(&ConnectionInfo{Server: server.URL, Token: "secret"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for name, url := range map[string]string{"by a redirect": server.URL, "by a request": other.URL} {
		t.Run("credentials are not taken to other hosts "+name, func(t *testing.T) {
			token = ""
			if resp, err := c.HTTPClient().Get(url); err == nil {
				credtransport.Drain(resp.Body)
			}
			if token != "" {
				t.Errorf("another host has got %q", token)
			}
		})
	}
}

func TestClientTellsRefusals(t *testing.T) {
	for _, code := range []int{401, 403} {
		for what, ask := range map[string]func(c *Client) (errs []error){
			"a listing": func(c *Client) (errs []error) {
				for _, err := range c.List(context.Background(), ObjectReference{APIVersion: "v1", Kind: "Pod"}, nil) {
					errs = append(errs, err)
				}
				return errs
			},
			"a watch": func(c *Client) (errs []error) {
				for _, err := range c.Watch(context.Background(), ObjectReference{APIVersion: "v1", Kind: "Pod"}, nil) {
					errs = append(errs, err)
				}
				return errs
			},
		} {
			t.Run(fmt.Sprintf("AC-87 %s is refused with %d", what, code), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, _ := clientOf(t, http.HandlerFunc(answer{code: code}.serve), nil)
					if errs := ask(c); len(errs) != 1 || StatusCode(errs[0]) != code {
						t.Errorf("got %v, want one error with the code", errs)
					}
				})
			})
		}
		t.Run(fmt.Sprintf("AC-87 what others ask is refused with %d", code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := clientOf(t, http.HandlerFunc(answer{code: code}.serve), nil)
				resp, err := c.HTTPClient().Get("http://server.test/x")
				if err != nil || resp.StatusCode != code {
					t.Fatalf("got %v, %v", resp, err)
				}
				credtransport.Drain(resp.Body)
			})
		})
	}
}

// TestObjectWithoutGet checks that a list can replace a forbidden get, and the conclusions from a list.
func TestObjectWithoutGet(t *testing.T) {
	const item = `{"metadata": {"name": %q, "namespace": "default", "uid": %q}}`
	list := func(next string, names ...string) answer {
		var items []string
		for _, name := range names {
			items = append(items, fmt.Sprintf(item, name, "uid-of-"+name))
		}
		return answer{text: fmt.Sprintf(`{"kind": "ThingList", "metadata": {"resourceVersion": "7", "continue": %q}, "items": [%s]}`, next, strings.Join(items, ","))}
	}
	for name, test := range map[string]struct {
		lists []answer
		code  int // of the error; 0 for success
	}{
		"the object":                        {[]answer{list("", "a,b=c")}, 0},
		"nothing":                           {[]answer{list("")}, 404},
		"others":                            {[]answer{list("", "b", "c")}, 404},
		"the object on a later page":        {[]answer{list("more", "b"), list("", "a,b=c", "d")}, 0},
		"a refusal":                         {[]answer{{code: 403}}, 403},
		"a resource that is not served":     {[]answer{{code: 404}}, 403},
		"a failure after a page of objects": {[]answer{list("more", "a,b=c"), {code: 410}}, 403},
	} {
		t.Run("DF-27 the list has "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lists := test.lists
				c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, "/a,b=c") {
						answer{code: 403}.serve(w, r)
						return
					}
					if got := r.URL.Query().Get("fieldSelector"); got != `metadata.name=a\,b\=c` {
						t.Errorf("the field selector is %s", got)
					}
					lists[0].serve(w, r)
					lists = lists[1:]
				}), nil)
				body, err := c.object(t.Context(), thingsResource, "default", "a,b=c")
				if StatusCode(err) != test.code || err == nil && (body.uid != "uid-of-a,b=c" || body.Kind() != "Thing") {
					t.Errorf("got %v, %v, want the code %d", body, err, test.code)
				}
				if len(lists) > 0 {
					t.Errorf("%d pages were not asked for", len(lists))
				}
			})
		})
	}
}

func TestLeadsTo(t *testing.T) {
	for _, tt := range []struct {
		server, target string
		want           bool
	}{
		{"https://api.test/prefix", "https://api.test:443/version", true},
		{"https://API.test:443", "https://api.test/version", true},
		{"http://api.test:80", "http://api.test/version", true},
		{"https://api.test", "http://api.test/version", false},
		{"https://api.test", "https://api.test:444/version", false},
		{"https://api.test", "https://api.test.evil/version", false},
		{"https://[::1]:6443", "https://[::1]:6443/version", true},
	} {
		target, err := url.Parse(tt.target)
		if err != nil {
			t.Fatal(err)
		}
		if got := apirequest.LeadsTo(tt.server, target); (got == nil) != tt.want {
			t.Errorf("from %s to %s: %v", tt.server, tt.target, got)
		}
	}
}

func TestDiscovery(t *testing.T) {
	classic := map[string]string{
		"/api":            `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1":         `{"resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["list"]},{"name":"pods/status","kind":"Pod"}]}`,
		"/apis":           `{"kind":"APIGroupList","groups":[{"name":"ok.dev","versions":[{"version":"v2"},{"version":"v1"}],"preferredVersion":{"version":"v2"}},{"name":"bad.dev","versions":[{"version":"v1"}]}]}`,
		"/apis/ok.dev/v2": `{"resources":[{"name":"things","kind":"Thing"}]}`,
	}
	serve := func(bad answer) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			text, ok := classic[r.URL.Path]
			switch {
			case strings.HasPrefix(r.URL.Path, "/apis/bad.dev"):
				bad.serve(w, r)
			case !ok:
				w.WriteHeader(404)
			default:
				_, _ = io.WriteString(w, text)
			}
		}
	}
	want := []string{"pods.v1 [status] true", "things.v2.ok.dev [] true"}
	for _, tt := range []struct {
		name string
		bad  answer
	}{
		{"an error", answer{code: 503}},
		{"a lost connection", answer{cut: true}},
		{"a page", answer{text: "<html>"}},
		{"silence", answer{delay: time.Hour}},
	} {
		t.Run("AC-T15 a broken group answers with "+tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := clientOf(t, serve(tt.bad), nil)
				begun := time.Now()
				found, broken, err := c.discover(context.Background(), nil)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, r := range found {
					got = append(got, fmt.Sprint(r.Name(), " ", r.Subresources, " ", r.Preferred))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if len(broken) != 1 || broken["bad.dev"] == nil {
					t.Errorf("broken are %v", broken)
				}
				if elapsed := time.Since(begun); elapsed > 20*time.Second && tt.bad.delay == 0 {
					t.Errorf("took %s", elapsed)
				}
			})
		})
	}
	t.Run("AC-T15 a kind of a broken group", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := clientOf(t, serve(answer{code: 503}), nil)
			_, err := c.resolve(context.Background(), "bad.dev/v1", "Bad")
			if StatusCode(err) != 503 {
				t.Errorf("the error is %v, which does not tell why", err)
			}
		})
	})
}

func FuzzStatus(f *testing.F) {
	f.Add(429, "5", []byte(throttledText))
	f.Add(422, "Fri, 31 Dec 2100 23:59:59 GMT", []byte(`{"kind":"Status","details":{"causes":[{"field":1}],"retryAfterSeconds":1e300}}`))
	f.Add(500, "-1", []byte("<html>\xff"+strings.Repeat("é", 300)))
	f.Add(503, "NaN", []byte(`{"kind":"Status","reason":["x"],"details":null}`))
	f.Add(400, "1e400", []byte(`{"kind":"Status","code":"400"}`))
	f.Fuzz(func(t *testing.T, code int, wish string, text []byte) {
		resp := &http.Response{StatusCode: code, Header: http.Header{"Retry-After": {wish}}, Body: io.NopCloser(bytes.NewReader(text))}
		e := newAPIError("GET", "/x", resp)
		if e.Code != code || e.RetryAfter < 0 || e.RetryAfter > apirequest.MaxRetryAfter {
			t.Errorf("got %+v", e)
		}
		if !bytes.Contains(text, []byte("Status")) && len(e.Message) > apirequest.MaxErrorText+len("...") {
			t.Errorf("the message has %d bytes", len(e.Message))
		}
		if body, err := ParseBody(text); err == nil {
			if e := statusOf(body, "/x"); e.(*APIError).RetryAfter < 0 || e.(*APIError).RetryAfter > apirequest.MaxRetryAfter {
				t.Errorf("the event has led to %+v", e)
			}
		}
	})
}

func TestDenials(t *testing.T) {
	for message, want := range map[string]bool{
		`admission webhook "a.b.dev" denied the request: no`:                                                                                   true,
		`admission webhook "a.b.dev" denied the request without explanation`:                                                                   true,
		`things.example.com "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`:                               true,
		`things.example.com "a" is forbidden: User "u" cannot patch resource "things" in API group "example.com"`:                              false,
		`Internal error occurred: failed calling webhook "a.b.dev": an error on the server ("admission webhook "x" denied the request")`:       false,
		`failed calling webhook "a": "things "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"`:             false,
		`things.example.com "a" is forbidden: exceeded quota, said of ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`:       false,
		`Internal error occurred: failed calling webhook "a.b.dev": failed to call webhook: dial tcp 127.0.0.1:1: connect: connection refused`: false,
		``: false,
	} {
		if got := (&APIError{Code: 403, Message: message}).denied(); got != want {
			t.Errorf("%q: got %t, want %t", message, got, want)
		}
	}
}
