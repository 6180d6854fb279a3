package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// This file has the connections of several replicas to the API server. Each can be interrupted separately. Their requests are recorded.

// processPath is the prefix of the request paths of a process, followed by its number.
const processPath = "/process-"

type links struct {
	mu     sync.Mutex       // guards all below
	broken map[int]*link    // by process
	conns  map[net.Conn]int // the process of each connection
	sent   []sent
	asked  []leaseRequest
}

// link is an interruption of a connection.
type link struct {
	cut  bool
	held chan struct{} // closed when delayed requests continue
}

// sent is a writing request.
type sent struct {
	Run          int
	Method, Path string
	At           time.Time // when it arrived
	Code         int       // of the response; 0 for none
	Version      int64     // that it created; 0 if unknown
}

// leaseRequest is a request for the Lease.
type leaseRequest struct {
	Run               int
	Method            string
	At, Answered      time.Time
	Expected          string // the version to replace
	Holder, RenewTime string // the values to store
	Code              int    // 0 without a response
	Got               leaseState
}

// leaseState is the state of the Lease for a request.
type leaseState struct{ Version, Holder string }

// processKey and arrivalKey are keys of the request's context: its process, and its time of arrival.
type (
	processKey struct{}
	arrivalKey struct{}
)

func processOf(r *http.Request) int {
	run, _ := r.Context().Value(processKey{}).(int)
	return run
}

// ofProcess returns the request of a process for the API server, when it may pass.
func (p *proxy) ofProcess(r *http.Request, rest string) *http.Request {
	number, path, _ := strings.Cut(rest, "/")
	run, _ := strconv.Atoi(number) // the bench has written it
	r.URL.Path, r.URL.RawPath = "/"+path, ""
	ctx := context.WithValue(context.WithValue(r.Context(), processKey{}, run), arrivalKey{}, time.Now())
	r = r.WithContext(ctx)
	if conn, ok := ctx.Value(connKey{}).(net.Conn); ok {
		p.links.mu.Lock()
		if p.links.conns == nil {
			p.links.conns = map[net.Conn]int{}
		}
		p.links.conns[conn] = run
		p.links.mu.Unlock()
	}
	l := p.links.of(run)
	if l == nil {
		return r
	}
	if l.cut {
		cut(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		cut(r)
	}
	<-l.held
	r.Body = io.NopCloser(bytes.NewReader(body))
	if isWrite(r) { // it arrives, even if it was canceled
		r = r.WithContext(context.WithoutCancel(ctx))
	}
	return r
}

func (l *links) set(run int, broken *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = map[int]*link{}
	}
	l.broken[run] = broken
}

func (l *links) of(run int) *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken[run]
}

// await delays a response as long as the link is held.
func (l *links) await(r *http.Request) {
	if run := processOf(r); run != 0 {
		if broken := l.of(run); broken != nil && broken.held != nil {
			<-broken.held
		}
	}
}

// cutProcess closes the connections of a process.
func (p *proxy) cutProcess(run int) {
	p.links.mu.Lock()
	defer p.links.mu.Unlock()
	for conn, of := range p.links.conns {
		if of == run {
			_ = conn.Close() // ignore the error
		}
	}
}

// noted sends a request to the API server. It records requests of replicas that write, or concern the Lease.
func (p *proxy) noted(r, out *http.Request) (*http.Response, error) {
	run := processOf(r)
	aboutLease := strings.HasPrefix(out.URL.Path, "/apis/coordination.k8s.io/")
	if run == 0 || !aboutLease && !isWrite(r) || isWatch(r) {
		return p.cluster.HTTPClient().Do(out)
	}
	at, _ := r.Context().Value(arrivalKey{}).(time.Time)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp, err := p.cluster.HTTPClient().Do(out)
	var answer []byte
	code := 0
	if err == nil {
		code = resp.StatusCode
		if answer, err = io.ReadAll(resp.Body); err != nil {
			code = 0
		}
		_ = resp.Body.Close() // it was read
		resp.Body = io.NopCloser(bytes.NewReader(answer))
	}
	p.links.mu.Lock()
	defer p.links.mu.Unlock()
	if aboutLease {
		q := leaseRequest{Run: run, Method: r.Method, At: at, Answered: time.Now(), Code: code}
		asked, got := leaseIn(body), leaseIn(answer)
		q.Expected, q.Holder, q.RenewTime = asked.Metadata.ResourceVersion, asked.Spec.HolderIdentity, asked.Spec.RenewTime
		q.Got = leaseState{got.Metadata.ResourceVersion, got.Spec.HolderIdentity}
		p.links.asked = append(p.links.asked, q)
	} else if changesAnything(r) {
		version, _ := strconv.ParseInt(leaseIn(answer).Metadata.ResourceVersion, 10, 64) // a Status has none
		p.links.sent = append(p.links.sent, sent{run, r.Method, r.URL.Path, at, code, version})
	}
	return resp, err
}

// changesAnything reports whether a request changes stored objects. Reviews of permissions and tokens do not.
func changesAnything(r *http.Request) bool {
	return isWrite(r) && !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/") && !strings.HasPrefix(r.URL.Path, "/apis/authentication.k8s.io/")
}

type lease struct {
	Metadata struct{ ResourceVersion string }
	Spec     struct{ HolderIdentity, RenewTime string }
}

// leaseIn decodes a Lease, or the version of another object.
func leaseIn(data []byte) (l lease) {
	_ = json.Unmarshal(data, &l) // other documents leave it empty
	return l
}
