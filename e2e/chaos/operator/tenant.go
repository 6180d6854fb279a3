package main

import (
	"context"
	"time"

	"github.com/kopf-go/kopf"
)

// This file is the second operator, which serves namespaces with their own peering objects.

const leaves = "leaves.v1.chaos.example.com"

func (o *operator) registerTenant() {
	kopf.OnStartup(o.startup, nil)
	kopf.OnCreate(leaves, o.leaf("grow"), &kopf.ChangeOptions{ID: "grow", Backoff: 300 * time.Millisecond})
	kopf.OnDelete(leaves, o.leaf("fall"), &kopf.ChangeOptions{ID: "fall", Backoff: 300 * time.Millisecond})
}

// leaf returns a handler that needs a second attempt.
func (o *operator) leaf(id string) kopf.ChangeFunc {
	return func(ctx context.Context, c *kopf.Change) error {
		e := entry(id, &c.Object, c.Retry)
		e.Reason = string(c.Reason)
		return o.call(ctx, e, func() error {
			if c.Retry == 0 {
				return kopf.Temporary(errChance, 500*time.Millisecond)
			}
			return nil
		})
	}
}
