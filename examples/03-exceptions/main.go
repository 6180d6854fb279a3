// Command 03-exceptions shows what becomes of handlers that fail: for now, for good, or for
// reasons that nobody has thought of.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnCreate("kopfexamples", waiting, &kopf.ChangeOptions{Backoff: time.Second})
	kopf.OnCreate("kopfexamples", hopeless, nil)
	kopf.OnCreate("kopfexamples", stubborn, &kopf.ChangeOptions{Retries: 3, Backoff: time.Second})
	kopf.OnCreate("kopfexamples", strict, &kopf.ChangeOptions{Errors: kopf.ErrorsPermanent})
	kopf.OnCreate("kopfexamples", panicking, &kopf.ChangeOptions{Retries: 2, Backoff: time.Second})
	kopf.Main()
}

// waiting is called again, five seconds later.
func waiting(ctx context.Context, c *kopf.Change) error {
	if c.Retry < 1 {
		return kopf.Temporary(errors.New("this is not the time yet"), 5*time.Second)
	}
	return nil
}

// hopeless is called once: another attempt would not help.
func hopeless(ctx context.Context, c *kopf.Change) error {
	return kopf.Permanent(errors.New("the object makes no sense"))
}

// stubborn has an error that says nothing about retries, so its options do: three attempts, a second apart.
func stubborn(ctx context.Context, c *kopf.Change) error {
	return errors.New("something has gone wrong")
}

// strict has such an error too, but with its options that is the end.
func strict(ctx context.Context, c *kopf.Change) error {
	return errors.New("something has gone wrong for good")
}

// panicking does not end the operator; its stack is in the log.
func panicking(ctx context.Context, c *kopf.Change) error {
	panic("nobody has thought of this")
}
