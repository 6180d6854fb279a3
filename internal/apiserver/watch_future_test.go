package apiserver

import (
	"bufio"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// A watch from a future version, such as one of an earlier server, must not send older events. kube-apiserver sends nothing up to that version.
func TestWatchFromTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{BookmarkInterval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
		time.AfterFunc(500*time.Millisecond, func() {
			if code, text := send(s, "POST", "/api/v1/namespaces/default/configmaps", "", `{"metadata":{"name":"a"}}`); code != http.StatusCreated {
				t.Errorf("the creation is answered with %d %s", code, text)
			}
		})
		w := httptest.NewRecorder()
		const watch = "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1000000&allowWatchBookmarks=true&timeoutSeconds=2"
		s.ServeHTTP(w, httptest.NewRequest("GET", watch, nil))
		for lines := bufio.NewScanner(w.Body); lines.Scan(); {
			version, _ := strconv.Atoi(rawjson.StringAt(lines.Bytes(), "object", "metadata", "resourceVersion"))
			if typ := rawjson.StringAt(lines.Bytes(), "type"); version < 1000000 {
				t.Fatalf("a watch from 1000000 gets %s of version %d", typ, version)
			}
		}
	})
}
