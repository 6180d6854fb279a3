package kopf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var _ TB = testing.TB(nil) // any kind of test is accepted

// fakeTB is a test that can fail without failing the real one.
type fakeTB struct {
	context  context.Context
	cleanups []func()
	failures []string
	output   io.Writer // nil for none
}

func (f *fakeTB) Helper()             {}
func (f *fakeTB) Name() string        { return "fake" }
func (f *fakeTB) Logf(string, ...any) {}
func (f *fakeTB) Errorf(s string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(s, args...))
}
func (f *fakeTB) Fatalf(s string, args ...any) { f.Errorf(s, args...); panic(f) }
func (f *fakeTB) Cleanup(cleanup func())       { f.cleanups = append(f.cleanups, cleanup) }
func (f *fakeTB) Context() context.Context     { return f.context }
func (f *fakeTB) Output() io.Writer            { return cmp.Or(f.output, io.Discard) }

// run runs a test to its end, and returns its failures.
func (f *fakeTB) run(test func()) []string {
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(f) {
				panic(p)
			}
		}()
		test()
	}()
	for _, cleanup := range f.cleanups {
		cleanup()
	}
	return f.failures
}

// fakeOperator becomes ready after a delay, and ends after another delay, or with its context.
type fakeOperator struct {
	starting, living, stopping time.Duration
	err                        error
	ready                      func()
}

func (o fakeOperator) forTest(_ *slog.Logger, ready func()) Runnable {
	o.ready = ready
	return o
}

func (o fakeOperator) Run(ctx context.Context) error { // in a bubble
	if o.starting == 0 || sleepFor(ctx, o.starting) {
		o.ready()
		if sleepFor(ctx, o.living) {
			return o.err
		}
	}
	time.Sleep(o.stopping)
	return o.err
}

func sleepFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func TestRunner(t *testing.T) {
	oops := errors.New("oops")
	tests := []struct {
		name     string
		operator fakeOperator
		test     func(t *testing.T, r *Runner)
		want     string // in the one failure of the test; "" for none
	}{
		{name: "OP-157 runs in the background until the end of the test", operator: fakeOperator{living: time.Hour}},
		{name: "OP-T51 waits until the operator is ready", operator: fakeOperator{starting: 50 * time.Second, living: time.Hour},
			test: func(t *testing.T, r *Runner) {}},
		{name: "OP-T51 does not wait for ever", operator: fakeOperator{starting: time.Hour}, want: "not ready: still starting after 1m0s"},
		{name: "OP-T51 tells of an early death", operator: fakeOperator{living: time.Second, err: oops}, want: "has failed: oops",
			test: func(t *testing.T, r *Runner) {
				<-r.Context().Done()
				if cause := context.Cause(r.Context()); cause != oops {
					t.Errorf("the cause: got %v, want %v", cause, oops)
				}
			}},
		{name: "OP-T51 tells of an early end", operator: fakeOperator{living: time.Second}, want: "has ended without being told to",
			test: func(t *testing.T, r *Runner) { <-r.Context().Done() }},
		{name: "OP-158 a stop that takes too long", operator: fakeOperator{living: time.Hour, stopping: 90 * time.Second},
			want: "still running 1m0s after it was told to stop"},
		{name: "OP-160 an error at the end", operator: fakeOperator{living: time.Hour, err: oops}, want: "has failed: oops"},
		{name: "OP-160 an error that the test has asked for", operator: fakeOperator{living: time.Hour, err: oops},
			test: func(t *testing.T, r *Runner) {
				if err := r.Stop(); err != oops {
					t.Errorf("got %v, want %v", err, oops)
				}
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := &fakeTB{context: t.Context()}
				failures := fake.run(func() {
					r := NewRunner(fake, tt.operator, nil)
					if tt.test != nil {
						tt.test(t, r)
					}
				})
				if tt.want == "" && len(failures) > 0 || tt.want != "" && (len(failures) != 1 || !strings.Contains(failures[0], tt.want)) {
					t.Errorf("failures: got %q, want %q", failures, tt.want)
				}
				time.Sleep(time.Hour) // for operators that are slow on purpose
			})
		})
	}
}

func TestRunnerOfFunction(t *testing.T) {
	r := NewRunner(t, RunFunc(func(ctx context.Context) error { <-ctx.Done(); return nil }), nil)
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}

