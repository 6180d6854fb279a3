// This command competes for the Lease of the election tests, and works while it holds it. The environment configures its type (an operator of kopf, an
// elector of client-go, or a manager of controller-runtime), and all addresses.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/kopf-go/kopf/e2e/judges/rivalry"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := newRival()
	if err == nil {
		err = map[string]func(context.Context) error{rivalry.Ours: r.runOurs, rivalry.ClientGo: r.runElector, rivalry.Manager: r.runManager}[r.Kind](ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// The common part of all types.
type rival struct {
	rivalry.Config
	journal *os.File
	calls   sync.Mutex // guards following
	last    int
}

// newRival reads the environment.
func newRival() (*rival, error) {
	r := &rival{}
	if err := json.Unmarshal([]byte(os.Getenv(rivalry.Variable)), &r.Config); err != nil {
		return nil, err
	}
	var err error
	r.journal, err = os.OpenFile(r.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return r, err
}

// client returns a client that adds the sender and the time to each request, immediately before it is sent.
func (r *rival) client() *http.Client {
	return &http.Client{Transport: r.mark(http.DefaultTransport.(*http.Transport).Clone())}
}

// mark is [client] for a transport.
func (r *rival) mark(next http.RoundTripper) http.RoundTripper { return &marker{r, next} }

type marker struct {
	rival *rival
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (m *marker) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set(rivalry.IdentityHeader, m.rival.Identity)
	req.Header.Set(rivalry.SentHeader, strconv.FormatInt(time.Now().UnixNano(), 10))
	return m.next.RoundTrip(req)
}

// note writes a line, which survives if the process is killed afterwards.
func (r *rival) note(a rivalry.Act) {
	a.Identity = r.Identity
	line, err := json.Marshal(a)
	if err == nil {
		_, err = r.journal.Write(append(line, '\n'))
	}
	if err != nil {
		log.Fatal(err) // the test needs the journal
	}
}

// number returns the number of the next call.
func (r *rival) number() int {
	r.calls.Lock()
	defer r.calls.Unlock()
	r.last++
	return r.last
}

// The pace of the work.
const (
	step        = 15 * time.Millisecond
	stepsAWrite = 8

	writeTimeout = 100 * time.Millisecond // the work continues without a network
)

// work works for a while, until its context is canceled, and then takes some time to end. It reads the clock of each step before it checks the context: a
// process that is suspended in between has not worked afterwards.
func (r *rival) work(ctx context.Context, duration time.Duration, write func(ctx context.Context, call, n int) error) {
	call, began := r.number(), time.Now()
	r.note(rivalry.Act{At: began, Kind: rivalry.Begun, Call: call})
	for n := 0; ; n++ {
		now := time.Now()
		if ctx.Err() != nil || now.Sub(began) > duration {
			break
		}
		r.note(rivalry.Act{At: now, Kind: rivalry.Step, Call: call})
		if n%stepsAWrite == 0 {
			writing, end := context.WithTimeout(ctx, writeTimeout)
			_ = write(writing, call, n) // network failures and a lost Lease are part of the test
			end()
		}
		pause(ctx, step/2+rand.N(step))
	}
	for ended := time.Now(); ctx.Err() != nil && time.Since(ended) < r.Unwinding; {
		r.note(rivalry.Act{At: time.Now(), Kind: rivalry.Unwinding, Call: call})
		pause(context.Background(), step)
	}
	r.note(rivalry.Act{At: time.Now(), Kind: rivalry.Ended, Call: call})
}

// pause waits until a time has passed, or the context is canceled.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// result returns the patch of one write, with its sender.
func (r *rival) result(fence uint64, call, n int) map[string]any {
	return map[string]any{"data": map[string]string{"identity": r.Identity, "fence": strconv.FormatUint(fence, 10), "write": fmt.Sprintf("%d/%d", call, n)}}
}

// send patches the object of the results without a fence, as the operators of the other libraries do.
func (r *rival) send(ctx context.Context, client *http.Client, call, n int) error {
	data, err := json.Marshal(r.result(0, call, n))
	if err != nil {
		return err
	}
	return rivalry.Patch(ctx, client, r.Server+rivalry.ResultPath, data, io.Discard)
}
