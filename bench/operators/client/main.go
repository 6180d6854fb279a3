// The least that does the work of the bench: a program that follows the widgets without decoding them, and makes the requests that our operator makes for each new
// one: with the result, and with the record of what was handled. It keeps nothing but which of them it has in hand, retries nothing and notices no mistake: it
// shows what is left of the costs when an operator costs nothing.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

// widget is one that is to be handled.
type widget struct{ name, size string }

// task is a widget with the spec that the record is made of.
type task struct {
	widget
	spec string
}

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
	alone := rest.CopyConfig(config)
	alone.NextProtos = []string{"http/1.1"} // a connection for each write, as ours
	writes, err := rest.HTTPClientFor(alone)
	if err != nil {
		return err
	}
	workers, err := strconv.Atoi(os.Getenv("BENCH_WORKERS"))
	if err != nil {
		return err
	}
	handle := handleInStatus
	if os.Getenv("BENCH_WRITES") == "2" {
		handle = handleTwice
	}
	todo := make(chan task, 100_000) // a watch that is not read is ended
	failed := make(chan error, workers+1)
	for range workers {
		go func() {
			for w := range todo {
				if err := handle(ctx, writes, config.Host, w); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	go func() { failed <- follow(ctx, client, config.Host, todo) }()
	return <-failed
}

// follow finds the widgets that are not handled yet.
func follow(ctx context.Context, client *http.Client, host string, todo chan<- task) error {
	query := "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	begun := make(map[widget]bool) // a watch that begins anew shows them again before they are handled
	for {                          // a server ends watches now and then
		version, err := watch(ctx, client, host+path+"widgets?watch=true&allowWatchBookmarks=true"+query, begun, todo)
		if err != nil {
			return err
		}
		if version != "" {
			query = "&resourceVersion=" + version
		}
	}
}

// watch returns the version of the last event, if all were seen that came before.
func watch(ctx context.Context, client *http.Client, url string, begun map[widget]bool, todo chan<- task) (version string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("watch: %s", resp.Status)
	}
	complete := !strings.Contains(url, "sendInitialEvents")
	for lines := bufio.NewReaderSize(resp.Body, 64<<10); ; {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return version, nil
		}
		if err != nil {
			return "", err
		}
		complete = complete || bytes.Contains(line, []byte("initial-events-end"))
		if complete {
			version = text(line, `"resourceVersion":"`)
		}
		_, rest, _ := bytes.Cut(line, []byte(`"spec":{`))
		spec, status, _ := bytes.Cut(rest, []byte(`"status":{`))
		if name := text(line, `"name":"widget-`); name != "" && sizeIn(status) != sizeIn(spec) {
			if w := (widget{"widget-" + name, sizeIn(spec)}); !begun[w] {
				begun[w] = true
				todo <- task{w, specIn(spec)}
			}
		}
	}
}

// sizeIn returns the digits of the size.
func sizeIn(text []byte) string {
	_, size, _ := bytes.Cut(text, []byte(`"size":`))
	return string(size[:len(size)-len(bytes.TrimLeft(size, "0123456789"))])
}

// text returns what stands between a prefix and the next quote.
func text(line []byte, prefix string) string {
	_, rest, _ := bytes.Cut(line, []byte(prefix))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(text)
}

// specIn returns the spec as JSON, given the line after its beginning, as far as the status or to the end.
func specIn(rest []byte) string {
	fields, ended := bytes.CutSuffix(rest, []byte("}}}\n")) // of the spec, the object and the event
	if !ended {
		fields = bytes.TrimSuffix(rest, []byte("},"))
	}
	return `{"spec":{` + string(fields) + `}}`
}

// handleInStatus writes the result and the record in one request.
func handleInStatus(ctx context.Context, client *http.Client, host string, t task) error {
	record, err := json.Marshal(t.spec)
	if err != nil {
		return err
	}
	return patch(ctx, client, host+path+"namespaces/default/widgets/"+t.name+"/status",
		`{"status":{"size":`+t.size+`,"handled":true,"kopf":{"last-handled-configuration":`+string(record)+`}}}`)
}

// handleTwice writes the result into the status, and the record into an annotation.
func handleTwice(ctx context.Context, client *http.Client, host string, t task) error {
	record, err := json.Marshal(t.spec + "\n")
	if err != nil {
		return err
	}
	address := host + path + "namespaces/default/widgets/" + t.name
	if err := patch(ctx, client, address+"/status", `{"status":{"size":`+t.size+`,"handled":true}}`); err != nil {
		return err
	}
	return patch(ctx, client, address, `{"metadata":{"annotations":{"kopf.zalando.org/last-handled-configuration":`+string(record)+`}}}`)
}

func patch(ctx context.Context, client *http.Client, address, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, address, strings.NewReader(body))
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
		return fmt.Errorf("%s: %s", address, resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
