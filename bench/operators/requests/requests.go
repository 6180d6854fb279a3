// Package requests is the common part of the minimal programs for the work of the bench. They watch objects without decoding them, and send the same
// requests as kopf. They ignore responses and errors, and retry nothing. They show the costs that remain if the operator itself costs nothing.
package requests

import (
	"bufio"
	"bytes"
	"context"
	"errors"
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

// Client sends requests.
type Client struct {
	host          string
	reads, writes *http.Client
	todo          chan func(ctx context.Context) error
}

// Run watches collections until the program is interrupted. The keys are their paths, and the values are called with the bytes of each event.
func Run(follow func(c *Client) map[string]func(event []byte)) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, follow); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, follow func(c *Client) map[string]func(event []byte)) error {
	c, err := newClient()
	if err != nil {
		return err
	}
	workers, err := strconv.Atoi(os.Getenv("BENCH_WORKERS"))
	if err != nil {
		return err
	}
	collections := follow(c)
	failed := make(chan error, workers+len(collections))
	for range workers {
		go func() {
			for f := range c.todo {
				if err := f(ctx); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	for path, take := range collections {
		go func() { failed <- c.follow(ctx, path, take) }()
	}
	return <-failed
}

func newClient() (*Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	c := &Client{host: config.Host, todo: make(chan func(ctx context.Context) error, 100_000)} // the server ends a watch that is not read
	if c.reads, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	alone := rest.CopyConfig(config)
	alone.NextProtos = []string{"http/1.1"} // a connection for each write, like kopf
	c.writes, err = rest.HTTPClientFor(alone)
	return c, err
}

// Do has a worker call a function.
func (c *Client) Do(f func(ctx context.Context) error) { c.todo <- f }

// follow calls a function for the events of a collection.
func (c *Client) follow(ctx context.Context, path string, take func(event []byte)) error {
	query := "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	for { // the server ends watches after some time
		version, err := c.watch(ctx, path+"?watch=true&allowWatchBookmarks=true"+query, take)
		if err != nil {
			return err
		}
		if version != "" {
			query = "&resourceVersion=" + version
		}
	}
}

// watch returns the version of the last event, if it has read all events before.
func (c *Client) watch(ctx context.Context, path string, take func(event []byte)) (version string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.host+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.reads.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("watch: %s", resp.Status)
	}
	complete := !strings.Contains(path, "sendInitialEvents")
	for lines := bufio.NewReaderSize(resp.Body, 64<<10); ; {
		event, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return version, nil
		}
		if err != nil {
			return "", err
		}
		complete = complete || bytes.Contains(event, []byte("initial-events-end"))
		if complete {
			version = Text(event, `"resourceVersion":"`)
		}
		take(event)
	}
}

// Patch sends a patch, and reads the response.
func (c *Client) Patch(ctx context.Context, path, contentType, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, c.host+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := c.writes.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// Text returns the text between a prefix and the next quote.
func Text(event []byte, prefix string) string {
	_, rest, _ := bytes.Cut(event, []byte(prefix))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(text)
}

// Number returns the digits after a prefix.
func Number(event []byte, prefix string) string {
	_, rest, _ := bytes.Cut(event, []byte(prefix))
	return string(rest[:len(rest)-len(bytes.TrimLeft(rest, "0123456789"))])
}
