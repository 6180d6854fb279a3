package kopf_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kopf-go/kopf"
)

// panicking are handlers that panic, with the beginning of the stack in the log line.
var panicking = map[string]struct {
	handler kopf.ChangeFunc
	begins  string
}{
	"in the handler": {func(context.Context, *kopf.Change) error { panic("oops") }, "github.com/kopf-go/kopf_test.init."},
	"in a function":  {func(_ context.Context, ch *kopf.Change) error { return oopsAbout(ch.Name()) }, "github.com/kopf-go/kopf_test.oopsAbout("},
	"a nil map": {func(context.Context, *kopf.Change) error {
		noMap["a"]++
		return nil
	}, "github.com/kopf-go/kopf_test.init."},
	"a nil pointer": {func(context.Context, *kopf.Change) error {
		var ch *kopf.Change
		_ = ch.Logger
		return nil
	}, "github.com/kopf-go/kopf_test.init."},
	"in the framework": {func(context.Context, *kopf.Change) error {
		var ch *kopf.Change
		ch.Subhandler("a", nil, nil)
		return nil
	}, "goroutine "},
	"a misuse of the framework": {func(_ context.Context, ch *kopf.Change) error {
		ch.Subhandler("a", nil, nil)
		return nil
	}, "github.com/kopf-go/kopf.(*Change).Subhandler("},
}

var noMap map[string]int

func oopsAbout(name string) error { panic("oops, " + name) }

// TestPanicStacks checks that the stack in the log shows the functions of the user, and the misused one, unless kopf itself has panicked.
func TestPanicStacks(t *testing.T) {
	for name, tt := range panicking {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := kopf.NewAPIServer(nil)
				if err := server.Apply([]byte(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}`)); err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				registry := &kopf.Registry{}
				registry.OnCreate("configmaps", tt.handler, &kopf.ChangeOptions{ID: "create", Errors: kopf.ErrorsPermanent})
				logger := slog.New(kopf.NewLogHandler(&kopf.LogOptions{Format: kopf.LogJSON, Output: &log}))
				runner := kopf.NewRunner(t, &kopf.Operator{Registry: registry, Connection: server.ConnectionInfo(), Logger: logger}, nil)
				synctest.Wait()
				if err := runner.Stop(); err != nil {
					t.Error(err)
				}
				stack := stackIn(log.String())
				whole := strings.Contains(stack, "debug.Stack") && strings.Contains(stack, "safecall.protect(")
				if !strings.HasPrefix(stack, tt.begins) || whole != (tt.begins == "goroutine ") {
					t.Errorf("got the stack\n%s", stack)
				}
				if frames := strings.Count(stack, "\n\t"); !whole && (frames == 0 || frames != strings.Count(stack, "panics_test.go:")+strings.Count(stack, ".(*Change).Subhandler(")) {
					t.Errorf("got the frames\n%s", stack)
				}
			})
		})
	}
}

// stackIn returns the stack of the only log line with one.
func stackIn(log string) (stack string) {
	for line := range strings.Lines(log) {
		var fields struct {
			Stack string `json:"exc_info"`
		}
		if json.Unmarshal([]byte(line), &fields) == nil {
			stack += fields.Stack
		}
	}
	return stack
}
