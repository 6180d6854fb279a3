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

// This file is the ways of several replicas to the API server, each of which can be interrupted by itself. What they ask of it is noted.

// processPath begins the paths of the requests of a process, whose number follows.
const processPath = "/process-"

type links struct {
	mu     sync.Mutex       // guards all below
	broken map[int]*link    // by process
	conns  map[net.Conn]int // which process has opened each
	sent   []sent
	asked  []leaseRequest
}

// link is how a way is interrupted.
type link struct {
	cut  bool
	held chan struct{} // closed when what was held back goes on
}

// sent is a request that changes something.
type sent struct {
	Run          int
	Method, Path string
	At           time.Time // when it came
	Code         int       // of the answer; 0 for none
	Version      int64     // that it has made; 0 if it is not known
}

// leaseRequest is a request for the Lease.
type leaseRequest struct {
	Run               int
	Method            string
	At, Answered      time.Time
	Expected          string // the version that is to be replaced
	Holder, RenewTime string // that are to be stored
	Code              int    // 0 for no answer
	Got               leaseState
}

// leaseState is what a request sees of the Lease.
type leaseState struct{ Version, Holder string }

// processKey and arrivalKey are those of what a request's context tells: the process that it comes from, and when it came.
type (
	processKey struct{}
	arrivalKey struct{}
)

func processOf(r *http.Request) int {
	run, _ := r.Context().Value(processKey{}).(int)
	return run
}

// ofProcess returns the request of a process as the API server is to get it, when it may come through.
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
	if isWrite(r) { // it arrives, also if nothing waits for it any more
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

// await holds an answer back as long as that is wanted.
func (l *links) await(r *http.Request) {
	if run := processOf(r); run != 0 {
		if broken := l.of(run); broken != nil && broken.held != nil {
			<-broken.held
		}
	}
}

// cutProcess ends the connections of a process.
func (p *proxy) cutProcess(run int) {
	p.links.mu.Lock()
	defer p.links.mu.Unlock()
	for conn, of := range p.links.conns {
		if of == run {
			_ = conn.Close() // that is all there is to do to it
		}
	}
}

// noted makes a request to the API server. Those of replicas that change something, or are about the Lease, are noted.
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
		version, _ := strconv.ParseInt(leaseIn(answer).Metadata.ResourceVersion, 10, 64) // a status has none
		p.links.sent = append(p.links.sent, sent{run, r.Method, r.URL.Path, at, code, version})
	}
	return resp, err
}

// changesAnything tells whether a request changes what is stored: reviews of rights and tokens do not.
func changesAnything(r *http.Request) bool {
	return isWrite(r) && !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/") && !strings.HasPrefix(r.URL.Path, "/apis/authentication.k8s.io/")
}

type lease struct {
	Metadata struct{ ResourceVersion string }
	Spec     struct{ HolderIdentity, RenewTime string }
}

// leaseIn reads a Lease, or the version of anything else.
func leaseIn(data []byte) (l lease) {
	_ = json.Unmarshal(data, &l) // what is none of both leaves it empty
	return l
}
