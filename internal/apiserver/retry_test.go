package apiserver

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The deletion of a namespace or a CRD continues by itself when the webhook can convert its objects again, within the retry limit.
func TestRetries(t *testing.T) {
	const definition, namespace = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/hosts.example.com", "/api/v1/namespaces/mine"
	for _, tt := range []struct {
		name, deleted string
		broken        time.Duration
		gone          bool
	}{
		{"definition", definition, 10 * time.Second, true},
		{"namespace", namespace, 10 * time.Second, true},
		{"namespace for minutes", namespace, 10 * time.Minute, true},
		{"definition for a day", definition, 24 * time.Hour, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := newHosts(t, "v1")
				s.opts.Logger = slog.New(slog.DiscardHandler)
				request := func(method, path, body string, want int) string {
					t.Helper()
					code, text := send(s, method, path, "application/json", body)
					if code != want {
						t.Fatalf("%s %s: %d %s, want %d", method, path, code, text, want)
					}
					return text
				}
				request("POST", "/api/v1/namespaces", `{"metadata":{"name":"mine"}}`, 201)
				request("POST", strings.Replace(hostsV1, "default", "mine", 1), strings.Replace(host("v1", "a", "", `{"hostPort":"a:1"}`), "default", "mine", 1), 201)
				object := request("GET", definition, "", 200) // from now on, objects are stored in the other version
				object = strings.Replace(strings.Replace(object, `"storage":true`, `"storage":null`, 1), `"storage":false`, `"storage":true`, 1)
				request("PUT", definition, strings.Replace(object, `"storage":null`, `"storage":false`, 1), 200)
				h.broken.Store(true)
				request("DELETE", tt.deleted, "", 200)
				request("GET", tt.deleted, "", 200)
				time.Sleep(tt.broken)
				request("GET", tt.deleted, "", 200)
				h.broken.Store(false)
				time.Sleep(lastRetry)
				synctest.Wait()
				if !tt.gone {
					request("GET", tt.deleted, "", 200)
					request("DELETE", tt.deleted, "", 200)
				}
				request("GET", tt.deleted, "", 404)
				if len(s.retries.pending) > 0 {
					t.Errorf("still to be tried again: %v", s.retries.pending)
				}
			})
		})
	}
}

// Attempts for one object never run at the same time. A failure during an attempt leads to another one, even if that attempt succeeds.
func TestRetriesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := New(Options{}), objectKey{"namespaces.", "a"}
		var log []string
		began := time.Now()
		attempt := func(name string, takes time.Duration, during func(s *Server)) func(s *Server) {
			return func(s *Server) {
				log = append(log, fmt.Sprint(name, " at ", time.Since(began)))
				if during != nil {
					during(s)
				}
				time.Sleep(takes)
				log = append(log, fmt.Sprint("end at ", time.Since(began)))
			}
		}
		last := attempt("last", 0, nil)
		second := attempt("second", 10*time.Second, func(s *Server) { s.tryLater(key, last) })
		s.tryLater(key, attempt("first", 5*time.Second, func(s *Server) { s.tryLater(key, second) }))
		time.Sleep(time.Hour)
		synctest.Wait()
		want := "[first at 1s end at 6s second at 8s end at 18s last at 22s end at 22s]"
		if got := fmt.Sprint(log); got != want {
			t.Errorf("the attempts are %s, want %s", got, want)
		}
		if len(s.retries.pending) > 0 {
			t.Errorf("still to be tried again: %v", s.retries.pending)
		}
		n := 0
		var fails func(s *Server)
		fails = func(s *Server) { n++; s.tryLater(key, fails) }
		s.tryLater(key, fails)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n != maxAttempts || len(s.retries.pending) > 0 {
			t.Errorf("%d attempts, and %v still to be tried again, want %d and none", n, s.retries.pending, maxAttempts)
		}
	})
}
