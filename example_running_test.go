package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/kopf-go/kopf"
)

// The examples in this file show how operators are configured and run. Each is shown together with the functions of this file that it calls, so it must not call those of other files.

// start starts an operator, and returns when it is ready. The function that it returns stops the operator, and waits for it.
func start(op *kopf.Operator) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	op.Ready = func() { close(ready) }
	op.Logger = slog.New(slog.DiscardHandler)
	go func() { ended <- op.Run(ctx) }()
	<-ready
	return func() {
		cancel()
		must(<-ended)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleMain() {
	kopf.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		c.Logger.Info("Created an object", "size", c.Spec().Int("size"))
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	kopf.Main() // the command line: "run", "freeze", "resume", "version" and "help"
}

func ExampleRun() {
	kopf.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		c.Logger.Info("Created an object", "size", c.Spec().Int("size"))
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := kopf.Run(ctx); err != nil { // it returns nil after a signal
		log.Fatal(err)
	}
}

func ExampleOperator_Run() {
	server := kopf.NewAPIServer(nil)
	op := &kopf.Operator{Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	op.Ready = cancel // here, it stops without a signal
	fmt.Println(op.Run(ctx))
	// Output:
	// <nil>
}

func ExampleOperator_several() {
	server := kopf.NewAPIServer(nil)
	names := make(chan string)
	registry := new(kopf.Registry)
	registry.OnCreate("configmaps", func(ctx context.Context, c *kopf.Change) error {
		names <- c.Namespace()
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	for _, namespace := range []string{"one", "two"} {
		must(server.Apply([]byte(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "` + namespace + `"}}`)))
		must(server.Apply([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "` + namespace + `"}}`)))
		defer start(&kopf.Operator{Registry: registry, Namespaces: []string{namespace}, Connection: server.ConnectionInfo()})()
		fmt.Println(<-names)
	}
	// Output:
	// one
	// two
}

func ExampleOnCleanup() {
	type program struct{ journal *slog.Logger }
	registry := new(kopf.Registry)
	registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
		kopf.MemoOf[program](a).journal = slog.New(slog.DiscardHandler) // the memo of each object begins as a copy of this one
		return nil
	}, nil)
	registry.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
		fmt.Println("closing the journal:", kopf.MemoOf[program](a).journal != nil)
		return nil
	}, nil)
	stop := start(&kopf.Operator{Registry: registry, Connection: kopf.NewAPIServer(nil).ConnectionInfo()})
	stop() // kopf calls the clean-up handlers after all others have ended
	// Output:
	// closing the journal: true
}

func ExampleOnLogin() {
	server := kopf.NewAPIServer(nil)
	registry := new(kopf.Registry)
	registry.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
		fmt.Println("attempt", l.Retry)
		if l.Retry == 0 {
			return nil, kopf.Temporary(errors.New("the vault is sealed"), time.Millisecond)
		}
		return server.ConnectionInfo(), nil
	}, &kopf.ActivityOptions{ID: "vault"})
	stop := start(&kopf.Operator{Registry: registry})
	stop()
	// Output:
	// attempt 0
	// attempt 1
}

