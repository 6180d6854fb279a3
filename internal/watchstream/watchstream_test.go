package watchstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// refusal is an error of the fake server.
type refusal struct{ Failure }

func (r *refusal) Error() string { return http.StatusText(r.Code) }

// server responds to the n-th list and the n-th watch, from 0, with the results of its functions.
type server struct {
	page     func(n int, next string) (text string, err error)
	watch    func(n int) (events string, err error) // without both results, the watch stays open
	pages    int
	versions []string // of the watches
	sizes    []int    // of the pages
	at       []time.Time
}

func (s *server) Page(_ context.Context, page *rawjson.ListPage, size int) error {
	s.sizes, s.at = append(s.sizes, size), append(s.at, time.Now())
	text, err := `{"metadata":{"resourceVersion":"10"},"items":[]}`, error(nil)
	if s.page != nil {
		text, err = s.page(s.pages, page.Next)
	}
	s.pages++
	if err != nil {
		return err
	}
	return page.Read(strings.NewReader(text))
}

func (s *server) Watch(ctx context.Context, query url.Values, opened func(), take func(*rawjson.Frame) error, _ func() error) error {
	s.versions = append(s.versions, query.Get("resourceVersion"))
	var events string
	var err error
	if s.watch != nil {
		events, err = s.watch(len(s.versions) - 1)
	}
	if events != "" || err == nil {
		opened()
	}
	var f rawjson.Frame
	for line := range strings.Lines(events) {
		if err := f.Scan([]byte(line)); err != nil {
			return err
		}
		if err := take(&f); err != nil {
			return err
		}
	}
	if events == "" && err == nil {
		<-ctx.Done()
	}
	return err
}

func (s *server) Failure(err error) Failure {
	if r := (*refusal)(nil); errors.As(err, &r) {
		return r.Failure
	}
	return Failure{}
}

// recorder records the calls of the handler.
type recorder struct {
	Ignore
	calls []string
}

func (r *recorder) OnListing()      { r.calls = append(r.calls, "listing") }
func (r *recorder) OnListed(string) { r.calls = append(r.calls, "listed") }
func (r *recorder) OnRestored()     { r.calls = append(r.calls, "restored") }
func (r *recorder) OnEnd()          { r.calls = append(r.calls, "end") }
func (r *recorder) OnListError(err error) {
	r.calls = append(r.calls, "not listed: "+err.Error())
}

func (r *recorder) OnEvent(t string, h *rawjson.Header, raw []byte) {
	r.calls = append(r.calls, t+" "+rawjson.Unquote(h.Name.Of(raw)))
}

func (r *recorder) OnStatus(err error) {
	if err == nil {
		err = errors.New("works")
	}
	r.calls = append(r.calls, err.Error())
}

func event(t, name, version string) string {
	return `{"type":"` + t + `","object":{"metadata":{"name":"` + name + `","resourceVersion":"` + version + `"}}}` + "\n"
}

func refuse(code int) error { return &refusal{Failure{Answered: true, Code: code}} }

// settings returns the default settings.
func settings() *Settings {
	return &Settings{ReconnectBackoff: 100 * time.Millisecond, InactivityTimeout: time.Minute, PageSize: 500}
}

