package main

import (
	"context"
	"errors"
	"log"
	"math"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-go/kopf/e2e/judges/rivalry"
)

// restConfig returns the client-go configuration for the server.
func (r *rival) restConfig() *rest.Config {
	config := &rest.Config{Host: r.Server, QPS: -1}
	config.ContentType = "application/json" // the test reads the body
	config.Wrap(r.mark)
	return config
}

// skewed is a lock of a process with a wrong clock, which affects the times that it writes.
type skewed struct {
	resourcelock.Interface
	by time.Duration
}

func (s *skewed) skew(record resourcelock.LeaderElectionRecord) resourcelock.LeaderElectionRecord {
	record.RenewTime = metav1.NewTime(record.RenewTime.Add(s.by))
	record.AcquireTime = metav1.NewTime(record.AcquireTime.Add(s.by))
	return record
}

// Create implements [resourcelock.Interface].
func (s *skewed) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return s.Interface.Create(ctx, s.skew(record))
}

// Update implements [resourcelock.Interface].
func (s *skewed) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return s.Interface.Update(ctx, s.skew(record))
}

// lock returns the Lease for client-go.
func (r *rival) lock() (resourcelock.Interface, error) {
	clients, err := kubernetes.NewForConfig(r.restConfig())
	if err != nil {
		return nil, err
	}
	lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: rivalry.Namespace, Name: rivalry.Lease}, Client: clients.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: r.Identity}}
	return &skewed{lock, r.Skew}, nil
}

// lead works until the context is canceled.
func (r *rival) lead(ctx context.Context) {
	client := r.client()
	r.work(ctx, math.MaxInt64, func(ctx context.Context, call, n int) error { return r.send(ctx, client, call, n) })
}

// runElector runs an elector of client-go, which ends its work before it releases the Lease.
func (r *rival) runElector(ctx context.Context) error {
	klog.SetLogger(funcr.New(logTo, funcr.Options{}))
	lock, err := r.lock()
	if err != nil {
		return err
	}
	electing, stop := context.WithCancel(context.Background())
	defer stop()
	worked := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: r.LeaseDuration, RenewDeadline: r.RenewDeadline, RetryPeriod: r.RetryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				defer close(worked)
				leading, end := context.WithCancel(leading)
				defer end()
				defer context.AfterFunc(ctx, end)()
				r.lead(leading)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		if elector.IsLeader() {
			select {
			case <-worked:
			case <-time.After(5 * time.Second):
			}
		}
		stop()
	}()
	elector.Run(electing)
	if ctx.Err() == nil {
		return errors.New("the leadership is lost")
	}
	return nil
}

// runManager runs a manager of controller-runtime.
func (r *rival) runManager(ctx context.Context) error {
	ctrl.SetLogger(funcr.New(logTo, funcr.Options{}))
	lock, err := r.lock()
	if err != nil {
		return err
	}
	m, err := ctrl.NewManager(r.restConfig(), ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}, LeaderElection: true,
		LeaderElectionResourceLockInterface: lock, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &r.LeaseDuration, RenewDeadline: &r.RenewDeadline, RetryPeriod: &r.RetryPeriod})
	if err != nil {
		return err
	}
	if err := m.Add(manager.RunnableFunc(func(ctx context.Context) error { r.lead(ctx); return nil })); err != nil {
		return err
	}
	return m.Start(ctx)
}

// logTo writes a line to the log.
func logTo(prefix, args string) { log.Println(prefix, args) }
