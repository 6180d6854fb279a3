package kopf

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/watchstream"
)

// fakeServer is a test server with a response for the n-th list and watch, counted from 0.
type fakeServer struct {
	list, watch func(n int, w http.ResponseWriter, r *http.Request)
	lists       []time.Time
	watches     []time.Time
	versions    []string // from which watches have continued
	ends        []time.Time

	verifications int // the lists of one object
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "" {
		s.lists = append(s.lists, time.Now())
		if r.URL.Query().Get("limit") == "1" {
			s.verifications++
		}
		if s.list == nil {
			_, _ = io.WriteString(w, emptyList)
		} else {
			s.list(len(s.lists)-1, w, r)
		}
		return
	}
	s.watches = append(s.watches, time.Now())
	s.versions = append(s.versions, r.URL.Query().Get("resourceVersion"))
	s.watch(len(s.watches)-1, w, r)
	s.ends = append(s.ends, time.Now())
}

const emptyList = `{"metadata":{"resourceVersion":"10"},"items":[]}`

func eventText(kind EventType, name, version string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"resourceVersion":%q}}}`+"\n", kind, name, version)
}

// holdOpen keeps the watch open until the client ends it.
func holdOpen(w http.ResponseWriter, r *http.Request) {
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// recordedStream records the events of a stream.
type recordedStream struct {
	watchstream.Ignore
	calls    *[]string
	failures *[]error
}

func (h *recordedStream) OnListing()      { *h.calls = append(*h.calls, "listing") }
func (h *recordedStream) OnListed(string) { *h.calls = append(*h.calls, "listed") }
func (h *recordedStream) OnEvent(t string, o *rawjson.Header, raw []byte) {
	*h.calls = append(*h.calls, t+" "+streamed(t, o, raw, testPods.typeMeta()).Body.Name())
}
func (h *recordedStream) OnStatus(err error) { *h.failures = append(*h.failures, err) }

// runStream runs a stream for a while, and returns its calls, its failures and its log.
func runStream(t *testing.T, s *fakeServer, life time.Duration, change func(*Settings)) (calls []string, failures []error, logged string) {
	t.Helper()
	return runSomeStream(t, s, life, change, false)
}

func runSomeStream(t *testing.T, s *fakeServer, life time.Duration, change func(*Settings), overlaps bool) (calls []string, failures []error, logged string) {
	t.Helper()
	c, log := clientOf(t, s, change)
	st := c.stream(testPods, "", "", &recordedStream{calls: &calls, failures: &failures})
	st.Overlaps = overlaps
	ctx, cancel := context.WithTimeout(context.Background(), life)
	defer cancel()
	st.Run(ctx)
	return calls, failures, log.String()
}

func TestStreamGoesOn(t *testing.T) {
	write := func(w http.ResponseWriter, texts ...string) { _, _ = io.WriteString(w, strings.Join(texts, "")) }
	gone := `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}` + "\n"
	tests := []struct {
		name     string
		list     func(n int, w http.ResponseWriter, r *http.Request)
		watch    func(n int, w http.ResponseWriter, r *http.Request)
		calls    []string
		versions []string
	}{
		{name: "AC-108 a listing first", list: func(n int, w http.ResponseWriter, r *http.Request) {
			write(w, `{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}`)
		}, watch: func(n int, w http.ResponseWriter, r *http.Request) { holdOpen(w, r) },
			calls: []string{"listing", " a", "listed"}, versions: []string{"7"}},
		{name: "AC-110 bookmarks move the version, and other types are ignored", watch: func(n int, w http.ResponseWriter, r *http.Request) {
			if n > 0 {
				holdOpen(w, r)
				return
			}
			write(w, eventText("ADDED", "a", "11"), "\n", eventText("NEWS", "a", "12"), eventText("MODIFIED", "a", "13"), eventText("DELETED", "a", "14"), eventText("BOOKMARK", "", "20"))
		}, calls: []string{"listing", "listed", "ADDED a", "MODIFIED a", "DELETED a"}, versions: []string{"10", "20"}},
		{name: "AC-111 the event 410", watch: func(n int, w http.ResponseWriter, r *http.Request) {
			if n > 0 {
				holdOpen(w, r)
				return
			}
			write(w, gone)
		}, calls: []string{"listing", "listed", "listing", "listed"}, versions: []string{"10", "10"}},
		{name: "AC-T9 the status 410", watch: func(n int, w http.ResponseWriter, r *http.Request) {
			if n > 0 {
				holdOpen(w, r)
				return
			}
			w.WriteHeader(410)
		}, calls: []string{"listing", "listed", "listing", "listed"}, versions: []string{"10", "10"}},
		{name: "AC-T9 another event of an error", watch: func(n int, w http.ResponseWriter, r *http.Request) {
			if n > 0 {
				holdOpen(w, r)
				return
			}
			write(w, strings.ReplaceAll(gone, "410", "500"))
		}, calls: []string{"listing", "listed"}, versions: []string{"10", "10"}},
		{name: "AC-T9 errors of many kinds", watch: func(n int, w http.ResponseWriter, r *http.Request) {
			if codes := []int{500, 403, 404}; n < len(codes) {
				w.WriteHeader(codes[n])
				return
			}
			holdOpen(w, r)
		}, calls: []string{"listing", "listed"}, versions: []string{"10", "10", "10", "10"}},
		{name: "AC-113 a cut frame", watch: func(n int, w http.ResponseWriter, r *http.Request) {
			if n > 0 {
				holdOpen(w, r)
				return
			}
			write(w, eventText("ADDED", "a", "11"), eventText("ADDED", "b", "12")[:40])
		}, calls: []string{"listing", "listed", "ADDED a"}, versions: []string{"10", "11"}},
		{name: "AC-113 a lost connection", watch: func(n int, w http.ResponseWriter, r *http.Request) {
			if n > 0 {
				holdOpen(w, r)
				return
			}
			write(w, eventText("ADDED", "a", "11"))
			panic(http.ErrAbortHandler)
		}, calls: []string{"listing", "listed", "ADDED a"}, versions: []string{"10", "11"}},
		{name: "AC-T12 the pages of a listing expire", list: func(n int, w http.ResponseWriter, r *http.Request) {
			switch {
			case n == 1:
				w.WriteHeader(410)
			case r.URL.Query().Get("continue") == "":
				write(w, `{"metadata":{"resourceVersion":"7","continue":"x"},"items":[{"metadata":{"name":"a"}}]}`)
			default:
				write(w, `{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"b"}}]}`)
			}
		}, watch: func(n int, w http.ResponseWriter, r *http.Request) { holdOpen(w, r) },
			calls: []string{"listing", " a", "listing", " a", " b", "listed"}, versions: []string{"7"}},
		{name: "AC-114 listings that fail", list: func(n int, w http.ResponseWriter, r *http.Request) {
			switch n {
			case 0:
				w.WriteHeader(429)
			case 1:
				w.WriteHeader(500)
			case 2:
				panic(http.ErrAbortHandler)
			default:
				write(w, emptyList)
			}
		}, watch: func(n int, w http.ResponseWriter, r *http.Request) { holdOpen(w, r) },
			calls: []string{"listing", "listing", "listing", "listing", "listed"}, versions: []string{"10"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{list: tt.list, watch: tt.watch}
				calls, _, _ := runStream(t, s, time.Minute, nil)
				if diff := cmp.Diff(tt.calls, calls); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(tt.versions, s.versions); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestStreamPauses(t *testing.T) {
	// longest returns the longest time without a watch.
	longest := func(s *fakeServer) (pause time.Duration) {
		for i := 1; i < len(s.watches); i++ {
			pause = max(pause, s.watches[i].Sub(s.ends[i-1]))
		}
		return pause
	}
	idle := func(n int, w http.ResponseWriter, r *http.Request) { holdOpen(w, r) }
	t.Run("AC-T10 watches that end at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{watch: func(n int, w http.ResponseWriter, r *http.Request) {}}
			runStream(t, s, 10*time.Minute, nil)
			if n := len(s.watches); n > 30 || n < 10 {
				t.Errorf("%d watches in ten minutes", n)
			}
			if n := len(s.lists); n > 6 {
				t.Errorf("%d listings", n)
			}
		})
	})
	t.Run("AC-115 silence is no failure, and leaves no gaps", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{watch: idle}
			_, failures, logged := runStream(t, s, time.Hour, nil)
			if pause := longest(s); pause > time.Second {
				t.Errorf("%s without a watch", pause)
			}
			if len(s.lists) != 1 {
				t.Errorf("AC-T20: %d listings", len(s.lists))
			}
			if len(failures) > 0 || logged != "" {
				t.Errorf("AC-T20: %v; %s", failures, logged)
			}
			if len(s.watches) > 1 {
				if life := s.ends[0].Sub(s.watches[0]); life != 70*time.Second {
					t.Errorf("a watch has lived for %s", life)
				}
			}
		})
	})
	t.Run("AC-115 the client's time-out leaves no gaps", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{watch: idle}
			_, failures, logged := runStream(t, s, time.Hour, func(s *Settings) { s.Watching.ClientTimeout = 10 * time.Second })
			if pause := longest(s); pause > time.Second {
				t.Errorf("%s without a watch", pause)
			}
			if len(failures) > 0 || logged != "" || len(s.lists) != 1 {
				t.Errorf("%d listings, %v; %s", len(s.lists), failures, logged)
			}
		})
	})
	t.Run("AC-115 the server's time-out leaves no gaps", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			query := ""
			s := &fakeServer{watch: func(n int, w http.ResponseWriter, r *http.Request) {
				query = r.URL.Query().Get("timeoutSeconds")
				w.(http.Flusher).Flush()
				select {
				case <-time.After(10 * time.Second):
				case <-r.Context().Done():
				}
			}}
			runStream(t, s, time.Hour, func(s *Settings) { s.Watching.ServerTimeout = 9500 * time.Millisecond })
			if pause := longest(s); pause > time.Second {
				t.Errorf("%s without a watch", pause)
			}
			if query != "10" {
				t.Errorf("AC-T17: timeoutSeconds is %q", query)
			}
		})
	})
	t.Run("AC-T17 the longest time-out of the server is none in the past", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			query := ""
			s := &fakeServer{watch: func(n int, w http.ResponseWriter, r *http.Request) {
				query = r.URL.Query().Get("timeoutSeconds")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}}
			runStream(t, s, time.Minute, func(s *Settings) { s.Watching.ServerTimeout = math.MaxInt64 })
			if query != "9223372036" {
				t.Errorf("timeoutSeconds is %q", query)
			}
		})
	})
	t.Run("AC-113 an outage of the server does not end in listings", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			s := &fakeServer{watch: func(n int, w http.ResponseWriter, r *http.Request) {
				if up := time.Since(begun); up > time.Minute && up < 3*time.Minute {
					panic(http.ErrAbortHandler)
				}
				holdOpen(w, r)
			}}
			runStream(t, s, 10*time.Minute, nil)
			if n := len(s.lists) - s.verifications; n != 1 || s.verifications > 2 {
				t.Errorf("%d listings, and %d of one object", n, s.verifications)
			}
		})
	})
	t.Run("the server's wish", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{watch: func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 0 {
					answer{code: 429, header: "Retry-After: 30"}.serve(w, r)
					return
				}
				holdOpen(w, r)
			}}
			runStream(t, s, time.Minute, nil)
			if len(s.watches) < 2 || s.watches[1].Sub(s.watches[0]) < 30*time.Second {
				t.Errorf("watches at %v", s.watches)
			}
		})
	})
}

func TestStreamReports(t *testing.T) {
	t.Run("AC-T9 a failure is told once, and its end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{watch: func(n int, w http.ResponseWriter, r *http.Request) {
				if n < 4 {
					w.WriteHeader(500)
					return
				}
				_, _ = io.WriteString(w, eventText("ADDED", "a", "11"))
				holdOpen(w, r)
			}}
			_, failures, logged := runStream(t, s, time.Minute, nil)
			if len(failures) != 2 || StatusCode(failures[0]) != 500 || failures[1] != nil {
				t.Errorf("told %v", failures)
			}
			if n := strings.Count(logged, "\n"); n != 2 {
				t.Errorf("%d lines: %s", n, logged)
			}
		})
	})
	t.Run("AC-T9 texts that differ are one failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{list: func(n int, w http.ResponseWriter, r *http.Request) {
				panic(fmt.Sprintf("read tcp 127.0.0.1:%d: connection reset", 40000+n))
			}}
			_, failures, logged := runStream(t, s, 10*time.Minute, nil)
			if n := strings.Count(logged, "\n"); n != 1 || len(failures) != 1 {
				t.Errorf("%d lines, %d failures: %.300s", n, len(failures), logged)
			}
		})
	})
	t.Run("AC-T9 watches that open and fail are one failure, and end in a listing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{watch: func(n int, w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","code":500,"message":"broken"}}`+"\n")
			}}
			_, failures, logged := runStream(t, s, 10*time.Minute, nil)
			if n := len(s.lists); n < 2 || n > 6 || len(s.watches) > 25 {
				t.Errorf("%d listings, %d watches in ten minutes", n, len(s.watches))
			}
			if n := strings.Count(logged, "WARN"); n != 1 || len(failures) != 1 {
				t.Errorf("%d warnings, %d failures: %.500s", n, len(failures), logged)
			}
		})
	})
	for _, code := range []int{403, 410} {
		t.Run(fmt.Sprintf("AC-T9 listings that work and watches that answer %d do not flood the server", code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{watch: func(n int, w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) }}
				_, _, logged := runStream(t, s, 10*time.Minute, nil)
				if n := len(s.lists) + len(s.watches); n > 50 {
					t.Errorf("%d requests in ten minutes", n)
				}
				if n := strings.Count(logged, "\n"); n > 1 {
					t.Errorf("%d lines: %.500s", n, logged)
				}
			})
		})
	}
	t.Run("AC-T12 a watch that comes too late leads to another listing in pages", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var limits []string
			runStream(t, &fakeServer{
				list: func(n int, w http.ResponseWriter, r *http.Request) {
					limits = append(limits, r.URL.Query().Get("limit"))
					_, _ = io.WriteString(w, emptyList)
				},
				watch: func(n int, w http.ResponseWriter, r *http.Request) {
					if n < 2 {
						w.WriteHeader(410)
						return
					}
					holdOpen(w, r)
				},
			}, time.Hour, nil)
			if want := []string{"500", "500", "500"}; !slices.Equal(limits, want) {
				t.Errorf("got listings with the limits %q, want %q", limits, want)
			}
		})
	})
	t.Run("AC-T9 pages that are no watches are a failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{watch: func(n int, w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "<html>\nlog in\n</html>\n")
			}}
			_, failures, _ := runStream(t, s, 10*time.Minute, nil)
			if len(failures) == 0 {
				t.Error("nobody is told")
			}
		})
	})
	t.Run("AC-T9 a resource is served again when quiet watches open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{watch: func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 0 {
					w.WriteHeader(500)
					return
				}
				holdOpen(w, r)
			}}
			_, failures, _ := runStream(t, s, 30*time.Second, nil)
			if len(failures) != 2 || failures[1] != nil {
				t.Errorf("told %v", failures)
			}
		})
	})
	t.Run("AC-T12 a listing whose pages always expire comes to an end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{list: func(n int, w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				switch {
				case q.Get("continue") != "":
					w.WriteHeader(410)
				case q.Get("limit") == "" || q.Get("limit") == "0":
					_, _ = io.WriteString(w, emptyList)
				default:
					_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"7","continue":"x"},"items":[{"metadata":{"name":"a"}}]}`)
				}
			}, watch: func(n int, w http.ResponseWriter, r *http.Request) { holdOpen(w, r) }}
			calls, _, _ := runStream(t, s, 10*time.Minute, nil)
			if calls[len(calls)-1] != "listed" {
				t.Errorf("after %d listings nothing is complete", len(s.lists))
			}
		})
	})
}

func TestStreamOverlaps(t *testing.T) {
	page := func(w http.ResponseWriter, name, next string) {
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"10","continue":%q},"items":[{"metadata":{"name":%q}}]}`, next, name)
	}
	t.Run("AC-109 the pages fail for a while, and the watch does not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s := &fakeServer{list: func(n int, w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Query().Get("continue") == "":
					page(w, "a", "more")
				case time.Since(began) < 10*time.Minute:
					w.WriteHeader(http.StatusInternalServerError)
				default:
					page(w, "b", "")
				}
			}, watch: func(n int, w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, eventText("MODIFIED", "c", "11"))
				holdOpen(w, r)
			}}
			calls, failures, logged := runSomeStream(t, s, 20*time.Minute, nil, true)
			if len(failures) != 2 || StatusCode(failures[0]) != http.StatusInternalServerError || failures[1] != nil {
				t.Errorf("got the failures %v, want one that ends", failures)
			}
			if n := slices.Index(calls, "listed"); n < 0 || slices.Contains(calls[n:], "listing") || !slices.Contains(calls[:n], " b") {
				t.Errorf("got the calls %q, want one complete listing", calls)
			}
			if n := strings.Count(logged, "Watching objects again"); n != 1 || strings.Index(logged, "Watching objects again") < strings.Index(logged, "Watching objects failed") {
				t.Errorf("logged were %s", logged)
			}
			if n := len(s.lists); n > 60 { // of both pages
				t.Errorf("in ten minutes, it was listed %d times", n)
			}
		})
	})
	t.Run("AC-109 the watch breaks off while the pages come", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{list: func(n int, w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("continue") == "" {
					page(w, "a", "more")
					return
				}
				time.Sleep(10 * time.Second)
				page(w, "b", "")
			}, watch: func(n int, w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, eventText("MODIFIED", "c", fmt.Sprint(11+n)))
				if n > 2 {
					holdOpen(w, r)
				}
			}}
			calls, failures, _ := runSomeStream(t, s, 20*time.Second, nil, true)
			if diff := cmp.Diff([]string{"listing", " a", "MODIFIED c", "MODIFIED c", "MODIFIED c", "MODIFIED c", " b", "listed"}, calls); diff != "" || len(failures) > 0 {
				t.Errorf("(-want +got)\n%s\nfailures %v", diff, failures)
			}
			if diff := cmp.Diff([]string{"10", "11", "12", "13"}, s.versions); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	})
	t.Run("AC-109 the watch is too old while the pages come", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{list: func(n int, w http.ResponseWriter, r *http.Request) {
				switch {
				case n == 0:
					page(w, "a", "more")
				case n == 1:
					time.Sleep(10 * time.Second)
					page(w, "b", "")
				case r.URL.Query().Get("continue") == "":
					page(w, "a", "rest")
				default:
					page(w, "b", "")
				}
			}, watch: func(n int, w http.ResponseWriter, r *http.Request) {
				if n > 0 {
					holdOpen(w, r)
					return
				}
				_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}`+"\n")
			}}
			calls, _, _ := runSomeStream(t, s, 5*time.Minute, nil, true)
			if diff := cmp.Diff([]string{"listing", " a", " b", "listed", "listing", " a", " b", "listed"}, calls); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	})
}

// TestStreamPages checks that a watch that fails while pages arrive is reported, and does not stop the pages.
func TestStreamPages(t *testing.T) {
	list := func(n int, w http.ResponseWriter, r *http.Request) { // in a bubble
		if r.URL.Query().Get("continue") == "" {
			_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"7","continue":"x"},"items":[{"metadata":{"name":"a","resourceVersion":"1"}}]}`)
			return
		}
		time.Sleep(5 * time.Second)
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"b","resourceVersion":"2"}}]}`)
	}
	for _, overlaps := range []bool{false, true} {
		t.Run(fmt.Sprintf("AC-T9 a watch that never opens, overlaps %t", overlaps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{list: list, watch: func(n int, w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) }}
				_, failures, logged := runSomeStream(t, s, time.Hour, nil, overlaps)
				if len(failures) != 1 || StatusCode(failures[0]) != http.StatusForbidden || strings.Contains(logged, "Watching objects again") {
					t.Errorf("told %v; logged %s", failures, logged)
				}
			})
		})
		t.Run(fmt.Sprintf("AC-111 a watch that is too old again and again, overlaps %t", overlaps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{list: list, watch: func(n int, w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, eventText("MODIFIED", "a", "11"))
					w.(http.Flusher).Flush()
					time.Sleep(2 * time.Second)
					_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}`+"\n")
				}}
				calls, _, _ := runSomeStream(t, s, time.Minute, nil, overlaps)
				if n := slices.Index(calls, "listed"); n < 0 || !slices.Contains(calls[:n], " b") {
					t.Errorf("in a minute, %d pages were asked for, and no listing was complete: %q", len(s.lists), calls)
				}
			})
		})
	}
}
