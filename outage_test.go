package kopf_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// TestOutage stops and restarts the API server, and measures the additional delay of the operator.
func TestOutage(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		for _, away := range []time.Duration{2 * time.Second, 20 * time.Second, time.Minute, time.Hour} {
			t.Run(fmt.Sprintf("after %s; the server has forgotten old versions: %t", away, forgets), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testOutage(t, away, forgets) })
			})
		}
	}
}

func testOutage(t *testing.T, away time.Duration, forgets bool) { // in a bubble
	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(definition)); err != nil {
		t.Fatal(err)
	}
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var handled atomic.Bool
	r := &kopf.Registry{}
	r.OnCreate("kopfexamples", func(context.Context, *kopf.Change) error {
		handled.Store(true)
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	kopf.NewRunner(t, &kopf.Operator{Registry: r, Connection: server.ConnectionInfo()}, nil)
	time.Sleep(time.Minute)
	end := server.Fail(kopf.APIServerFault{Drop: true})
	server.Disconnect()
	time.Sleep(away)
	end()
	back := time.Now()
	if err := client.Create(t.Context(), map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"namespace": "default", "name": "a"}}, nil); err != nil {
		t.Fatal(err)
	}
	if forgets {
		server.Compact()
	}
	for !handled.Load() && time.Since(back) < time.Hour {
		time.Sleep(100 * time.Millisecond)
	}
	if took := time.Since(back); took > min(2*away, 13*time.Second) {
		t.Errorf("it has taken %s until the handler was called", took)
	}
}

// TestSecondOutage stops the API server twice, without an event in between, and makes it forget old versions each time.
func TestSecondOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kopf.NewAPIServer(nil)
		if err := server.Apply([]byte(definition)); err != nil {
			t.Fatal(err)
		}
		client, err := kopf.NewClient(server.ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var handled atomic.Bool
		r := &kopf.Registry{}
		r.OnCreate("kopfexamples", func(context.Context, *kopf.Change) error {
			handled.Store(true)
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		kopf.NewRunner(t, &kopf.Operator{Registry: r, Connection: server.ConnectionInfo()}, nil)
		time.Sleep(time.Minute)
		outage := func(object map[string]any) {
			end := server.Fail(kopf.APIServerFault{Drop: true})
			server.Disconnect()
			time.Sleep(10 * time.Minute)
			end()
			if err := client.Create(t.Context(), object, nil); err != nil {
				t.Fatal(err)
			}
			server.Compact()
		}
		outage(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": "other"}})
		time.Sleep(40 * time.Second) // it watches again, without events
		outage(map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"namespace": "default", "name": "a"}})
		back := time.Now()
		for !handled.Load() && time.Since(back) < time.Hour {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(back); took > 13*time.Second {
			t.Errorf("it has taken %s until the handler was called", took)
		}
	})
}
