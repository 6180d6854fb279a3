package kopf

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/exitguard"
)

// twoSignals runs an operator until a condition, sends it two signals with a second in between, and returns the time from the second one to its end.
func twoSignals(t *testing.T, r *Registry, adjust func(*Settings), until <-chan struct{}) time.Duration {
	t.Helper()
	op := &Operator{Registry: r, Settings: NewSettings(), Connection: NewAPIServer(nil).ConnectionInfo()}
	adjust(op.Settings)
	return op.signalTwice(t, until, time.Second)
}

// signalTwice is twoSignals for an operator and the time between the signals.
func (o *Operator) signalTwice(t *testing.T, until <-chan struct{}, between time.Duration) time.Duration {
	t.Helper()
	guard := exitguard.New()
	guard.Operate()
	o.guard, o.Logger = guard, slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	signals, over := make(chan os.Signal), make(chan struct{})
	defer close(over)
	go guard.Watch(over, signals, stop, func(int) { t.Error("the process has exited") }, io.Discard)
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	<-until
	signals <- syscall.SIGTERM
	time.Sleep(between) // in the bubble of the caller
	began := time.Now()
	signals <- syscall.SIGTERM
	<-done
	return time.Since(began)
}

// deafServer does not answer writes to some paths once it is deaf.
type deafServer struct {
	next http.RoundTripper
	path string
	deaf chan struct{}
}

// RoundTrip implements [http.RoundTripper].
func (s *deafServer) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-s.deaf:
		if s.path != "" && strings.Contains(r.URL.Path, s.path) && r.Method != http.MethodGet {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
	default:
	}
	return s.next.RoundTrip(r)
}

// peeringObject is a peering object of the whole cluster, and its kind.
const peeringObject = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterkopfpeerings.kopf.dev}
spec:
  group: kopf.dev
  scope: Cluster
  names: {kind: ClusterKopfPeering, plural: clusterkopfpeerings}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: kopf.dev/v1
kind: ClusterKopfPeering
metadata: {name: default}
`

// TestSecondSignalEndsAllWaiting proves DF-69 for what a leader and a peer give up at their end.
func TestSecondSignalEndsAllWaiting(t *testing.T) {
	elects := func(s *Settings) {
		s.LeaderElection.Name, s.LeaderElection.Namespace = "l", "default"
		s.Peering.Standalone = true
	}
	for name, tt := range map[string]struct {
		settings func(*Settings)
		deaf     string // part of the paths without an answer
		waits    bool   // whether a handler of the end of leading waits for its context
		atLeast  time.Duration
		most     time.Duration
	}{
		"a handler of the end of leading": {elects, "", true, forcedCleanupTime - time.Second, forcedCleanupTime},
		"the release of the Lease":        {elects, "leases", false, 0, forcedRequestTime},
		"the peering record":              {func(*Settings) {}, "kopfpeerings", false, 0, forcedRequestTime},
		"all of them": {func(s *Settings) {
			elects(s)
			s.Peering.Standalone = false
		}, "/apis", true, 0, forcedCleanupTime + 2*forcedRequestTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := NewAPIServer(nil)
				if err := server.Apply([]byte(peeringObject)); err != nil {
					t.Fatal(err)
				}
				op := &Operator{Registry: &Registry{}, Settings: NewSettings(), Connection: server.ConnectionInfo()}
				tt.settings(op.Settings)
				deaf := &deafServer{op.Connection.HTTPClient.Transport, tt.deaf, make(chan struct{})}
				op.Connection.HTTPClient = &http.Client{Transport: deaf}
				op.Registry.OnEvent("configmaps", func(context.Context, *WatchEvent) error { return nil }, &EventOptions{ID: "e"})
				if tt.waits {
					op.Registry.OnStoppedLeading(func(ctx context.Context, _ *Activity) error {
						<-ctx.Done()
						return ctx.Err()
					}, &ActivityOptions{ID: "stopped"})
				}
				time.AfterFunc(time.Minute, func() { close(deaf.deaf) })
				passed := op.signalTwice(t, deaf.deaf, 100*time.Millisecond)
				if passed < tt.atLeast || passed > tt.most+100*time.Millisecond {
					t.Errorf("the operator has ended %s after the second signal, want at most %s", passed, tt.most)
				}
			})
		})
	}
}

func TestSecondSignal(t *testing.T) {
	t.Run("DF-69 reviews end at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, asked, registry := newPipes(), make(chan struct{}), &Registry{}
			registry.OnValidate("configmaps", func(ctx context.Context, _ *Admission) error {
				close(asked)
				<-ctx.Done()
				return ctx.Err()
			}, &AdmissionOptions{ID: "v"})
			go func() {
				conn := l.dial()
				defer conn.Close()
				const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"default","userInfo":{},` +
					`"resource":{"version":"v1","resource":"configmaps"},"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}}}`
				_, _ = fmt.Fprintf(conn, "POST /v HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(review), review)
				_, _ = io.Copy(io.Discard, conn)
			}()
			passed := twoSignals(t, registry, func(s *Settings) {
				s.Admission.Server = &WebhookServer{Listener: l, Insecure: true}
			}, asked)
			if passed > time.Second {
				t.Errorf("the operator has ended %s after the second signal", passed)
			}
		})
	})
	t.Run("DF-69 replicas end at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			leading, registry := make(chan struct{}), &Registry{}
			registry.OnValidate("configmaps", func(context.Context, *Admission) error { return nil }, &AdmissionOptions{ID: "v"})
			registry.OnStartedLeading(func(context.Context, *Activity) error {
				close(leading)
				return nil
			}, &ActivityOptions{ID: "led"})
			passed := twoSignals(t, registry, func(s *Settings) {
				s.LeaderElection.Name, s.LeaderElection.Namespace = "l", "default"
				s.Admission.Server, s.Admission.ShutdownDelay = &WebhookServer{Listener: newPipes()}, time.Hour
			}, leading)
			if passed > time.Second {
				t.Errorf("the operator has ended %s after the second signal", passed)
			}
		})
	})
	t.Run("DF-69 a server that ignores its context is abandoned", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, registry := &stuckServer{make(chan struct{}), make(chan struct{})}, &Registry{}
			defer close(s.release)
			registry.OnValidate("configmaps", func(context.Context, *Admission) error { return nil }, &AdmissionOptions{ID: "v"})
			if passed := twoSignals(t, registry, func(settings *Settings) { settings.Admission.Server = s }, s.serves); passed > 2*time.Second {
				t.Errorf("the operator has ended %s after the second signal", passed)
			}
		})
	})
	t.Run("DF-69 clean-up handlers have two seconds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			started, registry := make(chan struct{}), &Registry{}
			registry.OnStartup(func(context.Context, *Activity) error {
				close(started)
				return nil
			}, &ActivityOptions{ID: "start"})
			registry.OnCleanup(func(ctx context.Context, _ *Activity) error {
				<-ctx.Done()
				return ctx.Err()
			}, &ActivityOptions{ID: "clean"})
			if passed := twoSignals(t, registry, func(*Settings) {}, started); passed < forcedCleanupTime || passed > forcedCleanupTime+time.Second {
				t.Errorf("the operator has ended %s after the second signal", passed)
			}
		})
	})
}

// stuckServer is a server that ignores its context.
type stuckServer struct{ serves, release chan struct{} }

func (s *stuckServer) Serve(context.Context, ReviewFunc, func(WebhookClientConfig)) error {
	close(s.serves)
	<-s.release
	return nil
}
