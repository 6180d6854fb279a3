// Command 12-embedded is a program with two operators and a web server in it, which begin and end with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("The program has failed.", "error", err)
		os.Exit(1)
	}
}

// run runs all that the program is made of. The first part that ends has the others end, too.
func run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	counter := new(atomic.Int64)
	memo := new(kopf.Memo) // the operators and the web server share what is behind the pointer
	memo.Store("counter", counter)
	operators := []*kopf.Operator{
		{Registry: counting(), Memo: memo, Namespaces: []string{"default"}},
		{Registry: greeting(), Namespaces: []string{"default"}},
	}
	server := &http.Server{Addr: "127.0.0.1:0", ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%d objects were made\n", counter.Load())
	})}

	ended := make(chan error)
	parts := 1 + len(operators)
	go func() { ended <- server.ListenAndServe() }()
	for i, op := range operators {
		op.Ready = func() { slog.Info("An operator is ready.", "number", i+1) }
		go func() { ended <- op.Run(ctx) }()
	}
	go func() {
		<-ctx.Done()
		_ = server.Close() // nobody is waited for
	}()
	var failures []error
	for range parts {
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			failures = append(failures, err)
		}
		stop()
	}
	return errors.Join(failures...)
}

func counting() *kopf.Registry {
	r := new(kopf.Registry)
	r.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		counter, _ := c.Memo().Load("counter")
		c.Logger.Info("The object is counted.", "number", counter.(*atomic.Int64).Add(1))
		return nil
	}, &kopf.ChangeOptions{ID: "count"})
	return r
}

func greeting() *kopf.Registry {
	r := new(kopf.Registry)
	r.OnEvent("kopfexamples", func(ctx context.Context, e *kopf.WatchEvent) error {
		e.Logger.Info("Hello, object!")
		return nil
	}, &kopf.EventOptions{ID: "greet"})
	return r
}
