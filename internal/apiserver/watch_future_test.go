package apiserver

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// A watch from a future version, such as one of an earlier server, must not send older events. kube-apiserver sends nothing up to that version.
func TestWatchFromTheFuture(t *testing.T) {
	s := New(Options{BookmarkInterval: 100 * time.Millisecond})
	server := httptest.NewServer(s)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1000000&allowWatchBookmarks=true", nil)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	time.AfterFunc(500*time.Millisecond, func() { send(s, "POST", "/api/v1/namespaces/default/configmaps", "", `{"metadata":{"name":"a"}}`) })
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		version, _ := strconv.Atoi(rawjson.StringAt(lines.Bytes(), "object", "metadata", "resourceVersion"))
		if typ := rawjson.StringAt(lines.Bytes(), "type"); version < 1000000 {
			t.Fatalf("a watch from 1000000 gets %s of version %d", typ, version)
		}
	}
}
