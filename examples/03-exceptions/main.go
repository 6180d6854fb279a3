// Command 03-exceptions shows handlers that fail: temporarily, permanently, or with unexpected errors.
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

// waiting is retried after five seconds.
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

// stubborn returns an error without information about retries, so its options apply: three attempts, with a delay of a second.
func stubborn(ctx context.Context, c *kopf.Change) error {
	return errors.New("something has gone wrong")
}

// strict returns such an error, too, but its options allow no retries.
func strict(ctx context.Context, c *kopf.Change) error {
	return errors.New("something has gone wrong for good")
}

// panicking does not end the operator. Its stack is in the log.
func panicking(ctx context.Context, c *kopf.Change) error {
	panic("nobody has thought of this")
}
