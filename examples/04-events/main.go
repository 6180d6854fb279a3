// Command 04-events posts Kubernetes events about its objects, which "kubectl describe" shows.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnStartup(configure, nil)
	kopf.OnCreate("kopfexamples", create, nil)
	kopf.Main()
}

func configure(ctx context.Context, a *kopf.Activity) error {
	a.Settings.Posting.ReportingComponent = "example.com/kopfexamples"
	return nil
}

func create(ctx context.Context, c *kopf.Change) error {
	if c.Retry == 0 {
		err := errors.New("the volume is not there yet")
		c.PostError("Waiting", "", err)
		return kopf.Temporary(err, time.Second)
	}
	c.PostInfo("Created", "the volume is there")
	c.PostWarning("Costly", "this namespace has a new volume", kopf.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: c.Namespace()})
	c.PostEvent("Whatever", "Custom", "any word can be the type of an event")
	c.Logger.Info("The events are posted.")
	return nil
}
