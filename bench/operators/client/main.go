// The minimal program for the work of the bench. It watches the widgets without decoding them, and sends the same requests as kopf for each new one: the
// result, and the last-handled configuration. It keeps only the widgets in progress.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"

	"github.com/kopf-go/kopf/bench/operators/requests"
)

// widget is a widget to handle.
type widget struct{ name, size string }

const path = "/apis/bench.kopf.dev/v1/"

func main() {
	requests.Run(func(c *requests.Client) map[string]func(event []byte) {
		handle := handleInStatus
		if os.Getenv("BENCH_WRITES") == "2" {
			handle = handleTwice
		}
		begun := make(map[widget]bool) // a new watch returns them again before they are handled
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
	fields, ended := bytes.CutSuffix(rest, []byte("}}}\n")) // the end of the spec, the object and the event
	if !ended {
		fields = bytes.TrimSuffix(rest, []byte("},"))
	}
	return `{"spec":{` + string(fields) + `}}`
}

// handleInStatus writes the result and the last-handled configuration in one request.
func handleInStatus(ctx context.Context, c *requests.Client, w widget, spec string) error {
	record, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return patch(ctx, c, w.name+"/status", `{"status":{"size":`+w.size+`,"handled":true,"kopf":{"last-handled-configuration":`+string(record)+`}}}`)
}

// handleTwice writes the result to the status, and the last-handled configuration to an annotation.
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
