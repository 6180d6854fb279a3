package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf"
)

// The examples in this file show what handlers get and do. Each is shown together with the functions of this file that it calls, so it must not call those of other files.

// reference names the object of the examples.
var reference = kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Namespace: "default", Name: "example"}

// live runs an operator on an embedded API server, while an object of the size 1 is created, gets the size 2, and is deleted. It waits until the
// operator has handled each step.
func live(registry *kopf.Registry) {
	ignore := func(ctx context.Context, c *kopf.Change) error { return nil }
	registry.OnCreate("kopfexamples", ignore, &kopf.ChangeOptions{ID: "ignore"}) // so that kopf handles each step
	server := exampleServer()
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	check(err)
	stop := runOperator(&kopf.Operator{Registry: registry, Connection: server.ConnectionInfo()})
	defer stop()
	ctx := context.Background()
	handled := func(size string) func(b *kopf.Body) bool {
		return func(b *kopf.Body) bool {
			state, _ := b.Annotation("kopf.zalando.org/last-handled-configuration")
			return strings.Contains(state, `"size":`+size)
		}
	}
	check(client.Create(ctx, map[string]any{
		"apiVersion": "kopf.dev/v1", "kind": "KopfExample",
		"metadata": map[string]any{"name": "example", "namespace": "default", "labels": map[string]any{"env": "prod"}},
		"spec":     map[string]any{"size": 1, "items": []string{"door", "roof"}},
	}, nil))
	_, err = kopf.WaitFor(ctx, client, reference, "to be created", handled("1"))
	check(err)
	_, err = client.Patch(ctx, reference, map[string]any{"spec": map[string]any{"size": 2}}, nil)
	check(err)
	_, err = kopf.WaitFor(ctx, client, reference, "to be updated", handled("2"))
	check(err)
	check(client.Delete(ctx, reference, nil))
	_, err = kopf.WaitFor(ctx, client, reference, "to be deleted", func(b *kopf.Body) bool { return b == nil })
	check(err)
}

