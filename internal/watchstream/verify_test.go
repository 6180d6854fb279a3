package watchstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// TestVerifying counts the lists of one object, each of which verifies the history.
func TestVerifying(t *testing.T) {
	refused := errors.New("connection refused")
	// first has the watch n begin with events, or fail, and the later ones stay open.
	first := func(events string, errs ...error) func(int) (string, error) {
		return func(n int) (string, error) {
			if n == 0 && events != "" {
				return events, nil
			}
			if n < len(errs) {
				return "", errs[n]
			}
			return "", nil
		}
	}
	bookmarked := event("MODIFIED", "a", "11") + event("BOOKMARK", "", "11")
	for _, tt := range []struct {
		name   string
		watch  func(n int) (string, error)
		change func(*Settings)
		want   int
	}{
		{"quiet watches", first(""), nil, 0},
		{"a refused connection", first("", refused), nil, 1},
		{"many refused connections", first("", refused, refused, refused, refused, refused), nil, 1},
		{"a failure of the server", first("", refuse(http.StatusInternalServerError)), nil, 1},
		{"a load balancer without a server", first("", refuse(http.StatusServiceUnavailable)), nil, 1},
		{"a server that knows no roles yet", first("", refuse(http.StatusForbidden)), nil, 1},
		{"a server that is busy", first("", refuse(http.StatusTooManyRequests)), nil, 0},
		{"a lost connection", func(n int) (string, error) {
			if n == 0 {
				return event("MODIFIED", "a", "11"), refused
			}
			return "", nil
		}, nil, 0},
		{"a bookmark, and silence since", first(bookmarked), nil, 1},
		{"a bookmark, and silence since in short watches", first(bookmarked), func(s *Settings) {
			s.ClientTimeout = 20 * time.Second
		}, 1},
		{"a bookmark, and events since in other watches", func(n int) (string, error) {
			switch {
			case n == 0:
				return bookmarked, nil
			case n%2 > 0:
				return "", nil
			}
			return event("MODIFIED", "a", strconv.Itoa(11+n)), nil
		}, func(s *Settings) { s.ClientTimeout = 50 * time.Second }, 0},
		{"bookmarks that come in other watches", func(n int) (string, error) {
			if n%2 > 0 {
				return "", nil
			}
			return event("BOOKMARK", "", "11"), nil
		}, func(s *Settings) { s.ClientTimeout = 50 * time.Second }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{watch: tt.watch, page: func(int, string) (string, error) {
					return `{"metadata":{"resourceVersion":"11"},"items":[]}`, nil
				}}
				settings := settings()
				if tt.change != nil {
					tt.change(settings)
				}
				runFor(t, time.Hour, s, settings)
				if n := verifications(s); len(n) != tt.want || len(s.sizes) != tt.want+1 {
					t.Errorf("got %d lists, %d of them of one object, want one and %d", len(s.sizes), len(n), tt.want)
				}
			})
		})
	}
}

// TestRestoredAfterOutage checks that a stream lists at once when a server has an older history, as
// the versions of that may catch up.
func TestRestoredAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &server{watch: func(int) (string, error) {
			if time.Since(began) < 10*time.Minute {
				return "", errors.New("connection refused")
			}
			return "", nil
		}, page: func(n int, _ string) (string, error) {
			return `{"metadata":{"resourceVersion":"` + []string{"20", "10"}[min(n, 1)] + `"},"items":[]}`, nil
		}}
		r := runFor(t, time.Hour, s, settings())
		at := verifications(s)
		if len(at) != 1 || !slices.Contains(r.calls, "restored") {
			t.Fatalf("got %d lists of one object, and the calls %q", len(at), r.calls)
		}
		if pause := s.at[len(s.at)-1].Sub(at[0]); pause > time.Second {
			t.Errorf("listed only %s after the history was found to be older", pause)
		}
	})
}

// TestVerifyingAgain refuses the lists of one object for hours, while the watch stays open.
func TestVerifyingAgain(t *testing.T) {
	for name, life := range map[string]time.Duration{"one watch": 0, "watches of ten minutes": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := &server{watch: func(n int) (string, error) {
					if n == 0 {
						return "", errors.New("connection refused")
					}
					return "", nil
				}, page: func(n int, _ string) (string, error) {
					if n > 0 && time.Since(began) < 2*time.Hour {
						return "", refuse(http.StatusTooManyRequests)
					}
					return `{"metadata":{"resourceVersion":"11"},"items":[]}`, nil
				}}
				settings := settings()
				settings.InactivityTimeout, settings.ClientTimeout = 0, life
				runFor(t, 6*time.Hour, s, settings)
				at := verifications(s)
				if len(at) < 20 || len(at) > 80 {
					t.Fatalf("got %d lists of one object, want a few in each hour", len(at))
				}
				if at[0].Sub(began) > 2*time.Second || at[1].Sub(began) > 5*time.Second {
					t.Errorf("got the first lists of one object after %s and %s", at[0].Sub(began), at[1].Sub(began))
				}
				if last := at[len(at)-1].Sub(began); last < 2*time.Hour || last > 2*time.Hour+10*time.Minute {
					t.Errorf("got the last list of one object after %s, want the first that is permitted", last)
				}
				if n := len(s.versions); life == 0 && n != 2 {
					t.Errorf("got %d watches, want one that fails and one that stays open", n)
				}
			})
		})
	}
}

// slowServer has an event of version 12 come while the history is being verified.
type slowServer struct{ *server }

func (s slowServer) Page(ctx context.Context, page *rawjson.ListPage, size int) error {
	defer time.Sleep(10 * time.Second) // in a bubble
	return s.server.Page(ctx, page, size)
}

func (s slowServer) Watch(ctx context.Context, q url.Values, opened func(), take func(*rawjson.Frame) error, _ func() error) error {
	if s.versions = append(s.versions, q.Get("resourceVersion")); len(s.versions) == 1 {
		return errors.New("connection refused")
	}
	opened()
	time.Sleep(5 * time.Second) // in a bubble
	var f rawjson.Frame
	if err := errors.Join(f.Scan([]byte(event("MODIFIED", "a", "12"))), take(&f)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// TestVerifyingAnEvent checks that a list is not compared with an event that came after it.
func TestVerifyingAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowServer{&server{}}
		r := runFor(t, time.Minute, s, settings())
		want := []string{"listing", "listed", "connection refused", "works", "MODIFIED a", "end"}
		if !slices.Equal(r.calls, want) || len(s.versions) != 2 {
			t.Errorf("got the calls %q, and %d watches, want %q, and 2", r.calls, len(s.versions), want)
		}
	})
}

// runFor runs a stream for a while.
func runFor(t *testing.T, life time.Duration, s Server, settings *Settings) *recorder {
	ctx, cancel := context.WithTimeout(t.Context(), life)
	defer cancel()
	r := &recorder{}
	st := &Stream{Server: s, Handler: r, Settings: settings, Resource: "things", Log: slog.New(slog.DiscardHandler)}
	st.Run(ctx)
	return r
}

// verifications returns the times of the lists of one object.
func verifications(s *server) (at []time.Time) {
	for i, size := range s.sizes {
		if size == 1 {
			at = append(at, s.at[i])
		}
	}
	return at
}