func TestStream(t *testing.T) {
	page := func(name, version, next string) string {
		return `{"metadata":{"resourceVersion":"` + version + `","continue":"` + next + `"},"items":[{"metadata":{"name":"` + name + `"}}]}`
	}
	older := func(n int, _ string) (string, error) { // from the second list on
		return `{"metadata":{"resourceVersion":"` + []string{"10", "12"}[min(n, 1)] + `"},"items":[]}`, nil
	}
	for _, tt := range []struct {
		name     string
		server   server
		life     time.Duration
		calls    []string
		versions []string
	}{
		{"goes on from the last version", server{watch: func(n int) (string, error) {
			if n > 0 {
				return "", nil
			}
			return event("ADDED", "a", "11") + event("NEWS", "b", "12") + event("DELETED", "a", "13") + event("BOOKMARK", "", "20"), nil
		}}, 10 * time.Second, []string{"listing", "listed", "ADDED a", "DELETED a", "end"}, []string{"10", "20"}},
		{"lists in pages", server{page: func(n int, next string) (string, error) {
			if next == "" {
				return page("a", "10", "more"), nil
			}
			return page("b", "10", ""), nil
		}}, 10 * time.Second, []string{"listing", " a", " b", "listed", "end"}, []string{"10"}},
		{"lists anew what has expired", server{watch: func(n int) (string, error) {
			if n > 0 {
				return "", nil
			}
			return "", refuse(http.StatusGone)
		}}, 10 * time.Second, []string{"listing", "listed", "listing", "listed", "end"}, []string{"10", "10"}},
		{"reports a failure once, and its end", server{watch: func(n int) (string, error) {
			if n > 2 {
				return "", nil
			}
			return "", refuse(http.StatusForbidden)
		}}, 10 * time.Second, []string{"listing", "listed", "Forbidden", "works", "end"}, []string{"10", "10", "10", "10"}},
		{"reports each listing that is refused", server{page: func(n int, _ string) (string, error) {
			if n < 2 {
				return "", refuse(http.StatusForbidden)
			}
			return page("a", "10", ""), nil
		}}, 10 * time.Second, []string{"listing", "Forbidden", "not listed: Forbidden", "listing", "not listed: Forbidden", "listing", " a", "works", "listed", "end"}, []string{"10"}},
		{"notices an older history after a lost connection", server{page: older, watch: func(n int) (string, error) {
			switch n {
			case 0:
				return event("MODIFIED", "a", "30"), nil
			case 1:
				return "", errors.New("connection refused")
			}
			return "", nil
		}}, 30 * time.Second, []string{"listing", "listed", "MODIFIED a", "connection refused", "works", "listing", "restored", "listing", "listed", "end"}, []string{"10", "30", "30", "12"}},
		{"notices an older history after a silent connection", server{page: older, watch: func(n int) (string, error) {
			if n == 0 {
				return event("MODIFIED", "a", "30") + event("BOOKMARK", "", "30"), nil
			}
			return "", nil
		}}, 90 * time.Second, []string{"listing", "listed", "MODIFIED a", "listing", "restored", "listing", "listed", "end"}, []string{"10", "30", "30", "12"}},
		{"continues after a lost connection", server{page: func(n int, _ string) (string, error) {
			return page("a", "30", ""), nil
		}, watch: func(n int) (string, error) {
			if n == 0 {
				return "", errors.New("connection refused")
			}
			return "", nil
		}}, 30 * time.Second, []string{"listing", " a", "listed", "connection refused", "works", "end"}, []string{"30", "30"}},
		{"notices a restore from a backup", server{watch: func(n int) (string, error) {
			if n > 0 {
				return "", nil
			}
			return event("MODIFIED", "a", "30") + event("BOOKMARK", "", "12"), nil
		}}, 10 * time.Second, []string{"listing", "listed", "MODIFIED a", "listing", "restored", "listing", "listed", "end"}, []string{"10", "10"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.life)
				defer cancel()
				var r recorder
				(&Stream{Server: &tt.server, Handler: &r, Settings: settings(), Resource: "things", Log: slog.New(slog.DiscardHandler)}).Run(ctx)
				if diff := cmp.Diff(tt.calls, r.calls); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				if diff := cmp.Diff(tt.versions, tt.server.versions); diff != "" {
					t.Errorf("watched from (-want +got)\n%s", diff)
				}
			})
		})
	}
}

// TestPages keeps a watch running while the pages of a list are read and expire.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{page: func(n int, next string) (string, error) {
			if next != "" {
				return "", refuse(http.StatusGone)
			}
			if n > 0 {
				return `{"metadata":{"resourceVersion":"20"},"items":[]}`, nil
			}
			return `{"metadata":{"resourceVersion":"10","continue":"more"},"items":[]}`, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var r recorder
		(&Stream{Server: s, Handler: &r, Settings: settings(), Log: slog.New(slog.DiscardHandler), Overlaps: true}).Run(ctx)
		if want := []int{500, 500, 0}; !slices.Equal(s.sizes, want) {
			t.Errorf("got pages of %v, want %v: all at once when pages have expired", s.sizes, want)
		}
		if s.versions[len(s.versions)-1] != "20" || !slices.Contains(r.calls, "listed") {
			t.Errorf("watched from %q, after the calls %q", s.versions, r.calls)
		}
	})
}

