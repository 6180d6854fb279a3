package chaos

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/e2e/cluster"
)

// This file is the proxy between the operator and the API server, with the faults of requests. It terminates the TLS of the operator, checks the credentials
// itself, and connects to the server as the administrator.

type proxy struct {
	cluster *cluster.Cluster
	server  *httptest.Server
	choices *choices
	counts  *tally
	rate    atomic.Uint64 // the bits of the fraction of failing requests
	dark    atomic.Bool   // all requests fail
	logins  *logins

	certificate   atomic.Pointer[tls.Certificate] // of the server
	refusing      atomic.Pointer[refusal]         // the current refusal of writes to the objects, if any
	blind         atomic.Int64                    // the number of callers that hide namespaces from the tenant
	creations     atomic.Int64                    // the number of creations with delayed responses
	relogin       atomic.Bool                     // the next request gets expired credentials
	extensionDown atomic.Bool
	mains         atomic.Int64 // the number of the operator's requests
	tenants       atomic.Int64 // the number of the tenant's requests

	links     links  // to the processes of several replicas
	requests  *tally // the operator's requests, by verb and resource
	writes    *tally // the writing requests, by address
	mu        sync.Mutex
	open      map[net.Conn]bool   // guarded by mu
	incidents []incident          // guarded by mu
	renewals  []time.Time         // guarded by mu; when the operator tried to renew its record
	outages   []span              // guarded by mu; when all requests failed
	watches   map[net.Conn]string // guarded by mu; the paths of the tenant's streams
}

func newProxy(c *cluster.Cluster, seed uint64, counts *tally) (*proxy, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA())
	p := &proxy{cluster: c, choices: &choices{seed: seed, seen: map[string]uint64{}}, counts: counts, requests: newTally(), writes: newTally(),
		open: map[net.Conn]bool{}, watches: map[net.Conn]string{}}
	if err := p.present(c.Authority()); err != nil {
		return nil, err
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.EnableHTTP2 = true
	config := &tls.Config{Certificates: []tls.Certificate{*p.certificate.Load()}, ClientCAs: roots, ClientAuth: tls.VerifyClientCertIfGiven}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := p.server.TLS.Clone() // with the certificate of the server
		current.Certificates, current.GetConfigForClient = []tls.Certificate{*p.certificate.Load()}, nil
		return current, nil
	}
	p.server.TLS = config
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0) // it would log each cut connection
	p.server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	p.server.Config.ConnState = p.keepConnections
	p.server.StartTLS()
	return p, nil
}

type connKey struct{}

func (p *proxy) keepConnections(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(p.open, conn)
		delete(p.watches, conn)
	} else {
		p.open[conn] = true
	}
}

func (p *proxy) setRate(rate float64) { p.rate.Store(math.Float64bits(rate)) }

// blackOut closes all connections, and refuses new ones for a while.
func (p *proxy) blackOut(ctx context.Context, d time.Duration) {
	p.counts.add(blackout)
	p.dark.Store(true)
	from := time.Now()
	p.cutAll()
	pause(ctx, d)
	p.dark.Store(false)
	p.outage(from)
}

// outage records that all requests have failed until now.
func (p *proxy) outage(from time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outages = append(p.outages, span{from, time.Now()})
}

// cutAll closes all connections.
func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.Close() // ignore the error
	}
}

// cutStreamsOf closes the tenant's streams of a path.
func (p *proxy) cutStreamsOf(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn, watched := range p.watches {
		if watched == path {
			_ = conn.Close() // ignore the error
		}
	}
}

// tenantPath is the prefix of the request paths of the tenant's operator.
const tenantPath = "/" + tenantRole

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.dark.Load() {
		cut(r)
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, processPath); ok {
		r = p.ofProcess(r, rest)
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, tenantPath+"/"); ok {
		r.URL.Path = "/" + rest
		r.URL.RawPath = ""
		p.tenants.Add(1)
		p.serveTenant(w, r)
		return
	}
	p.mains.Add(1)
	p.requests.add(r.Method + " " + describe(r))
	if isWrite(r) {
		p.writes.add(r.URL.Path)
		p.renewed(r)
	}
	p.serve(w, r)
}