func ExampleOnProbe() {
	registry := new(kopf.Registry)
	registry.OnProbe(func(ctx context.Context, p *kopf.Probe) (any, error) { return 5, nil }, &kopf.ProbeOptions{ID: "queue"})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	defer start(&kopf.Operator{
		Registry: registry, Connection: kopf.NewAPIServer(nil).ConnectionInfo(),
		LivenessEndpoint: "http://127.0.0.1/healthz", LivenessListener: listener,
	})()
	response, err := http.Get("http://" + listener.Addr().String() + "/healthz")
	must(err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	must(err)
	fmt.Println(response.StatusCode, string(answer))
	// Output:
	// 200 {"queue":5}
}

func ExampleOnMutate() {
	registry := new(kopf.Registry)
	registry.OnMutate("configmaps", func(ctx context.Context, a *kopf.Admission) error {
		if !a.Body.Has("data.color") {
			a.Patch.Set("data.color", "green")
		}
		return nil
	}, &kopf.AdmissionOptions{ID: "complete", Operations: []kopf.Operation{kopf.OperationCreate}})

	server := kopf.NewAPIServer(nil)
	settings := kopf.NewSettings()
	settings.Admission = kopf.AdmissionSettings{Server: server.AdmissionServer(), Managed: "example.com"}
	defer start(&kopf.Operator{Registry: registry, Settings: settings, Connection: server.ConnectionInfo()})()
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	must(err)
	webhooks := kopf.ObjectReference{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration", Name: "example.com"}
	_, err = kopf.WaitFor(context.Background(), client, webhooks, "to be there", func(b *kopf.Body) bool { return b != nil && b.Has("webhooks") })
	must(err)

	object := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"},
		"data": map[string]any{"size": "large"},
	}
	must(client.Create(context.Background(), object, nil)) // the object is then as the server has stored it
	fmt.Println(object["data"])
	// Output:
	// map[color:green size:large]
}

func ExampleWebhookServer() {
	kopf.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
		a.Settings.Admission.Managed = "myoperator.example.com"
		a.Settings.Admission.Server = &kopf.WebhookServer{ // in the cluster, behind the service myoperator
			Port: 9443,
			Host: "myoperator.mynamespace.svc",
		}
		return nil
	}, &kopf.ActivityOptions{ID: "configure"})
	kopf.OnValidate("kopfexamples", func(ctx context.Context, a *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "check"})
	kopf.Main()
}

func ExampleTimerOptions() {
	probe := func(ctx context.Context, t *kopf.Timer) error { return nil }
	kopf.OnTimer("kopfexamples", probe, &kopf.TimerOptions{
		ID:       "sharp", // a minute from start to start, however long a call takes
		Interval: time.Minute,
		Sharp:    true,
		Jitter:   10 * time.Second, // not all objects together after a restart
	})
	kopf.OnTimer("kopfexamples", probe, &kopf.TimerOptions{
		ID:   "idle", // once after each change, when the object has not changed for a minute
		Idle: time.Minute,
	})
	kopf.Main()
}

func ExampleSelector() {
	see := func(ctx context.Context, e *kopf.WatchEvent) error { return nil }
	kopf.OnEvent("deployments", see, &kopf.EventOptions{ID: "plural"})                                           // in the preferred version
	kopf.OnEvent("deployments.v1.apps", see, &kopf.EventOptions{ID: "version"})                                  // in one version
	kopf.OnEvent("apps/v1/*", see, &kopf.EventOptions{ID: "group"})                                              // all kinds of a group and version
	kopf.OnEvent(kopf.Kind("Deployment"), see, &kopf.EventOptions{ID: "kind"})                                   // by the kind, in whatever group
	kopf.OnEvent(kopf.Category("all"), see, &kopf.EventOptions{ID: "category"})                                  // as kubectl get all
	kopf.OnEvent(kopf.Everything, see, &kopf.EventOptions{ID: "example.com", Where: func(r kopf.Resource) bool { // by any rule
		return r.Group == "example.com"
	}})
	kopf.Main()
}

