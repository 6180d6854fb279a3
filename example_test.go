package kopf_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/kopf-go/kopf"
)

// The examples of the documentation. Those with an output are run as tests.

func ExampleOnCreate() {
	kopf.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		c.Logger.Info("creating", "duration", c.Spec().String("duration"))
		c.Patch.Set("status.phase", "Ready")
		c.SetResult(map[string]any{"message": "hello world"}) // goes to status.create
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
}

func ExampleOnUpdate_filters() {
	resize := func(ctx context.Context, c *kopf.Change) error {
		c.Logger.Info("resizing", "old", c.Old.Int(""), "new", c.New.Int(""))
		return nil
	}
	kopf.OnUpdate("kopfexamples", resize, &kopf.ChangeOptions{
		ID:      "resize",
		Field:   "spec.size",
		Labels:  kopf.Match{"env": "prod", "legacy": kopf.Absent},
		When:    func(c *kopf.Change) bool { return c.Namespace() != "kube-system" },
		Retries: 3,
		Backoff: 10 * time.Second,
	})
}

func ExampleOnStartup() {
	kopf.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
		a.Settings.Queueing.ExitTimeout = 20 * time.Second
		a.Settings.Persistence.Finalizer = "example.com/finalizer"
		return nil
	}, &kopf.ActivityOptions{ID: "configure"})
}

func ExampleTemporary() {
	create := func(ready bool) error {
		if !ready {
			return kopf.Temporary(errors.New("the volume is not there yet"), 10*time.Second)
		}
		return nil
	}
	err := fmt.Errorf("creating: %w", create(false))
	fmt.Println(err)
	if again := (*kopf.TemporaryError)(nil); errors.As(err, &again) {
		fmt.Println("again in", again.Delay)
	}
	// Output:
	// creating: the volume is not there yet
	// again in 10s
}

func ExampleMemoOf() {
	type connection struct{ attempts int }
	kopf.OnUpdate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		memo := kopf.MemoOf[connection](c) // the same one in each call for this object
		memo.attempts++
		return nil
	}, &kopf.ChangeOptions{ID: "counting"})
}

func ExampleChange_Subhandler() {
	kopf.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		for _, item := range c.Spec().Strings("items") {
			c.Subhandler(kopf.HandlerID(item), func(ctx context.Context, c *kopf.Change) error {
				c.Logger.Info("creating", "item", item)
				return nil
			}, nil)
		}
		return nil
	}, &kopf.ChangeOptions{ID: "items"})
}

func ExampleBody() {
	body, err := kopf.ParseBody([]byte(`{
		"apiVersion": "kopf.dev/v1", "kind": "KopfExample",
		"metadata": {"name": "example", "namespace": "default", "labels": {"env": "prod"}},
		"spec": {"size": 3, "parts": {"door": "red"}}}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(body.Reference(), body.Labels()["env"])
	fmt.Println(body.Spec().Int("size"), body.Spec().String("parts.door"), body.Spec().Has("parts.roof"))
	var typed struct {
		Spec struct{ Size int }
	}
	if err := body.Decode(&typed); err != nil {
		panic(err)
	}
	fmt.Println(typed.Spec.Size)
	// Output:
	// default/example prod
	// 3 red false
	// 3
}

func ExamplePatch() {
	var patch kopf.Patch
	patch.Set("status.phase", "Ready")
	patch.Set("spec.parts", map[string]any{"door": "green"})
	patch.SetPath("yes", "metadata", "annotations", "example.com/seen") // keys with dots
	patch.Remove("spec.size")
	text, err := json.MarshalIndent(patch.Map(), "", "  ")
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
	// Output:
	// {
	//   "metadata": {
	//     "annotations": {
	//       "example.com/seen": "yes"
	//     }
	//   },
	//   "spec": {
	//     "parts": {
	//       "door": "green"
	//     },
	//     "size": null
	//   },
	//   "status": {
	//     "phase": "Ready"
	//   }
	// }
}

func ExamplePath() {
	path := kopf.Path("metadata", "annotations", "example.com/seen")
	fmt.Println(len(path.Keys()), path)
	// Output:
	// 3 metadata.annotations.example.com/seen
}

func ExampleNewLogHandler() {
	logger := slog.New(kopf.NewLogHandler(&kopf.LogOptions{Format: kopf.LogPlain, Output: os.Stdout}))
	// Loggers of handlers have their object with them.
	logger = logger.With("object", kopf.ObjectReference{Namespace: "default", Name: "example"})
	logger.Info("The size has changed.", "old", 1, "new", 2)
	// Output:
	// [default/example] The size has changed.  old=1 new=2
}
