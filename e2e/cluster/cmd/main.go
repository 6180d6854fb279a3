// Command cmd runs a cluster until it is interrupted, for manual tests:
//
//	go run ./cluster/cmd
//
// It prints the lines to paste into another terminal. With -bin, it only prints the folder of kubectl, kube-apiserver, etcd and kube-controller-manager. It
// builds them if they are missing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kopf-go/kopf/e2e/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	bin := flag.Bool("bin", false, "print the folder of the programs and start nothing")
	controllers := flag.Bool("controllers", false, "run the controllers of namespaces, garbage collection and service accounts")
	flag.Parse()
	if *bin {
		dir, err := cluster.Binaries(ctx, os.Stderr)
		if err == nil {
			fmt.Println(dir)
		}
		return err
	}
	opts := &cluster.Options{Log: os.Stderr}
	if *controllers {
		opts.Controllers = cluster.UsualControllers
	}
	c, err := cluster.Start(ctx, opts)
	if err != nil {
		return err
	}
	defer c.Stop()
	fmt.Printf("export KUBECONFIG=%s\n", c.Kubeconfig())
	fmt.Printf("export PATH=%s:$PATH\n", filepath.Dir(c.KubectlPath()))
	fmt.Fprintf(os.Stderr, "the logs are in %s; Ctrl+C ends the cluster and removes its files\n", c.Dir)
	waitForEnd(ctx)
	return nil
}

// waitForEnd also ends when "go run" is killed, because "go run" does not pass on its signals.
func waitForEnd(ctx context.Context) {
	parent := os.Getppid()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if os.Getppid() != parent {
				return
			}
		}
	}
}
