package chaos

import (
	"bytes"
	"context"
	"crypto/tls"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/e2e/cluster"
)

// This file replaces the certificate authority of the server. It replaces the file in the kubeconfig, as a kubelet does in a pod.

// Rotation is a change of the authority, and the reaction of an operator.
type Rotation struct {
	Time    time.Time
	Process string // the operator and its process
	Waited  time.Duration
	Reached bool // whether it sent a request over a new connection
	Ended   bool // whether the process ended in the meantime, so that the result is unknown
}

// reconnecting is the time limit for an operator to reconnect. Most operators always have work, and their backoff is at most 4 s. The operator of the tenant
// may have only streams that have been silent for long, and its backoff is longer than a minute.
func reconnecting(role string) time.Duration {
	if role == tenantRole {
		return 90 * time.Second
	}
	return 12 * time.Second
}

// rotateAuthorities replaces the authority repeatedly until the context is canceled.
func (b *bench) rotateAuthorities(ctx context.Context, random *rand.Rand) error {
	for {
		pause(ctx, between(random, time.Second, 10*time.Second))
		if ctx.Err() != nil {
			return nil
		}
		if err := b.rotateAuthority(ctx, random.IntN(2) == 0); err != nil {
			return err
		}
	}
}

// rotateAuthority gives the server another certificate, of a new authority. With a bundle, the file first contains both authorities for a while. It cuts all
// connections, and operators must reconnect.
func (b *bench) rotateAuthority(ctx context.Context, bundle bool) error {
	authority, err := cluster.NewAuthority()
	if err != nil {
		return err
	}
	if bundle {
		if err := b.writeCA(bytes.Join([][]byte{b.trusted, authority.PEM()}, nil)); err != nil {
			return err
		}
		pause(ctx, time.Second)
	}
	if err := b.writeCA(authority.PEM()); err != nil {
		return err
	}
	b.trusted = authority.PEM()
	if err := b.proxy.present(authority); err != nil {
		return err
	}
	b.counts.add(rotatedAuthority)
	b.proxy.cutAll()
	b.awaitReturn(ctx)
	return nil
}

// writeCA replaces the file atomically.
func (b *bench) writeCA(data []byte) error {
	path := filepath.Join(b.dir, "ca.crt")
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// awaitReturn records which operators reconnect in time.
func (b *bench) awaitReturn(ctx context.Context) {
	began := time.Now()
	type waiting struct {
		s        *supervisor
		process  string
		requests int64
	}
	pause(ctx, 200*time.Millisecond) // until the running requests are cut
	var all []waiting
	for _, s := range b.supervisors() {
		all = append(all, waiting{s, s.process(), b.proxy.arrived(s.role).Load()})
	}
	for waited := time.Duration(0); len(all) > 0 && ctx.Err() == nil; {
		pause(ctx, 100*time.Millisecond)
		if !b.proxy.dark.Load() {
			waited += 100 * time.Millisecond
		}
		var left []waiting
		for _, w := range all {
			reached := b.proxy.arrived(w.s.role).Load() > w.requests
			ended := w.s.process() != w.process
			late := waited > reconnecting(w.s.role)
			if !reached && !ended && !late {
				left = append(left, w)
				continue
			}
			b.mu.Lock()
			b.rotations = append(b.rotations, Rotation{Time: began, Process: w.process, Waited: waited, Reached: reached, Ended: ended})
			b.mu.Unlock()
		}
		all = left
	}
}

// present has the server use a certificate of the authority from now on.
func (p *proxy) present(authority *cluster.Authority) error {
	id, err := authority.Issue("kube-apiserver", nil, true, time.Hour)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(id.Cert, id.Key)
	if err != nil {
		return err
	}
	p.certificate.Store(&pair)
	return nil
}

// arrived counts the requests of an operator.
func (p *proxy) arrived(role string) *atomic.Int64 {
	if role == tenantRole {
		return &p.tenants
	}
	return &p.mains
}

// rotated checks how the operators reacted to new authorities.
func (c *court) rotated() {
	for _, r := range c.Rotations {
		if !r.Reached && !r.Ended {
			c.complain(reconnects, "", "", "%s has not connected for %s after the authority was changed at %s", r.Process, r.Waited, r.Time.Format(clock))
		}
	}
}