// TestOutage uses a server that does not respond for an hour.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &server{page: func(int, string) (string, error) {
			if time.Since(began) < time.Hour {
				return "", errors.New("connection refused")
			}
			return `{"metadata":{"resourceVersion":"10"},"items":[]}`, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		var r recorder
		(&Stream{Server: s, Handler: &r, Settings: settings(), Log: slog.New(slog.DiscardHandler)}).Run(ctx)
		for i := 1; i < len(s.at) && s.at[i].Sub(began) < time.Hour; i++ {
			if pause := s.at[i].Sub(s.at[i-1]); pause > 12*time.Second {
				t.Errorf("got a pause of %s", pause)
			}
		}
		if want := []string{"connection refused", "works"}; !slices.Equal(slices.DeleteFunc(r.calls, func(c string) bool { return c == "listing" || c == "listed" || c == "end" }), want) {
			t.Errorf("got the calls %q, want %q", r.calls, want)
		}
	})
}

func TestPauses(t *testing.T) {
	s := &Stream{Server: &server{}, Settings: settings()}
	for _, tt := range []struct {
		idle        int
		err         error
		least, most time.Duration
	}{
		{1, nil, 100 * time.Millisecond, 100 * time.Millisecond},
		{3, nil, 400 * time.Millisecond, 480 * time.Millisecond},
		{100, nil, time.Minute, 72 * time.Second},
		{100, errors.New("connection refused"), 10 * time.Second, 12 * time.Second},
		{100, refuse(http.StatusServiceUnavailable), time.Minute, 72 * time.Second},
		{100, &refusal{Failure{Answered: true, Code: 503, Proxy: true}}, 10 * time.Second, 12 * time.Second},
		{100, &refusal{Failure{Answered: true, Code: 500, Proxy: true}}, time.Minute, 72 * time.Second},
		{100, refuse(http.StatusInternalServerError), time.Minute, 72 * time.Second},
		{1, &refusal{Failure{Answered: true, Code: 429, RetryAfter: time.Hour}}, time.Hour, time.Hour},
	} {
		s.idle = tt.idle
		if got := s.pause(tt.err); got < tt.least || got > tt.most {
			t.Errorf("after %d connections and %v, got %s, want from %s to %s", tt.idle, tt.err, got, tt.least, tt.most)
		}
	}
	s.Settings.ReconnectBackoff = 5 * time.Minute // longer than the limits
	for _, idle := range []int{1, 2, 10} {
		s.idle = idle
		if got := s.pause(errors.New("connection refused")); got < s.Settings.ReconnectBackoff {
			t.Errorf("got a pause of %s for the attempt %d of an outage, want %s at least", got, idle, s.Settings.ReconnectBackoff)
		}
	}
}

// TestShortWatches uses servers that end quiet watches as early as the settings ask for.
func TestShortWatches(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"inactivity": func(s *Settings) { s.InactivityTimeout = 2 * time.Second },
		"client":     func(s *Settings) { s.ClientTimeout = 2 * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{watch: func(n int) (string, error) {
					if n < 12 { // the backoff grows
						return "", errors.New("connection refused")
					}
					return "", nil
				}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var r recorder
				settings := settings()
				change(settings)
				(&Stream{Server: s, Handler: &r, Settings: settings, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
				if want := []string{"listing", "listed", "connection refused", "works", "end"}; !slices.Equal(r.calls, want) {
					t.Errorf("got the calls %q, want %q", r.calls, want)
				}
				if n := len(s.versions); n < 1000 {
					t.Errorf("got %d watches in an hour, want one each 2 s", n)
				}
			})
		})
	}
}

// TestRefusals lists the errors that another list may fix.
func TestRefusals(t *testing.T) {
	s := &Stream{Server: &server{}}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{refuse(http.StatusForbidden), true},
		{refuse(http.StatusTooManyRequests), false},
		{refuse(http.StatusInternalServerError), false},
		{&refusal{Failure{Answered: true, Code: http.StatusInternalServerError, Watched: true}}, true},
		{rawjson.ErrUnreadable, true},
		{errEmpty, true},
		{errors.New("connection refused"), false},
		{nil, false},
	} {
		if got := s.refused(tt.err); got != tt.want {
			t.Errorf("%v: got %t, want %t", tt.err, got, tt.want)
		}
	}
}
