package kopf

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/exitguard"
)

// twoSignals runs an operator until a condition, sends it two signals with a second in between, and returns the time from the second one to its end.
func twoSignals(t *testing.T, r *Registry, adjust func(*Settings), until <-chan struct{}) time.Duration {
	t.Helper()
	guard := exitguard.New()
	guard.Operate()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	signals, over := make(chan os.Signal), make(chan struct{})
	defer close(over)
	go guard.Watch(over, signals, stop, func(int) { t.Error("the process has exited") }, io.Discard)
	op := &Operator{
		Registry: r, Settings: NewSettings(), Connection: NewAPIServer(nil).ConnectionInfo(), Logger: slog.New(slog.DiscardHandler), guard: guard,
	}
	adjust(op.Settings)
	done := make(chan error, 1)
	go func() { done <- op.Run(ctx) }()
	<-until
	signals <- syscall.SIGTERM
	time.Sleep(time.Second) // in the bubble of the caller
	began := time.Now()
	signals <- syscall.SIGTERM
	<-done
	return time.Since(began)
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
