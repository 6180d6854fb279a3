package judges

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/e2e/judges/rivalry"
)

// This file is the network between one process and the API server. It loses and delays requests and responses, and records those that reach the server.

// exchange is a request that has reached the API server, and its response.
type exchange struct {
	Identity, Method, Path string
	Sent                   time.Time // when the process sent it, by the clock of the machine
	Arrived, Answered      time.Time // the server carried it out in between
	Code                   int
	Query, Answer          objectState
}

// objectState has the checked fields of a Lease, or of an object with results.
type objectState struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		HolderIdentity       string `json:"holderIdentity"`
		LeaseDurationSeconds int    `json:"leaseDurationSeconds"`
		LeaseTransitions     int    `json:"leaseTransitions"`
		RenewTime            string `json:"renewTime"`
	} `json:"spec"`
	Data map[string]string `json:"data"`
}

// version returns the number of the state. The numbers order the states of all objects.
func (s *objectState) version() uint64 {
	n, _ := strconv.ParseUint(s.Metadata.ResourceVersion, 10, 64) // 0 for none
	return n
}

// upstream is the API server.
type upstream struct {
	url    string
	client *http.Client
}

// rivalProxy is the network of one process.
type rivalProxy struct {
	upstream
	server *httptest.Server
	record func(exchange)

	mu     sync.Mutex // guards following
	random *rand.Rand
	dark   chan struct{}    // closed when the network works again; nil while it works
	delay  [2]time.Duration // of requests and of responses
	until  time.Time        // the end of the delay
	once   bool             // the network fails when the next response about the Lease has passed
	gone   time.Duration    // for that time
	conns  map[net.Conn]bool
}

func newRivalProxy(to upstream, seed uint64, record func(exchange)) *rivalProxy {
	p := &rivalProxy{upstream: to, record: record, random: rand.New(rand.NewPCG(seed, 0)), conns: map[net.Conn]bool{}}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if state == http.StateClosed || state == http.StateHijacked {
			delete(p.conns, conn)
		} else {
			p.conns[conn] = true
		}
	}
	p.server.Start()
	return p
}

// close ends all connections.
func (p *rivalProxy) close() {
	p.mu.Lock()
	dark := p.dark
	p.mu.Unlock()
	p.lift(dark)
	p.cut()
	p.server.Close()
}

func (p *rivalProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close() // ignore the error
	}
}

// partition blocks all requests and responses for a while.
func (p *rivalProxy) partition(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dark != nil {
		return
	}
	dark := make(chan struct{})
	p.dark = dark
	time.AfterFunc(d, func() { p.lift(dark) })
}

// lift ends a partition, unless it has ended.
func (p *rivalProxy) lift(dark chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dark != nil && p.dark == dark {
		p.dark = nil
		close(dark)
	}
}

// slow delays requests and responses for a while.
func (p *rivalProxy) slow(requests, answers, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.until = [2]time.Duration{requests, answers}, time.Now().Add(d)
}

// slowThenPartition delays the responses for a while. The network fails when the next one about the Lease has passed afterwards.
func (p *rivalProxy) slowThenPartition(answers, d, gone time.Duration) {
	p.slow(0, answers, d)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.once, p.gone = true, gone
}

// hold waits until the network works, and for the delay of requests or responses. It loses half of those that have waited for the network.
func (p *rivalProxy) hold(which int) (lost bool) {
	p.mu.Lock()
	dark, delay := p.dark, p.delay[which]
	if time.Now().After(p.until) {
		delay = 0
	}
	p.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay) // the delay of the network
		p.mu.Lock()
		dark = p.dark
		p.mu.Unlock()
	}
	if dark == nil {
		return false
	}
	<-dark
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.IntN(2) == 0
}

// ServeHTTP implements [http.Handler]. As in a network, it also sends a request that its sender has canceled.
func (p *rivalProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		p.stream(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || p.hold(0) {
		panic(http.ErrAbortHandler)
	}
	resp, answer, err := p.forward(r, body)
	if err != nil || p.hold(1) {
		panic(http.ErrAbortHandler)
	}
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	p.passing(r)
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer) // the process may have ended
}

// passing checks whether a response is the last one before a failure. The next request of the process must be lost already.
func (p *rivalProxy) passing(r *http.Request) {
	if r.Method != http.MethodPut || r.URL.Path != rivalry.LeasePath {
		return
	}
	p.mu.Lock()
	last := p.once && time.Until(p.until) < p.delay[1] // the response was slow, and the next one would not be
	if last {
		p.once, p.until = false, time.Time{}
	}
	p.mu.Unlock()
	if last {
		p.partition(p.gone)
	}
}

// forward sends the request to the API server.
func (p *rivalProxy) forward(r *http.Request, body []byte) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	defer cancel()
	req, err := p.request(ctx, r, body)
	if err != nil {
		return nil, nil, err
	}
	sent, _ := strconv.ParseInt(r.Header.Get(rivalry.SentHeader), 10, 64) // all requests have it
	x := exchange{Identity: r.Header.Get(rivalry.IdentityHeader), Method: r.Method, Path: r.URL.Path, Sent: time.Unix(0, sent), Arrived: time.Now().Round(0)}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil, err
	}
	x.Answered, x.Code = time.Now().Round(0), resp.StatusCode
	if strings.HasPrefix(x.Path, rivalry.LeasesPath) || x.Path == rivalry.ResultPath {
		_ = json.Unmarshal(body, &x.Query) // a GET has none
		_ = json.Unmarshal(answer, &x.Answer)
	}
	p.record(x)
	return resp, answer, nil
}

func (p *rivalProxy) request(ctx context.Context, r *http.Request, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, p.url+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = r.Header.Clone()
	req.Header.Del("Accept-Encoding") // the proxy reads the responses
	return req, nil
}

// stream passes on the events of a watch. Events wait while the network fails.
func (p *rivalProxy) stream(w http.ResponseWriter, r *http.Request) {
	if p.hold(0) {
		panic(http.ErrAbortHandler)
	}
	req, err := p.request(r.Context(), r, nil)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	flush := http.NewResponseController(w)
	buffer := make([]byte, 32<<10)
	for {
		_ = flush.Flush() // write errors are detected below
		n, err := resp.Body.Read(buffer)
		if n > 0 && p.hold(0) {
			panic(http.ErrAbortHandler)
		}
		if _, failed := w.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}
