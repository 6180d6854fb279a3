package webhookserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// lastReview stores the last review.
type lastReview struct{ review *Review }

func (l *lastReview) Review(_ context.Context, r *Review) ([]byte, error) {
	l.review = r
	return []byte("{}"), nil
}

// FuzzWebhookRequest sends arbitrary requests to the webhook server. Each rejection must be a Status with its code.
func FuzzWebhookRequest(f *testing.F) {
	f.Add("POST", "/hooks/a", "application/json", []byte(`{}`))
	f.Add("POST", "/hooks", "application/json; charset=\"", []byte(`{}`))
	f.Add("GET", "//", "", []byte{})
	f.Add("POST", "/hooksa", "application/json", bytes.Repeat([]byte("x"), 2000))
	f.Fuzz(func(t *testing.T, method, path, contentType string, body []byte) {
		if method == "" {
			t.Skip() // "" means GET
		}
		seen := &lastReview{}
		h := newHandler("hooks/", Limits{MaxBodyBytes: 1 << 10}, seen, slog.New(slog.DiscardHandler))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: -1})
		var status struct {
			Kind string
			Code int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || w.Code != 200 && (status.Kind != "Status" || status.Code != w.Code) {
			t.Errorf("the answer is %d %s (%v)", w.Code, w.Body, err)
		}
		called := ""
		if r := seen.review; r != nil {
			called = r.Handler
			if len(r.Body) > 1<<10 || !bytes.Equal(r.Body, body) {
				t.Errorf("the review is %q of %q", r.Body, body)
			}
		}
		if called != "" && "/hooks/"+called != path || h.held.total != 0 || w.Code == 200 && method != "POST" {
			t.Errorf("%s %q is answered by %q, and %d bytes are held", method, path, called, h.held.total)
		}
	})
}
