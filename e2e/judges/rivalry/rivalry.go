// Package rivalry has the shared definitions of the election tests and the processes that they run.
package rivalry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// The types of electors.
const (
	Ours     = "ours"
	ClientGo = "client-go"
	Manager  = "controller-runtime"
)

// Config configures a process.
type Config struct {
	Kind     string
	Identity string // the identity of the process
	Server   string // the address of the API server
	Journal  string // the file for its [Act]s

	LeaseDuration, RenewDeadline, RetryPeriod time.Duration

	Skew      time.Duration // the skew of its clock, for times in the Lease
	Unwinding time.Duration // the time that its work takes to end
}

// Variable is the environment variable with the [Config] as JSON.
const Variable = "KOPF_RIVAL"

// Headers of the requests.
const (
	IdentityHeader = "X-Rival"
	SentHeader     = "X-Rival-Sent" // in nanoseconds, by the clock of the machine
)

// The objects.
const (
	Namespace  = "default"
	Lease      = "rivals"
	Result     = "results"
	Label      = "rivals" // of the objects that kopf handles
	LeasesPath = "/apis/coordination.k8s.io/v1/namespaces/" + Namespace + "/leases"
	LeasePath  = LeasesPath + "/" + Lease
	MapsPath   = "/api/v1/namespaces/" + Namespace + "/configmaps"
	ResultPath = MapsPath + "/" + Result
)

// The kinds of acts.
const (
	Begun     = "begun"
	Step      = "step"
	Unwinding = "unwinding" // after the context was canceled
	Ended     = "ended"
)

// Act is one line of a journal: at that time, the process believed that it may work.
type Act struct {
	At       time.Time
	Identity string
	Kind     string
	Call     int
}

// Patch sends a merge patch, and writes the resulting object.
func Patch(ctx context.Context, client *http.Client, url string, patch []byte, to io.Writer) error {
	return send(ctx, client, http.MethodPatch, url, "application/merge-patch+json", patch, to)
}

// Create creates an object.
func Create(ctx context.Context, client *http.Client, url string, object []byte) error {
	return send(ctx, client, http.MethodPost, url, "application/json", object, io.Discard)
}

// Get reads an object, and writes it.
func Get(ctx context.Context, client *http.Client, url string, to io.Writer) error {
	return send(ctx, client, http.MethodGet, url, "", nil, to)
}

// Delete deletes an object.
func Delete(ctx context.Context, client *http.Client, url string) error {
	return send(ctx, client, http.MethodDelete, url, "", nil, io.Discard)
}

func send(ctx context.Context, client *http.Client, method, url, contentType string, body []byte, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(to, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return nil
}