// serveTenant hides namespaces from the tenant's operator while that is enabled.
func (p *proxy) serveTenant(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == namespacesPath {
		if p.blind.Load() > 0 {
			cut(r)
		}
		if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && isWatch(r) {
			p.mu.Lock()
			p.watches[conn] = r.URL.Path
			p.mu.Unlock()
		}
	}
	p.serve(w, r)
}

// renewed records the time of an operator's renewal of its record.
func (p *proxy) renewed(r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, peering) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewals = append(p.renewals, time.Now())
}

// serve forwards a request, or makes it fail.
func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	if !p.logins.accepted(r) {
		p.counts.add(expiredCredentials)
		p.refuseLogin(w)
		return
	}
	if p.reloginNow(r) {
		p.refuseLogin(w)
		return
	}
	if p.refused(w, r) || p.extension(w, r) {
		return
	}
	if isContested(r) {
		pause(r.Context(), contestDelay)
	}
	f, random := p.choices.choose(r, math.Float64frombits(p.rate.Load()))
	if f == nil {
		if isCreation(r) && p.rate.Load() != 0 && random.IntN(2) == 0 {
			p.answerLate(w, r, random)
		} else {
			p.forward(w, r)
		}
		return
	}
	p.counts.add(f.name)
	p.note(r, f.name)
	if f.meet != nil {
		f.meet(p, w, r, random)
		return
	}
	if f.code == http.StatusUnauthorized {
		p.refuseLogin(w)
		return
	}
	patience := ""
	if f.retryAfter && random.IntN(3) > 0 {
		patience = strconv.Itoa(1 + random.IntN(2))
	}
	answer(w, f.code, f.reason, patience)
}

// writesTo returns the number of writes to an object.
func (p *proxy) writesTo(name string) int {
	n := 0
	for path, times := range p.written() {
		if isWidgets(path) && strings.Contains(path+"/", "/"+name+"/") {
			n += times
		}
	}
	return n
}

// written returns the numbers of writes by address.
func (p *proxy) written() map[string]int {
	p.writes.mu.Lock()
	defer p.writes.mu.Unlock()
	return maps.Clone(p.writes.counts)
}

// incident is a failed request.
type incident struct {
	Time time.Time
	What string
	Path string
}

func (p *proxy) note(r *http.Request, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.incidents = append(p.incidents, incident{time.Now(), r.Method + " " + r.URL.Path + ": " + what, r.URL.Path})
}

// describe describes a request for the report.
func describe(r *http.Request) string {
	if isWatch(r) {
		return "watch"
	}
	return "single"
}

func answer(w http.ResponseWriter, code int, reason, retryAfter string) {
	w.Header().Set("Content-Type", "application/json")
	if retryAfter != "" {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, statusOf(code, reason)) // the operator may have disconnected
}

// cut closes the connection of the request, including other requests on it.
func cut(r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		_ = conn.Close() // ignore the error
	}
	panic(http.ErrAbortHandler)
}

// abort closes the connection of the request, unless the operator has canceled the request: then other requests continue, as with the API server.
func abort(r *http.Request) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	cut(r)
}

// send sends the request to the API server.
func (p *proxy) send(r *http.Request) (*http.Response, error) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.cluster.URL()+r.URL.RequestURI(), r.Body)
	if err != nil {
		return nil, err
	}
	out.Header = r.Header.Clone()
	out.Header.Del("Authorization")
	out.Header.Del("Accept-Encoding") // the proxy must read the responses that it cuts
	out.ContentLength = r.ContentLength
	return p.noted(r, out)
}

// forward passes on the response of the API server. It closes the connection if that is not reachable.
func (p *proxy) forward(w http.ResponseWriter, r *http.Request) { p.pass(w, r, math.MaxInt64, nil) }

// pass passes on the response of the API server, up to a number of bytes. It then calls end.
func (p *proxy) pass(w http.ResponseWriter, r *http.Request, most int64, end func()) {
	resp, err := p.send(r)
	if err != nil {
		abort(r)
	}
	defer resp.Body.Close()
	p.relay(w, r, resp, most, end)
}

