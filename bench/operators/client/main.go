// The least that does the work of the bench: a program that follows the widgets without decoding them, and makes the requests that our operator makes for each new
// one: with the result, and with the record of what was handled. It keeps nothing but which of them it has in hand.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"

	"github.com/kopf-go/kopf/bench/operators/requests"
)

// widget is one that is to be handled.
type widget struct{ name, size string }

const path = "/apis/bench.kopf.dev/v1/"

func main() {
	requests.Run(func(c *requests.Client) map[string]func(event []byte) {
		handle := handleInStatus
		if os.Getenv("BENCH_WRITES") == "2" {
			handle = handleTwice
		}
		begun := make(map[widget]bool) // a watch that begins anew shows them again before they are handled
		return map[string]func(event []byte){path + "widgets": func(event []byte) {
			_, rest, _ := bytes.Cut(event, []byte(`"spec":{`))
			spec, status, _ := bytes.Cut(rest, []byte(`"status":{`))
			w := widget{requests.Text(event, `"name":"widget-`), requests.Number(spec, `"size":`)}
			if w.name == "" || w.size == requests.Number(status, `"size":`) || begun[w] {
				return
			}
			begun[w] = true
			record := specIn(spec)
			c.Do(func(ctx context.Context) error { return handle(ctx, c, w, record) })
		}}
	})
}

// specIn returns the spec as JSON, given the event after its beginning, as far as the status or to the end.
func specIn(rest []byte) string {
	fields, ended := bytes.CutSuffix(rest, []byte("}}}\n")) // of the spec, the object and the event
	if !ended {
		fields = bytes.TrimSuffix(rest, []byte("},"))
	}
	return `{"spec":{` + string(fields) + `}}`
}

// handleInStatus writes the result and the record in one request.
func handleInStatus(ctx context.Context, c *requests.Client, w widget, spec string) error {
	record, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return patch(ctx, c, w.name+"/status", `{"status":{"size":`+w.size+`,"handled":true,"kopf":{"last-handled-configuration":`+string(record)+`}}}`)
}

// handleTwice writes the result into the status, and the record into an annotation.
func handleTwice(ctx context.Context, c *requests.Client, w widget, spec string) error {
	record, err := json.Marshal(spec + "\n")
	if err != nil {
		return err
	}
	if err := patch(ctx, c, w.name+"/status", `{"status":{"size":`+w.size+`,"handled":true}}`); err != nil {
		return err
	}
	return patch(ctx, c, w.name, `{"metadata":{"annotations":{"kopf.zalando.org/last-handled-configuration":`+string(record)+`}}}`)
}

func patch(ctx context.Context, c *requests.Client, name, body string) error {
	return c.Patch(ctx, path+"namespaces/default/widgets/widget-"+name, "application/merge-patch+json", body)
}
