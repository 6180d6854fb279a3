// The least that does the work of the bench: a program that follows the widgets without reading more of them than their names, and
// writes the result of each new one. It keeps nothing, retries nothing and notices no mistake: it shows what is left of the costs
// when an operator costs nothing.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const path = "/apis/bench.kopf.dev/v1/"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	workers, err := strconv.Atoi(os.Getenv("BENCH_WORKERS"))
	if err != nil {
		return err
	}
	names := make(chan string, 1000)
	failed := make(chan error, workers+1)
	for range workers {
		go func() {
			for name := range names {
				if err := handle(ctx, client, config.Host, name); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	go func() { failed <- follow(ctx, client, config.Host, names) }()
	return <-failed
}

// follow finds the widgets that are not handled yet.
func follow(ctx context.Context, client *http.Client, host string, names chan<- string) error {
	query := "widgets?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, host+path+query, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := bufio.NewReaderSize(resp.Body, 64<<10); ; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return err
		}
		_, rest, ok := bytes.Cut(line, []byte(`"name":"widget-`))
		if !ok || bytes.Contains(line, []byte(`"handled":true`)) {
			continue
		}
		names <- "widget-" + string(rest[:bytes.IndexByte(rest, '"')])
	}
}

func handle(ctx context.Context, client *http.Client, host, name string) error {
	body := strings.NewReader(`{"status":{"size":3,"handled":true}}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, host+path+"namespaces/default/widgets/"+name+"/status", body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", name, resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
