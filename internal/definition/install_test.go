package definition

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// cluster responds with the next document or status code.
type cluster struct {
	answers []any
	calls   []string
}

func (c *cluster) next(call string) (raw []byte, code int, err error) {
	c.calls = append(c.calls, call)
	answer := c.answers[0]
	c.answers = c.answers[1:]
	if code, refused := answer.(int); refused {
		return nil, code, errors.New(http.StatusText(code))
	}
	return []byte(answer.(string)), http.StatusOK, nil
}

func (c *cluster) Get(_ context.Context, path string) ([]byte, int, error) {
	return c.next("get " + path[strings.LastIndex(path, "/")+1:])
}

func (c *cluster) GetOnce(_ context.Context, path string) ([]byte, int, error) {
	return c.next("once " + path[strings.LastIndex(path, "/")+1:])
}

func (c *cluster) Apply(_ context.Context, path string, document []byte) ([]byte, int, error) {
	return c.next("apply " + string(document))
}

func TestInstall(t *testing.T) {
	const established, served = `{"status":{"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}]}}`, `{"resources":[{"name":"xs/status"},{"name":"xs"}]}`
	for name, tt := range map[string]struct {
		answers []any
		calls   string
		err     string
	}{
		"at once":                   {[]any{established, served}, "apply {} get v1", ""},
		"established later":         {[]any{`{}`, established, served}, "apply {} get xs.dev get v1", ""},
		"served later":              {[]any{established, http.StatusNotFound, established, `{"resources":[]}`, established, served}, "apply {} get v1 get xs.dev get v1 get xs.dev get v1", ""},
		"another one is deleted":    {[]any{`{"metadata":{"deletionTimestamp":"x"}}`, established, served}, "apply {} apply {} get v1", ""},
		"it is deleted":             {[]any{`{}`, http.StatusNotFound, established, served}, "apply {} get xs.dev apply {} get v1", ""},
		"another replica is faster": {[]any{http.StatusConflict, established, served}, "apply {} apply {} get v1", ""},
		"not allowed":               {[]any{http.StatusForbidden}, "apply {}", "Forbidden"},
		"not there":                 {[]any{http.StatusNotFound}, "apply {}", "Not Found"},
		"the kind cannot be read":   {[]any{established, http.StatusForbidden}, "apply {} get v1", "Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &cluster{answers: tt.answers}
				err := (&Definition{Name: "xs.dev", Group: "dev", Version: "v1", Plural: "xs", JSON: []byte("{}")}).Install(t.Context(), c)
				if got := strings.Join(c.calls, " "); got != tt.calls {
					t.Errorf("got  %s\nwant %s", got, tt.calls)
				}
				if err == nil && tt.err != "" || err != nil && err.Error() != tt.err {
					t.Errorf("got %v, want %q", err, tt.err)
				}
			})
		})
	}
}
