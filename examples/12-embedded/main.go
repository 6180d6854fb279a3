// Command 12-embedded is a program without the command line of operators. It contains two operators and a web server, which share some state, and start and
// end together.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.ConfigureLogging(nil) // like other operators, or use any other handler of log/slog
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("The program has failed.", "error", err)
		os.Exit(1)
	}
}

// run runs all parts of the program. When one of them ends, it ends the others, too.
func run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	counter := new(atomic.Int64) // the operators and the web server share it
	memo := new(kopf.Memo)
	memo.Store("counter", counter)
	settings := kopf.NewSettings()
	settings.Peering.Standalone = true // the operators do different work, and need not pause for each other
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%d objects were made\n", counter.Load())
	})}

	parts := []func() error{func() error { return server.Serve(listener) }}
	for i, registry := range []*kopf.Registry{counting(), greeting()} {
		op := &kopf.Operator{Registry: registry, Settings: settings, Memo: memo, Namespaces: []string{"default"}}
		op.Ready = func() { slog.Info("An operator is ready.", "number", i+1) }
		parts = append(parts, func() error { return op.Run(ctx) })
	}
	ended := make(chan error)
	for _, part := range parts {
		go func() { ended <- part() }()
	}
	slog.Info("The numbers are served.", "url", "http://"+listener.Addr().String())
	go func() {
		<-ctx.Done()
		_ = server.Close() // do not wait for clients
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
