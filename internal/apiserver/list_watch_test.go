package apiserver

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// FuzzContinue decodes encoded continue tokens.
func FuzzContinue(f *testing.F) {
	f.Add(uint64(7), "default/a", "z.z~z")
	f.Fuzz(func(t *testing.T, version uint64, key, token string) {
		if gotVersion, gotKey, err := decodeContinue(encodeContinue(version, key)); !strings.Contains(key, "~") && (err != nil || gotVersion != version || gotKey != key) {
			t.Errorf("%d %q is read as %d %q, %v", version, key, gotVersion, gotKey, err)
		}
		if version, _, err := decodeContinue(token); err == nil && !strings.EqualFold(strings.TrimLeft(strings.SplitN(token, ".", 2)[0], "0"), strings.TrimLeft(strconv.FormatUint(version, 36), "0")) {
			t.Errorf("%q is of %d", token, version)
		}
	})
}

// Paths and headers of requests count towards the memory limit as bodies do.
func TestRequestsWithLongPaths(t *testing.T) {
	s := New(Options{})
	for range 40 {
		r := httptest.NewRequest("GET", "/api/v1/configmaps?labelSelector="+strings.Repeat("x", 1<<19), nil)
		r.Header.Set("User-Agent", strings.Repeat("x", 1<<19))
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	size := 0
	for _, r := range s.Requests() {
		size += len(r.Path) + len(r.UserAgent)
	}
	if size > maxRequestBytes || size < maxRequestBytes/4 {
		t.Errorf("the requests that are kept have %d bytes, want at most %d and not much less", size, maxRequestBytes)
	}
}

// A list is kept for its next pages until the last one is read.
func TestPagesAreReleased(t *testing.T) {
	const configs = "/api/v1/namespaces/default/configmaps"
	s := New(Options{})
	for i := range 3 {
		if code, text := send(s, "POST", configs, "", fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, i)); code != 201 {
			t.Fatal(text)
		}
	}
	next, version := "", uint64(0)
	for page, kept := range []bool{true, true, false} {
		_, text := send(s, "GET", "/api/v1/namespaces/default/configmaps?limit=1&continue="+next, "", "")
		next = rawjson.StringAt([]byte(text), "metadata", "continue")
		if page == 0 {
			version, _, _ = decodeContinue(next)
		}
		if _, ok := s.db.Snapshot("configmaps.", version); ok != kept {
			t.Errorf("after page %d, the list is kept: %t, want %t", page, ok, kept)
		}
	}
}

// A list with a limit has exactly the version that the client names, and its next pages have no other one.
func TestPagesOfVersion(t *testing.T) {
	const configs = "/api/v1/namespaces/default/configmaps"
	s := New(Options{})
	var versions []string
	for i := range 3 {
		code, text := send(s, "POST", configs, "", fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, i))
		if code != 201 {
			t.Fatal(text)
		}
		versions = append(versions, rawjson.StringAt([]byte(text), "metadata", "resourceVersion"))
	}
	_, text := send(s, "GET", configs+"?limit=1&resourceVersion="+versions[1], "", "")
	next := rawjson.StringAt([]byte(text), "metadata", "continue")
	if got := rawjson.StringAt([]byte(text), "metadata", "resourceVersion"); got != versions[1] {
		t.Errorf("the first page is of version %s, want %s", got, versions[1])
	}
	if code, text := send(s, "GET", configs+"?limit=1&resourceVersion="+versions[1]+"&continue="+next, "", ""); code != 400 || !strings.Contains(text, "resource version is not allowed") {
		t.Errorf("%d %s for a token with a version", code, text)
	}
	_, text = send(s, "GET", configs+"?limit=9&resourceVersion=0&continue="+next, "", "")
	if names := regexp.MustCompile(`"name":"c."`).FindAllString(text, -1); len(names) != 1 || names[0] != `"name":"c1"` {
		t.Errorf("the second page has %s, want c1 alone", names)
	}
	_, text = send(s, "GET", configs+"?limit=9&resourceVersionMatch=NotOlderThan&resourceVersion="+versions[1], "", "")
	if n := strings.Count(text, `"name":"c`); n != 3 {
		t.Errorf("a list that is not older has %d objects, want 3", n)
	}
}
