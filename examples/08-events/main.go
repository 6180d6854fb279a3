// Command 08-events shows event handlers, without stored state and without retries.
package main

import (
	"context"
	"errors"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnEvent("kopfexamples", seen, nil)
	kopf.OnEvent("kopfexamples", failing, nil)
	kopf.Main()
}

func seen(ctx context.Context, e *kopf.WatchEvent) error {
	e.Logger.Info("An event has come.", "type", e.Type, "version", e.Body.ResourceVersion())
	return nil
}

// failing is still called with the next event.
func failing(ctx context.Context, e *kopf.WatchEvent) error {
	return errors.New("errors of such handlers are logged and forgotten")
}
