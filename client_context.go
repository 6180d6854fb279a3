package kopf

import (
	"context"
	"log/slog"
)

// This file hands the operator to a server of webhooks, by way of the context of Serve: so a server that wraps
// another one need not know about it. It runs on the goroutine that starts the server.

// servedKey is the key of contexts for a servedOperator.
type servedKey struct{}

type servedOperator struct {
	client *Client
	log    *slog.Logger
}

// withOperator returns a context for [AdmissionServer.Serve], from which the servers of this package take the way to the
// API server and the logger.
func withOperator(ctx context.Context, client *Client, log *slog.Logger) context.Context {
	return context.WithValue(ctx, servedKey{}, servedOperator{client, log})
}

// servedClient returns the client of the operator that a server serves, nil if there is none.
func servedClient(ctx context.Context) *Client {
	op, _ := ctx.Value(servedKey{}).(servedOperator)
	return op.client
}

// servedLogger returns the logger of the operator that a server serves, the default one if there is none.
func servedLogger(ctx context.Context) *slog.Logger {
	if op, _ := ctx.Value(servedKey{}).(servedOperator); op.log != nil {
		return op.log
	}
	return slog.Default()
}
