package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// Two operators of one program share an API server, and nothing else.
func TestOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kopf.NewAPIServer(nil)
		memo := new(kopf.Memo)
		ctx, stop := context.WithCancelCause(t.Context())
		ended := make(chan error)
		ready := make(chan struct{})
		for _, registry := range []*kopf.Registry{counting(), greeting()} {
			op := &kopf.Operator{Registry: registry, Memo: memo, Connection: server.ConnectionInfo(), Ready: func() { ready <- struct{}{} }}
			go func() { ended <- op.Run(ctx) }()
		}
		<-ready
		<-ready
		time.Sleep(time.Minute)
		stop(errors.New("the program ends"))
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
