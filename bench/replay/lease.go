package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

// lease is the Lease of an election. There is at most one.
type lease struct {
	object  map[string]any // nil if it does not exist
	version int
	foreign int       // if not 0, another holder has it: the number of its renewals
	got     time.Time // when an operator got it last
	first   time.Time // the first patch of an object after that
}

// HoldLease gives the Lease to another holder, which is no operator. It is renewed with each read.
func (s *Server) HoldLease() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease.foreign = 1
}

// ReleaseLease has the other holder release the Lease.
func (s *Server) ReleaseLease() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease.foreign = 0
	s.lease.version++
	s.lease.store(map[string]any{"metadata": map[string]any{"name": "bench", "namespace": "default"}, "spec": map[string]any{"holderIdentity": "", "leaseDurationSeconds": 1}})
}

// Led returns the time when an operator last got the Lease, and the time of the first patch of an object afterwards; zero for not yet.
func (s *Server) Led() (got, first time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease.got, s.lease.first
}

// worked records a patch of an object. The caller holds the lock.
func (l *lease) worked() {
	if l.first.IsZero() && !l.got.IsZero() {
		l.first = time.Now()
	}
}

// store stores a written Lease. The caller holds the lock.
func (l *lease) store(object map[string]any) {
	before := l.holder()
	l.version++
	metadata, _ := object["metadata"].(map[string]any)
	metadata["resourceVersion"] = fmt.Sprint(l.version)
	l.object = object
	if now := l.holder(); now != "" && now != before {
		l.got, l.first = time.Now(), time.Time{}
	}
}

func (l *lease) holder() string {
	spec, _ := l.object["spec"].(map[string]any)
	holder, _ := spec["holderIdentity"].(string)
	return holder
}

// serveLease answers as kube-apiserver does.
func (s *Server) serveLease(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	var asked map[string]any
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &asked)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.lease
	code := http.StatusOK
	metadata, _ := asked["metadata"].(map[string]any)
	switch {
	case err != nil || r.Method != http.MethodGet && metadata == nil:
		code = http.StatusBadRequest
	case l.foreign > 0 && r.Method == http.MethodGet:
		fmt.Fprintf(w, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"bench","namespace":"default","resourceVersion":"1"},`+
			`"spec":{"holderIdentity":"another","leaseDurationSeconds":15,"leaseTransitions":%d}}`, l.foreign)
		l.foreign++
		return
	case l.foreign > 0, r.Method == http.MethodPost && l.object != nil:
		code = http.StatusConflict
	case r.Method == http.MethodPost:
		l.store(asked)
	case l.object == nil:
		code = http.StatusNotFound
	case r.Method == http.MethodPut && metadata["resourceVersion"] != fmt.Sprint(l.version):
		code = http.StatusConflict
	case r.Method == http.MethodPut:
		l.store(asked)
	}
	w.WriteHeader(code)
	if code != http.StatusOK {
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, code)
		return
	}
	_ = json.NewEncoder(w).Encode(l.object) // the operator may have ended
}