// exampleServer returns an embedded API server that knows the kind of the examples.
func exampleServer() *kopf.APIServer {
	server := kopf.NewAPIServer(nil)
	check(server.Apply([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kopfexamples.kopf.dev}
spec:
  scope: Namespaced
  group: kopf.dev
  names: {kind: KopfExample, plural: kopfexamples}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`)))
	return server
}

// runOperator starts an operator, and returns when it is ready. The function that it returns stops the operator, and waits for it.
func runOperator(op *kopf.Operator) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	op.Ready = func() { close(ready) }
	op.Logger = slog.New(slog.DiscardHandler)
	go func() { ended <- op.Run(ctx) }()
	<-ready
	return func() {
		cancel()
		check(<-ended)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func ExampleOnUpdate_filters() {
	registry := new(kopf.Registry)
	resize := func(ctx context.Context, c *kopf.Change) error {
		fmt.Println("from", c.Old.Int(""), "to", c.New.Int(""))
		return nil
	}
	registry.OnUpdate("kopfexamples", resize, &kopf.ChangeOptions{
		ID:      "resize",
		Field:   "spec.size",
		Labels:  kopf.Match{"env": "prod", "legacy": kopf.Absent},
		When:    func(c *kopf.Change) bool { return c.Namespace() != "kube-system" },
		Retries: 3,
		Backoff: 10 * time.Second,
	})
	live(registry)
	// Output:
	// from 1 to 2
}

func ExampleOnUpdate_diff() {
	registry := new(kopf.Registry)
	registry.OnUpdate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		for _, item := range c.Diff() {
			fmt.Println(item)
		}
		return nil
	}, &kopf.ChangeOptions{ID: "update"})
	live(registry)
	// Output:
	// change spec.size: 1 -> 2
}

func ExampleOnDelete() {
	registry := new(kopf.Registry)
	registry.OnDelete("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		fmt.Println("the deletion is blocked by", c.Body.Finalizers())
		return nil // kopf removes its finalizer
	}, &kopf.ChangeOptions{ID: "farewell"})
	live(registry)
	// Output:
	// the deletion is blocked by [kopf.zalando.org/KopfFinalizerMarker]
}

func ExampleOnField() {
	registry := new(kopf.Registry)
	registry.OnField("kopfexamples", "spec.size", func(ctx context.Context, c *kopf.Change) error {
		fmt.Println(c.Reason, c.Diff())
		return nil
	}, &kopf.ChangeOptions{ID: "size"})
	live(registry)
	// Output:
	// create [add : <nil> -> 1]
	// update [change : 1 -> 2]
}

func ExampleOnEvent() {
	registry := new(kopf.Registry)
	registry.OnEvent("kopfexamples", func(ctx context.Context, e *kopf.WatchEvent) error {
		memo := kopf.MemoOf[struct{ events int }](e)
		if memo.events++; memo.events == 1 { // kopf calls it for its own patches, too
			fmt.Println(e.Name(), "of the size", e.Spec().Int("size"))
		}
		return nil
	}, &kopf.EventOptions{ID: "see"})
	live(registry)
	// Output:
	// example of the size 1
}

func ExampleOnResume() {
	server := exampleServer()
	check(server.Apply([]byte(`{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "example", "namespace": "default"}}`)))
	calls := make(chan string)
	handle := func(ctx context.Context, c *kopf.Change) error {
		calls <- fmt.Sprint(c.Reason)
		return nil
	}
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", handle, &kopf.ChangeOptions{ID: "handle"})
	registry.OnResume("kopfexamples", handle, &kopf.ChangeOptions{ID: "handle"}) // the same function again
	for range 2 {
		stop := runOperator(&kopf.Operator{Registry: registry, Connection: server.ConnectionInfo()})
		fmt.Println(<-calls)
		stop()
	}
	// Output:
	// create
	// resume
}

func ExampleChangeFunc_retries() {
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		fmt.Println("attempt", c.Retry)
		if c.Retry < 2 {
			return kopf.Temporary(errors.New("not yet"), 10*time.Millisecond)
		}
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	live(registry)
	// Output:
	// attempt 0
	// attempt 1
	// attempt 2
}

func ExampleChange_Subhandler() {
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		for _, item := range c.Spec().Strings("items") {
			c.Subhandler(kopf.HandlerID(item), func(ctx context.Context, c *kopf.Change) error {
				fmt.Println("creating a", item)
				return nil
			}, nil)
		}
		return nil
	}, &kopf.ChangeOptions{ID: "items"})
	live(registry)
	// Output:
	// creating a door
	// creating a roof
}

func ExampleChange_Execute() {
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		for _, item := range c.Spec().Strings("items") {
			c.Subhandler(kopf.HandlerID(item), func(ctx context.Context, c *kopf.Change) error {
				fmt.Println("creating a", item)
				return nil
			}, nil)
		}
		if err := c.Execute(ctx); err != nil {
			return err // some have not finished yet, and kopf calls this handler again
		}
		fmt.Println("the house is complete")
		return nil
	}, &kopf.ChangeOptions{ID: "items"})
	live(registry)
	// Output:
	// creating a door
	// creating a roof
	// the house is complete
}

func ExampleChange_SetResult() {
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		c.SetResult(map[string]any{"volume": "volume-1"})
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	registry.OnDelete("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		fmt.Println("deleting", c.Status().String("create.volume")) // under the ID of the other handler
		return nil
	}, &kopf.ChangeOptions{ID: "delete"})
	live(registry)
	// Output:
	// deleting volume-1
}

func ExampleObject_Decode() {
	type house struct {
		Spec struct {
			Size  int      `json:"size"`
			Items []string `json:"items"`
		} `json:"spec"`
	}
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		var h house
		if err := c.Decode(&h); err != nil {
			return kopf.Permanent(err) // a retry would not help
		}
		fmt.Println(h.Spec.Size, h.Spec.Items)
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	live(registry)
	// Output:
	// 1 [door roof]
}

func ExampleChangeOptions_interruptible() {
	began := make(chan struct{})
	handled := make(chan int64)
	provision := func(ctx context.Context, c *kopf.Change) error {
		size := c.Spec().Int("size")
		if size == 1 {
			close(began)
			<-ctx.Done() // long work
			fmt.Println(errors.Is(context.Cause(ctx), kopf.ErrSuperseded))
			return ctx.Err() // the attempt does not count
		}
		handled <- size
		return nil
	}
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", provision, &kopf.ChangeOptions{ID: "provision", Interruptible: true})
	server := exampleServer()
	check(server.Apply([]byte(`{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "example", "namespace": "default"}, "spec": {"size": 1}}`)))
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	check(err)
	defer runOperator(&kopf.Operator{Registry: registry, Connection: server.ConnectionInfo()})()
	<-began
	_, err = client.Patch(context.Background(), reference, map[string]any{"spec": map[string]any{"size": 2}}, nil)
	check(err)
	fmt.Println("provisioned with the size", <-handled)
	// Output:
	// true
	// provisioned with the size 2
}

func ExampleMatch() {
	short := func(v *kopf.FieldValue) bool {
		text, ok := v.Value.(string)
		return ok && len(text) < 5
	}
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		fmt.Println("it matches")
		return nil
	}, &kopf.ChangeOptions{ID: "match", Labels: kopf.Match{"env": short, "legacy": kopf.Absent}})
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		fmt.Println("never")
		return nil
	}, &kopf.ChangeOptions{ID: "mismatch", Labels: kopf.Match{"env": "dev"}, Annotations: kopf.Match{"example.com/class": kopf.Present}})
	live(registry)
	// Output:
	// it matches
}

func ExampleMemoOf() {
	type memory struct{ calls int }
	count := func(ctx context.Context, c *kopf.Change) error {
		memo := kopf.MemoOf[memory](c) // the same in each call for this object
		memo.calls++
		fmt.Println(c.Reason, memo.calls)
		return nil
	}
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", count, &kopf.ChangeOptions{ID: "count"})
	registry.OnUpdate("kopfexamples", count, &kopf.ChangeOptions{ID: "count"})
	registry.OnDelete("kopfexamples", count, &kopf.ChangeOptions{ID: "count"})
	live(registry)
	// Output:
	// create 1
	// update 2
	// delete 3
}

func ExampleAll() {
	small := func(v *kopf.FieldValue) bool { return fmt.Sprint(v.Value) < "2" }
	written := func(v *kopf.FieldValue) bool { return v.Present }
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		fmt.Println("a small one")
		return nil
	}, &kopf.ChangeOptions{ID: "create", Field: "spec.size", Value: kopf.All(written, small)})
	live(registry)
	// Output:
	// a small one
}

func ExampleObject_Adopt() {
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		child := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": c.Name()}}
		if err := c.Adopt(child, nil); err != nil {
			return err
		}
		if err := c.Client.Create(ctx, child, nil); err != nil {
			return err
		}
		made, err := kopf.NewBody(child) // as the API server has stored it
		if err != nil {
			return err
		}
		fmt.Println(made.Reference(), made.Labels())
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	live(registry)
	// Output:
	// default/example map[env:prod]
}

func ExampleLifecycle() {
	server := exampleServer()
	check(server.Apply([]byte(`{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "example", "namespace": "default"}}`)))
	registry := new(kopf.Registry)
	done := make(chan kopf.HandlerID)
	for _, id := range []kopf.HandlerID{"first", "second"} {
		registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
			done <- id
			return nil
		}, &kopf.ChangeOptions{ID: id})
	}
	backwards := func(pending []kopf.PendingHandler) []kopf.PendingHandler {
		slices.Reverse(pending)
		return pending
	}
	stop := runOperator(&kopf.Operator{Registry: registry, Connection: server.ConnectionInfo(), Lifecycle: backwards})
	defer stop()
	fmt.Println(<-done, <-done)
	// Output:
	// second first
}

func ExampleDaemon_Sleep() {
	registry := new(kopf.Registry)
	looked := make(chan struct{}, 1)
	registry.OnDaemon("kopfexamples", func(ctx context.Context, d *kopf.Daemon) error {
		for d.Sleep(time.Millisecond) {
			select {
			case looked <- struct{}{}: // the work
			default:
			}
		}
		fmt.Println("stopping:", d.StopReason())
		return nil
	}, &kopf.DaemonOptions{ID: "watch"})
	registry.OnUpdate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		<-looked
		return nil
	}, &kopf.ChangeOptions{ID: "wait"})
	live(registry)
	// Output:
	// stopping: ResourceDeleted
}

func ExampleOnIndexIn() {
	registry := new(kopf.Registry) // kopf.OnIndex registers in the default one
	bySize := kopf.OnIndexIn(registry, "kopfexamples", func(ctx context.Context, i *kopf.Indexing) (map[int64]string, error) {
		return map[int64]string{i.Spec().Int("size"): i.Name()}, nil
	}, &kopf.IndexOptions{ID: "by-size"})
	registry.OnUpdate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		fmt.Println(bySize.Get(c, 1), bySize.Get(c, 2))
		return nil
	}, &kopf.ChangeOptions{ID: "look"})
	live(registry)
	// Output:
	// [] [example]
}

func ExampleOnStartup() {
	registry := new(kopf.Registry)
	registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
		a.Settings.Queueing.ExitTimeout = 20 * time.Second
		a.Settings.Persistence.Finalizer = "example.com/finalizer"
		fmt.Println("configured")
		return nil
	}, &kopf.ActivityOptions{ID: "configure"})
	registry.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
		fmt.Println("goodbye")
		return nil
	}, &kopf.ActivityOptions{ID: "farewell"})
	registry.OnDelete("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		fmt.Println(c.Body.Finalizers())
		return nil
	}, &kopf.ChangeOptions{ID: "delete"})
	live(registry)
	// Output:
	// configured
	// [example.com/finalizer]
	// goodbye
}

func ExampleTyped() {
	type house struct {
		kopf.Meta `json:",inline"`
		Spec      struct {
			Size int `json:"size"`
		} `json:"spec"`
		Status struct {
			Rooms int `json:"rooms,omitempty"`
		} `json:"status"`
	}
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", kopf.Typed(func(ctx context.Context, c *kopf.Change, h *house) error {
		h.Status.Rooms = 4 * h.Spec.Size // kopf adds the difference to c.Patch
		return nil
	}), &kopf.ChangeOptions{ID: "create"})
	registry.OnDelete("kopfexamples", kopf.Typed(func(ctx context.Context, c *kopf.Change, h *house) error {
		fmt.Println(h.Name, "had", h.Status.Rooms, "rooms")
		return nil
	}), &kopf.ChangeOptions{ID: "delete"})
	live(registry)
	// Output:
	// example had 4 rooms
}

func ExampleIndex_All() {
	registry := new(kopf.Registry)
	bySize := kopf.OnIndexIn(registry, "kopfexamples", func(ctx context.Context, i *kopf.Indexing) (map[int64]string, error) {
		return map[int64]string{i.Spec().Int("size"): i.Name()}, nil
	}, &kopf.IndexOptions{ID: "by-size"})
	registry.OnUpdate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		for size, names := range bySize.All(c) { // in no order
			fmt.Println(size, names)
		}
		return nil
	}, &kopf.ChangeOptions{ID: "look"})
	live(registry)
	// Output:
	// 2 [example]
}
