package watchstream

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestEndlessOldEvents has watches end at once, after an event that the stream has had. Extension API
// servers that ignore the resource version respond like this.
func TestEndlessOldEvents(t *testing.T) {
	for name, watch := range map[string]func(int) (string, error){
		"DF-37 watches with a bookmark that is no news cause no storm":       func(int) (string, error) { return event("BOOKMARK", "", "10"), nil },
		"DF-37 watches with an event that is no news cause no storm":         func(int) (string, error) { return event("ADDED", "a", "10"), nil },
		"DF-37 watches with a bookmark that is no news, and 410, cause none": func(int) (string, error) { return event("BOOKMARK", "", "10"), refuse(http.StatusGone) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := &server{watch: watch}
				s := &Stream{Server: srv, Handler: &recorder{}, Settings: settings(), Resource: "things", Log: slog.New(slog.DiscardHandler)}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				s.Run(ctx)
				if n := len(srv.versions); n > 1000 || srv.pages > 100 {
					t.Errorf("%d watches and %d lists in an hour", n, srv.pages)
				}
			})
		})
	}
}

func TestUnsupportedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		srv := &server{watch: func(n int) (string, error) {
			if n > 0 {
				return "", nil
			}
			return strings.Repeat(event("KEEPALIVE", "a", "11"), 1000), nil
		}}
		s := &Stream{Server: srv, Handler: &recorder{}, Settings: settings(), Resource: "things", Log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Run(ctx)
		if n := strings.Count(log.String(), "Ignoring an unsupported event type"); n != 1 {
			t.Errorf("got %d warnings, want one", n)
		}
	})
}