// hand passes on a complete response.
func (p *proxy) hand(w http.ResponseWriter, r *http.Request, resp *http.Response) {
	p.relay(w, r, resp, math.MaxInt64, nil)
}

func (p *proxy) relay(w http.ResponseWriter, r *http.Request, resp *http.Response, most int64, end func()) {
	for _, name := range []string{"Content-Type", "Retry-After", "Warning", "Content-Length"} {
		if v := resp.Header.Values(name); len(v) > 0 {
			w.Header()[name] = v
		}
	}
	p.links.await(r)
	w.WriteHeader(resp.StatusCode)
	flush := http.NewResponseController(w)
	buffer := make([]byte, 32<<10)
	for most > 0 {
		_ = flush.Flush() // write errors are detected below
		n, err := resp.Body.Read(buffer[:min(int64(len(buffer)), most)])
		p.links.await(r)
		if _, failed := w.Write(buffer[:n]); failed != nil {
			abort(r)
		}
		most -= int64(n)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			abort(r)
		}
	}
	_ = flush.Flush() // likewise
	end()
}

func (p *proxy) delay(w http.ResponseWriter, r *http.Request, random *rand.Rand) {
	pause(r.Context(), between(random, 50*time.Millisecond, 1500*time.Millisecond))
	p.forward(w, r)
}

func (p *proxy) dropBefore(_ http.ResponseWriter, r *http.Request, _ *rand.Rand) { cut(r) }

// dropAfter sends the request, and drops its response.
func (p *proxy) dropAfter(_ http.ResponseWriter, r *http.Request, _ *rand.Rand) {
	if resp, err := p.send(r); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // drop its body as well
		_ = resp.Body.Close()
	}
	cut(r)
}

// stall waits for long, and drops the request.
func (p *proxy) stall(_ http.ResponseWriter, r *http.Request, random *rand.Rand) {
	pause(r.Context(), between(random, 2*time.Second, 12*time.Second))
	cut(r)
}

func (p *proxy) cutAnswer(w http.ResponseWriter, r *http.Request, random *rand.Rand) {
	p.pass(w, r, 1+random.Int64N(400), func() { cut(r) })
}

// cutWatch ends a stream in the middle of an event, in some cases without an error.
func (p *proxy) cutWatch(w http.ResponseWriter, r *http.Request, random *rand.Rand) {
	p.pass(w, r, 1+random.Int64N(20_000), func() {
		if random.IntN(2) == 0 {
			cut(r)
		}
	})
}

// stallWatch stops in the middle of an event, for longer than the timeout of the operator.
func (p *proxy) stallWatch(w http.ResponseWriter, r *http.Request, random *rand.Rand) {
	p.pass(w, r, 1+random.Int64N(20_000), func() { pause(r.Context(), 30*time.Second) })
}

// expireWatch reports an expired version within a stream, like the API server.
func (p *proxy) expireWatch(w http.ResponseWriter, r *http.Request, _ *rand.Rand) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"type":"ERROR","object":%s}`+"\n", statusOf(http.StatusGone, "Expired")) // the operator may have disconnected
}

// garbleWatch sends an invalid event.
func (p *proxy) garbleWatch(w http.ResponseWriter, r *http.Request, random *rand.Rand) {
	w.Header().Set("Content-Type", "application/json")
	lines := []string{"{\"type\":\"ADDED\",\"object\":[1,2]}\n", "\x00\xff\xfe\n", "<html>\n", "{\"type\":\n", "\n\n\n", `{"type":"ADDED","object":{"kind":"Nothing"}}` + "\n"}
	_, _ = io.WriteString(w, lines[random.IntN(len(lines))]) // the operator may have disconnected
}

// answerPage responds with a page for people, as proxies do.
func (p *proxy) answerPage(w http.ResponseWriter, r *http.Request, random *rand.Rand) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader([]int{http.StatusOK, http.StatusBadGateway, http.StatusForbidden, http.StatusGatewayTimeout}[random.IntN(4)])
	_, _ = io.Copy(w, bytes.NewReader([]byte("<html><body><h1>It works!</h1></body></html>\n"))) // the operator may have disconnected
}

// pause waits until a time has passed, or the context is canceled.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
