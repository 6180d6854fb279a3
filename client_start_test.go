package kopf

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf/internal/connection"
	"github.com/kopf-go/kopf/internal/connshare"
	"github.com/kopf-go/kopf/internal/credtransport"
)

func TestClientOfNothing(t *testing.T) {
	ref := ObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", Namespace: "ns"}
	object := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "namespace": "ns"}}
	ctx := t.Context()
	for what, c := range map[string]*Client{"nil": nil, "zero": {}} {
		for method, call := range map[string]func() error{
			"Get":    func() error { return c.Get(ctx, ref, &Body{}, nil) },
			"Create": func() error { return c.Create(ctx, object, nil) },
			"Update": func() error { return c.Update(ctx, object, nil) },
			"Apply":  func() error { return c.Apply(ctx, object, nil) },
			"Delete": func() error { return c.Delete(ctx, ref, nil) },
			"Patch": func() error {
				_, err := c.Patch(ctx, ref, object, nil)
				return err
			},
			"List": func() (err error) {
				for _, err = range c.List(ctx, ObjectReference{APIVersion: "v1", Kind: "Pod"}, nil) {
				}
				return err
			},
			"Watch": func() (err error) {
				for _, err = range c.Watch(ctx, ObjectReference{APIVersion: "v1", Kind: "Pod"}, nil) {
				}
				return err
			},
			"Resources": func() error {
				_, err := c.Resources(ctx)
				return err
			},
			"ConnectionInfo": func() error {
				_, err := c.ConnectionInfo(ctx)
				return err
			},
			"HTTPClient": func() error {
				resp, err := c.HTTPClient().Post("http://server.test", "text/plain", strings.NewReader("x"))
				if err == nil {
					credtransport.Drain(resp.Body)
				}
				return err
			},
		} {
			t.Run("DF-32 "+what+": "+method, func(t *testing.T) {
				if err := call(); err == nil || !strings.Contains(err.Error(), errNoClient.Error()) {
					t.Errorf("got %v, want an error that says that there is no client", err)
				}
			})
		}
	}
	t.Run("DF-32 NewClient of nothing", func(t *testing.T) {
		if c, err := NewClient(nil, nil); err == nil || c != nil {
			t.Errorf("got %v, %v, want an error", c, err)
		}
	})
}

func TestClientOfStart(t *testing.T) {
	served := listening(t)
	path := filepath.Join(t.TempDir(), "config")
	if err := served.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	registry := &Registry{}
	done := make(chan error, 1)
	registry.OnStartup(func(ctx context.Context, a *Activity) error {
		var body Body
		done <- a.Client.Get(ctx, ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "default"}, &body, nil)
		return nil
	}, &ActivityOptions{ID: "startup"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&Operator{Registry: registry, Kubeconfig: path}).Run(ctx) }()
	if err := <-done; err != nil {
		t.Errorf("DF-32 with a kubeconfig: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestClientTimeoutsAfterStart(t *testing.T) {
	settings := NewSettings()
	login := func(context.Context) (map[string]*connection.Info, error) {
		return map[string]*connection.Info{"login": {Server: "http://server.test"}}, nil
	}
	timeout := func(c *Client) time.Duration {
		t.Helper()
		cred, err := c.credentials.Pick(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return cred.Client.Transport.(*credtransport.Transport).Next.(*connshare.Transport).Next.(*http.Transport).TLSHandshakeTimeout
	}
	settings.Networking.ConnectTimeout = 3 * time.Second
	start := newLoginClient(login, settings, slog.New(slog.DiscardHandler))
	defer start.close()
	if got := timeout(start); got != 3*time.Second {
		t.Errorf("DF-32 got the limit %s, want that of the first use", got)
	}
	cred, _ := start.credentials.Pick(t.Context())
	cred.Session.Accepted.Store(true)
	settings.Networking.ConnectTimeout = 7 * time.Second
	next := start.renewed()
	if got := timeout(next); got != 7*time.Second {
		t.Errorf("DF-32 got the limit %s after the start, want that of the settings", got)
	}
	again, _ := next.credentials.Pick(t.Context())
	if again.Session != cred.Session || !again.Session.Accepted.Load() {
		t.Error("DF-32 the session has ended with the start")
	}
}
