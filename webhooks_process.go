package kopf

import (
	"context"
	"net/http"
	"sync"
)

// This file brings the reviews of an in-memory API server to an operator in the same process, without a network. They are answered on
// the goroutines of the requests that they are about.

// AdmissionServer returns a server of webhooks for one operator in the same process: the API server hands the reviews over as it would
// send them, with no network and no certificates, so that it works in a bubble of testing/synctest, too.
//
//	server := kopf.NewAPIServer(nil)
//	settings.Admission = kopf.AdmissionSettings{Server: server.AdmissionServer(), Managed: "example.com"}
func (s *APIServer) AdmissionServer() AdmissionServer { return &processWebhooks{s} }

type processWebhooks struct{ server *APIServer }

// Serve takes reviews until the context ends, and returns when the last one is answered. See [AdmissionServer].
func (p *processWebhooks) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	run := &webhookRun{WebhookServer: (&WebhookServer{}).withDefaults(ctx, ""), review: review}
	var mu sync.Mutex // guards following
	var reviews sync.WaitGroup
	over := false
	url, end := p.server.listenForReviews(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if over {
			mu.Unlock()
			panic(http.ErrAbortHandler) // as if nobody listened
		}
		reviews.Add(1)
		mu.Unlock()
		defer reviews.Done()
		run.ServeHTTP(w, r)
	}))
	defer end()
	announce(WebhookClientConfig{URL: url})
	<-ctx.Done()
	mu.Lock()
	over = true
	mu.Unlock()
	reviews.Wait()
	return nil
}