func ExampleObject_PostInfo() {
	server := kopf.NewAPIServer(nil)
	must(server.Apply([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}`)))
	registry := new(kopf.Registry)
	registry.OnCreate("configmaps", func(ctx context.Context, c *kopf.Change) error {
		c.PostInfo("Read", "the color is green")
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	defer start(&kopf.Operator{Registry: registry, Connection: server.ConnectionInfo()})()
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	must(err)
	for event, err := range client.Watch(context.Background(), kopf.ObjectReference{APIVersion: "v1", Kind: "Event"}, nil) { // as kubectl describe shows it
		must(err)
		fmt.Println(event.Body.Get("type"), event.Body.Get("reason"), event.Body.Get("message"))
		break
	}
	// Output:
	// Normal Read the color is green
}

func ExamplePeeringSettings() {
	server := kopf.NewAPIServer(nil)
	must(server.Apply([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterkopfpeerings.kopf.dev}
spec:
  scope: Cluster
  group: kopf.dev
  names: {kind: ClusterKopfPeering, plural: clusterkopfpeerings}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: kopf.dev/v1
kind: ClusterKopfPeering
metadata: {name: default}
`)))
	calls := make(chan string)
	operator := func(name string, priority int) *kopf.Operator {
		registry := new(kopf.Registry)
		registry.OnCreate("configmaps", func(ctx context.Context, c *kopf.Change) error {
			calls <- name
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		settings := kopf.NewSettings()
		settings.Peering.Priority = priority
		return &kopf.Operator{Registry: registry, Settings: settings, Identity: name, Connection: server.ConnectionInfo()}
	}
	defer start(operator("the developer's", 666))()
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	must(err)
	peering := kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "ClusterKopfPeering", Name: "default"}
	_, err = kopf.WaitFor(context.Background(), client, peering, "to be joined", func(b *kopf.Body) bool { return b.Status().Len() > 0 })
	must(err)
	defer start(operator("the deployed", 0))() // it pauses, because its priority is lower
	must(server.Apply([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}`)))
	fmt.Println(<-calls, "operator handles the object")
	// Output:
	// the developer's operator handles the object
}

func ExampleMultiProgressStorage() {
	settings := kopf.NewSettings() // kopf reads the state from both places, and writes it to both, until all objects have moved
	settings.Persistence.ProgressStorage = kopf.MultiProgressStorage{
		&kopf.AnnotationsProgressStorage{Prefix: "example.com"},
		&kopf.SmartProgressStorage{},
	}
	settings.Persistence.DiffBaseStorage = kopf.MultiDiffBaseStorage{
		&kopf.AnnotationsDiffBaseStorage{Prefix: "example.com"},
		&kopf.AnnotationsDiffBaseStorage{},
	}
	registry := new(kopf.Registry)
	registry.OnCreate("configmaps", func(ctx context.Context, c *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "create"})

	server := kopf.NewAPIServer(nil)
	must(server.Apply([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}`)))
	defer start(&kopf.Operator{Registry: registry, Settings: settings, Connection: server.ConnectionInfo()})()
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	must(err)
	ref := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}
	handled, err := kopf.WaitFor(context.Background(), client, ref, "to be handled", func(b *kopf.Body) bool { return len(b.Annotations()) > 0 })
	must(err)
	for _, key := range slices.Sorted(maps.Keys(handled.Annotations())) {
		fmt.Println(key)
	}
	// Output:
	// example.com/kopf-managed
	// example.com/last-handled-configuration
	// kopf.zalando.org/last-handled-configuration
}

func ExampleProcessSettings() {
	settings := kopf.NewSettings()
	settings.Process.Audit = func(ctx context.Context, r slog.Record) error { // or the method Handle of a slog.JSONHandler
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "handler" || a.Key == "cause" || a.Key == "outcome" {
				fmt.Println(a)
			}
			return true
		})
		return nil
	}
	registry := new(kopf.Registry)
	registry.OnCreate("configmaps", func(ctx context.Context, c *kopf.Change) error {
		c.Patch.Set("metadata.labels.seen", "true")
		return nil
	}, &kopf.ChangeOptions{ID: "create"})

	server := kopf.NewAPIServer(nil)
	must(server.Apply([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}`)))
	defer start(&kopf.Operator{Registry: registry, Settings: settings, Connection: server.ConnectionInfo()})()
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	must(err)
	ref := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}
	_, err = kopf.WaitFor(context.Background(), client, ref, "to be labelled", func(b *kopf.Body) bool { return b.Labels()["seen"] == "true" })
	must(err)
	// Output:
	// handler=create
	// cause=create
	// outcome=success
}

func ExampleNewCounter() {
	emails := kopf.NewCounter("emails_sent_total", "The number of e-mails sent.", "provider")
	kopf.OnCreate("accounts", func(ctx context.Context, c *kopf.Change) error {
		c.Logger.Info("Sending an e-mail", "to", c.Spec().String("address"))
		emails.Add(1, "example.com") // shown at /metrics: see Operator.LivenessEndpoint
		return nil
	}, &kopf.ChangeOptions{ID: "welcome"})
	kopf.Main()
}

func ExampleNewHistogram() {
	durations := kopf.NewHistogram("backup_duration_seconds", "The duration of backups.", []float64{1, 10, 60, 600})
	kopf.OnTimer("volumes", func(ctx context.Context, t *kopf.Timer) error {
		began := time.Now()
		t.Logger.Info("Backing up", "volume", t.Name())
		durations.Observe(time.Since(began).Seconds())
		return nil
	}, &kopf.TimerOptions{ID: "backup", Interval: time.Hour})
	kopf.Main()
}
