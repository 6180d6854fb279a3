package apirequest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadRefusal(t *testing.T) {
	for name, tt := range map[string]struct {
		body, retryAfter string
		want             Refusal
	}{
		"a status": {
			body: `{"kind":"Status","message":"no","reason":"Invalid","details":{"name":"x","retryAfterSeconds":2,"causes":[{"reason":"R","message":"m","field":"f"}]}}`,
			want: Refusal{Reason: "Invalid", Message: "no", Name: "x", Causes: []Cause{{"R", "m", "f"}}, RetryAfter: 2 * time.Second},
		},
		"a status without a reason": {body: `{"kind":"Status","message":"no"}`, want: Refusal{Reason: "Not Found", Message: "no"}},
		"the header comes first": {
			body: `{"kind":"Status","details":{"retryAfterSeconds":2}}`, retryAfter: "7", want: Refusal{Reason: "Not Found", RetryAfter: 7 * time.Second},
		},
		"another object": {body: `{"kind":"Pod","message":"no"}`, want: Refusal{Reason: "Not Found", Message: `{"kind":"Pod","message":"no"}`}},
		"text":           {body: " nothing here\n", want: Refusal{Reason: "Not Found", Message: "nothing here"}},
		"a long text":    {body: strings.Repeat("x", MaxErrorText+1), want: Refusal{Reason: "Not Found", Message: strings.Repeat("x", MaxErrorText) + "..."}},
		"nothing":        {want: Refusal{Reason: "Not Found"}},
	} {
		t.Run(name, func(t *testing.T) {
			resp := &http.Response{StatusCode: http.StatusNotFound, Body: io.NopCloser(strings.NewReader(tt.body)), Header: http.Header{"Retry-After": {tt.retryAfter}}}
			if diff := cmp.Diff(tt.want, ReadRefusal(resp)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