func TestWaitFor(t *testing.T) {
	ref := ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "example"}
	object := func(value string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "example", "namespace": "default"}, "data": map[string]any{"key": value}}
	}
	value := func(b *Body) string {
		if b == nil {
			return "none"
		}
		return b.View("data").String("key")
	}
	tests := []struct {
		name    string
		first   string                               // the value before the wait, "" for no object
		changes func(ctx context.Context, c *Client) // during the wait, a second after its beginning
		want    string                               // the expected value
		after   time.Duration
		err     string
	}{
		{name: "is so already", first: "a", want: "a"},
		{name: "is not there already", want: "none"},
		{name: "comes", want: "a", after: time.Second, changes: func(ctx context.Context, c *Client) {
			c.Create(ctx, object("a"), nil)
		}},
		{name: "changes", first: "a", want: "b", after: time.Second, changes: func(ctx context.Context, c *Client) {
			c.Patch(ctx, ref, map[string]any{"data": map[string]any{"key": "b"}}, nil)
		}},
		{name: "passes by", first: "a", want: "b", after: time.Second, changes: func(ctx context.Context, c *Client) {
			c.Patch(ctx, ref, map[string]any{"data": map[string]any{"key": "b"}}, nil)
			c.Patch(ctx, ref, map[string]any{"data": map[string]any{"key": "c"}}, nil)
		}},
		{name: "goes", first: "a", want: "none", after: time.Second, changes: func(ctx context.Context, c *Client) {
			c.Delete(ctx, ref, nil)
		}},
		{name: "never", first: "a", want: "b", after: time.Minute,
			err: `waiting for ConfigMap default/example to be b: not within 1m0s; it was {"apiVersion":"v1"`},
		{name: "never comes", want: "b", after: time.Minute, err: "to be b: not within 1m0s; it did not exist"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := NewClient(NewAPIServer(nil).ConnectionInfo(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if tt.first != "" {
					if err := client.Create(t.Context(), object(tt.first), nil); err != nil {
						t.Fatal(err)
					}
				}
				started := time.Now()
				time.AfterFunc(time.Second, func() {
					if tt.changes != nil {
						tt.changes(t.Context(), client)
					}
				})
				body, err := WaitFor(t.Context(), client, ref, "to be "+tt.want, func(b *Body) bool { return value(b) == tt.want })
				if tt.err == "" && (err != nil || value(body) != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("got %q and %v, want %q and %q", value(body), err, tt.want, tt.err)
				}
				if elapsed := time.Since(started); elapsed != tt.after {
					t.Errorf("it took %s, want %s", elapsed, tt.after)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// TestWaitForStreams checks that a wait survives the end of its connection, and temporary errors of the server.
func TestWaitForStreams(t *testing.T) {
	fault := func(f APIServerFault) func(*APIServer) {
		return func(s *APIServer) { s.Fail(f) }
	}
	for name, tt := range map[string]struct {
		fail func(*APIServer)
		code int // of the error, 0 for none
	}{
		"cut":        {fault(APIServerFault{Verb: "watch", Cut: true, Times: 1}), 0},
		"dropped":    {fault(APIServerFault{Verb: "watch", Drop: true, Times: 1}), 0},
		"failed":     {fault(APIServerFault{Verb: "watch", Status: 503, Times: 1}), 0},
		"throttled":  {fault(APIServerFault{Verb: "watch", Status: 429, Times: 1}), 0},
		"gone":       {fault(APIServerFault{Verb: "watch", Gone: true, Times: 1}), 0},
		"disconnect": {func(s *APIServer) { time.AfterFunc(2*time.Second, s.Disconnect) }, 0},
		"unreadable": {fault(APIServerFault{Verb: "get", Status: 500, Times: 20}), 0}, // more than the retries of a request
		"refused":    {fault(APIServerFault{Verb: "watch", Status: 403, Times: 1}), 403},
		"missing":    {fault(APIServerFault{Verb: "watch", Status: 404, Times: 1}), 404},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := NewAPIServer(nil)
				client, err := NewClient(server.ConnectionInfo(), &NetworkingSettings{ErrorBackoffs: []time.Duration{time.Millisecond}})
				if err != nil {
					t.Fatal(err)
				}
				object := func(value string) map[string]any {
					return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"}, "data": map[string]any{"key": value}}
				}
				if err := client.Create(t.Context(), object("1"), nil); err != nil {
					t.Fatal(err)
				}
				tt.fail(server)
				time.AfterFunc(5*time.Second, func() { _, _ = client.Patch(t.Context(), object("1"), object("2"), nil) })
				started := time.Now()
				_, err = WaitFor(t.Context(), client, object("1"), "to change", func(b *Body) bool { return b != nil && b.View("data").String("key") == "2" })
				if StatusCode(err) != tt.code || (err == nil) != (tt.code == 0) {
					t.Errorf("got %v, want the code %d", err, tt.code)
				}
				if elapsed := time.Since(started); tt.code == 0 && elapsed > 10*time.Second || tt.code != 0 && elapsed > time.Second {
					t.Errorf("it took %s", elapsed)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestWaitForUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewAPIServer(nil)
		client, err := NewClient(server.ConnectionInfo(), &NetworkingSettings{})
		if err != nil {
			t.Fatal(err)
		}
		server.Fail(APIServerFault{Verb: "get", Status: 500, Message: "no database"})
		_, err = WaitFor(t.Context(), client, ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}, "to be there", func(b *Body) bool { return b != nil })
		if err == nil || !strings.Contains(err.Error(), "to be there: not within 1m0s, and the last error was: ") || !strings.Contains(err.Error(), "no database") {
			t.Errorf("got %v, want the limit and the error of the server", err)
		}
	})
}

// TestWaitForSecret checks that the error does not contain the data of a Secret, because it would appear in the logs of tests.
func TestWaitForSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := NewClient(NewAPIServer(nil).ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"password": "aHVudGVyMg=="},
			"metadata": map[string]any{"name": "a", "namespace": "default", "annotations": map[string]any{"copy": "aHVudGVyMg=="}}}
		if err := client.Create(t.Context(), secret, nil); err != nil {
			t.Fatal(err)
		}
		_, err = WaitFor(t.Context(), client, secret, "to vanish", func(b *Body) bool { return b == nil })
		if err == nil || strings.Contains(err.Error(), "aHVudGVyMg==") || !strings.Contains(err.Error(), `it was {"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"default"`) {
			t.Errorf("got %v, want the identity of the secret without its data", err)
		}
	})
}

func TestWaitForEndOfRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := NewClient(NewAPIServer(nil).ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		fake := &fakeTB{context: t.Context()}
		fake.run(func() {
			r := NewRunner(fake, fakeOperator{living: time.Second, err: errors.New("oops")}, nil)
			ref := ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "example"}
			_, err := WaitFor(r.Context(), client, ref, "to be there", func(b *Body) bool { return b != nil })
			if err == nil || !strings.Contains(err.Error(), "to be there: oops") {
				t.Errorf("got %v, want the error of the operator", err)
			}
		})
	})
}

func TestRunnerLevel(t *testing.T) {
	lines := map[slog.Level][]string{slog.LevelDebug: {"DEBUG", "INFO"}, slog.LevelInfo: {"INFO"}, slog.LevelError: nil}
	for level, want := range lines {
		t.Run(level.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var output bytes.Buffer
				fake := &fakeTB{context: t.Context(), output: &output}
				server := NewAPIServer(nil)
				failures := fake.run(func() {
					NewRunner(fake, &Operator{Registry: &Registry{}, Connection: server.ConnectionInfo()}, &RunnerOptions{Level: level})
				})
				for _, name := range []string{"DEBUG", "INFO"} {
					if logged := strings.Contains(output.String(), "["+name); logged != slices.Contains(want, name) || len(failures) > 0 {
						t.Errorf("lines at %s: %t, want the levels %q; failures %q\n%s", name, logged, want, failures, &output)
					}
				}
			})
		})
	}
	var output bytes.Buffer
	fake := &fakeTB{context: t.Context(), output: &output}
	server := NewAPIServer(nil)
	fake.run(func() { NewRunner(fake, &Operator{Registry: &Registry{}, Connection: server.ConnectionInfo()}, nil) })
	if text := output.String(); strings.Contains(text, "[DEBUG]") || !strings.Contains(text, "[INFO ] Operator started") {
		t.Errorf("got the lines without options\n%s", text)
	}
}
