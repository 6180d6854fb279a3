package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// The examples in this file show what runs alongside the objects, and the operator itself.

func ExampleOnDaemon() {
	registry := new(kopf.Registry)
	began := make(chan struct{})
	registry.OnDaemon("kopfexamples", func(ctx context.Context, d *kopf.Daemon) error {
		fmt.Println("begun")
		close(began)
		<-ctx.Done()
		stopped := (*kopf.DaemonStopped)(nil)
		if errors.As(context.Cause(ctx), &stopped) && stopped.Reason == kopf.StopResourceDeleted {
			fmt.Println("the object is deleted")
		}
		return nil
	}, &kopf.DaemonOptions{ID: "watch"})
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		<-began
		return nil
	}, &kopf.ChangeOptions{ID: "wait"})
	live(registry)
	// Output:
	// begun
	// the object is deleted
}

func ExampleDaemon_Sleep() {
	registry := new(kopf.Registry)
	looked := make(chan struct{}, 1)
	registry.OnDaemon("kopfexamples", func(ctx context.Context, d *kopf.Daemon) error {
		for d.Sleep(time.Millisecond) {
			select {
			case looked <- struct{}{}: // the work
			default:
			}
		}
		fmt.Println("asked to stop:", d.StopReason())
		return nil
	}, &kopf.DaemonOptions{ID: "watch"})
	registry.OnUpdate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		<-looked
		return nil
	}, &kopf.ChangeOptions{ID: "wait"})
	live(registry)
	// Output:
	// asked to stop: ResourceDeleted
}

func ExampleTimerOptions() {
	probe := func(ctx context.Context, t *kopf.Timer) error { return nil }
	kopf.OnTimer("kopfexamples", probe, &kopf.TimerOptions{
		ID:       "on-the-grid", // a minute from beginning to beginning, however long a call takes
		Interval: time.Minute,
		Sharp:    true,
		Jitter:   10 * time.Second, // not all objects at once after a restart
	})
	kopf.OnTimer("kopfexamples", probe, &kopf.TimerOptions{
		ID:   "when-idle", // once after each change, when the object has stayed the same for a minute
		Idle: time.Minute,
	})
	kopf.Main()
}

func ExampleOnTimer() {
	registry := new(kopf.Registry)
	ticks := make(chan int)
	registry.OnTimer("kopfexamples", func(ctx context.Context, t *kopf.Timer) error {
		select {
		case ticks <- 1:
		case <-ctx.Done():
		}
		return nil
	}, &kopf.TimerOptions{ID: "tick", Interval: time.Millisecond})
	registry.OnUpdate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		fmt.Println(<-ticks + <-ticks + <-ticks)
		return nil
	}, &kopf.ChangeOptions{ID: "wait"})
	live(registry)
	// Output:
	// 3
}

func ExampleOnIndex() {
	podsByNode := kopf.OnIndex("pods", func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
		return map[string]string{i.Spec().String("nodeName"): i.Name()}, nil
	}, nil)
	kopf.OnTimer("nodes", func(ctx context.Context, t *kopf.Timer) error {
		t.Logger.Info("Counted pods", "pods", len(podsByNode.Get(t, t.Name())))
		return nil
	}, &kopf.TimerOptions{ID: "count", Interval: time.Minute})
	kopf.Main()
}

func ExampleOnIndexIn() {
	registry := new(kopf.Registry) // kopf.OnIndex registers in the default one
	bySize := kopf.OnIndexIn(registry, "kopfexamples", func(ctx context.Context, i *kopf.Indexing) (map[int64]string, error) {
		return map[int64]string{i.Spec().Int("size"): i.Name()}, nil
	}, &kopf.IndexOptions{ID: "by-size"})
	registry.OnUpdate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		fmt.Println(bySize.Get(c, 1), bySize.Get(c, 2))
		return nil
	}, &kopf.ChangeOptions{ID: "look"})
	live(registry)
	// Output:
	// [] [example]
}

func ExampleOnStartup() {
	registry := new(kopf.Registry)
	registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
		a.Settings.Queueing.ExitTimeout = 20 * time.Second
		a.Settings.Persistence.Finalizer = "example.com/finalizer"
		fmt.Println("ready to go")
		return nil
	}, &kopf.ActivityOptions{ID: "configure"})
	registry.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
		fmt.Println("good night")
		return nil
	}, &kopf.ActivityOptions{ID: "farewell"})
	registry.OnDelete("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		fmt.Println(c.Body.Finalizers())
		return nil
	}, &kopf.ChangeOptions{ID: "delete"})
	live(registry)
	// Output:
	// ready to go
	// [example.com/finalizer]
	// good night
}

func ExampleOnCleanup() {
	type program struct{ journal *slog.Logger }
	registry := new(kopf.Registry)
	registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
		kopf.MemoOf[program](a).journal = slog.New(slog.DiscardHandler) // each object's memo begins as a copy of this one
		return nil
	}, nil)
	registry.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
		fmt.Println("closing the journal:", kopf.MemoOf[program](a).journal != nil)
		return nil
	}, nil)
	stop := runOperator(&kopf.Operator{Registry: registry, Connection: exampleServer().ConnectionInfo()})
	stop() // after all handlers have ended
	// Output:
	// closing the journal: true
}

func ExampleMain() {
	kopf.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		c.Logger.Info("Created an object", "size", c.Spec().Int("size"))
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	kopf.Main() // the command line: "run", "freeze", "resume", "version" and "help"
}

func ExampleOnLogin() {
	server := exampleServer()
	registry := new(kopf.Registry)
	registry.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
		fmt.Println("attempt", l.Retry)
		if l.Retry == 0 {
			return nil, kopf.Temporary(errors.New("the vault is sealed"), time.Millisecond)
		}
		return server.ConnectionInfo(), nil
	}, &kopf.ActivityOptions{ID: "vault"})
	stop := runOperator(&kopf.Operator{Registry: registry})
	stop()
	// Output:
	// attempt 0
	// attempt 1
}

func ExampleOnProbe() {
	registry := new(kopf.Registry)
	registry.OnProbe(func(ctx context.Context, p *kopf.Probe) (any, error) { return 5, nil }, &kopf.ProbeOptions{ID: "queue"})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	stop := runOperator(&kopf.Operator{
		Registry: registry, Connection: exampleServer().ConnectionInfo(),
		LivenessEndpoint: "http://127.0.0.1/healthz", LivenessListener: listener,
	})
	defer stop()
	response, err := http.Get("http://" + listener.Addr().String() + "/healthz")
	check(err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	check(err)
	fmt.Println(response.StatusCode, string(answer))
	// Output:
	// 200 {"queue":5}
}

// runAdmission runs an operator whose admission handlers the server asks, and waits until it has configured that.
func runAdmission(server *kopf.APIServer, registry *kopf.Registry, kind string) (stop func()) {
	settings := kopf.NewSettings()
	settings.Admission = kopf.AdmissionSettings{Server: server.AdmissionServer(), Managed: "examples.kopf.dev"}
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	check(err)
	stop = runOperator(&kopf.Operator{Registry: registry, Settings: settings, Connection: server.ConnectionInfo()})
	ref := kopf.ObjectReference{APIVersion: "admissionregistration.k8s.io/v1", Kind: kind, Name: "examples.kopf.dev"}
	_, err = kopf.WaitFor(context.Background(), client, ref, "to be made", func(b *kopf.Body) bool { return b != nil && b.Has("webhooks") })
	check(err)
	return stop
}

func ExampleOnValidate() {
	registry := new(kopf.Registry)
	registry.OnValidate("kopfexamples", func(ctx context.Context, a *kopf.Admission) error {
		if a.Spec().Int("size") > 100 {
			return kopf.Deny("the size is above 100", 422)
		}
		return nil
	}, &kopf.AdmissionOptions{ID: "check"})
	server := exampleServer()
	defer runAdmission(server, registry, "ValidatingWebhookConfiguration")()
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	check(err)
	for _, size := range []int{1000, 10} {
		object := map[string]any{
			"apiVersion": "kopf.dev/v1", "kind": "KopfExample",
			"metadata": map[string]any{"name": "example", "namespace": "default"}, "spec": map[string]any{"size": size},
		}
		fmt.Println(size, kopf.StatusCode(client.Create(context.Background(), object, nil)))
	}
	// Output:
	// 1000 422
	// 10 0
}

func ExampleOnMutate() {
	registry := new(kopf.Registry)
	registry.OnMutate("kopfexamples", func(ctx context.Context, a *kopf.Admission) error {
		if !a.Spec().Has("duration") {
			a.Patch.Set("spec.duration", "1m")
		}
		return nil
	}, &kopf.AdmissionOptions{ID: "complete", Operations: []kopf.Operation{kopf.OperationCreate}})
	server := exampleServer()
	defer runAdmission(server, registry, "MutatingWebhookConfiguration")()
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	check(err)
	object := map[string]any{
		"apiVersion": "kopf.dev/v1", "kind": "KopfExample",
		"metadata": map[string]any{"name": "example", "namespace": "default"}, "spec": map[string]any{"size": 10},
	}
	check(client.Create(context.Background(), object, nil)) // what the server has made of it is stored back
	fmt.Println(object["spec"])
	// Output:
	// map[duration:1m size:10]
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

func ExampleOperator_several() {
	server := exampleServer()
	registry := new(kopf.Registry)
	names := make(chan string)
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		names <- c.Namespace()
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	for _, namespace := range []string{"one", "two"} {
		check(server.Apply([]byte(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "` + namespace + `"}}`)))
		check(server.Apply([]byte(`{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "example", "namespace": "` + namespace + `"}}`)))
		stop := runOperator(&kopf.Operator{Registry: registry, Namespaces: []string{namespace}, Connection: server.ConnectionInfo()})
		defer stop()
		fmt.Println(<-names)
	}
	// Output:
	// one
	// two
}

func ExampleClient() {
	client, err := kopf.NewClient(exampleServer().ConnectionInfo(), nil)
	check(err)
	ctx := context.Background()
	for range 2 { // the second time, it is there already
		object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"}}
		fmt.Println(kopf.StatusCode(client.Create(ctx, object, nil)))
	}

	ref := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}
	_, err = client.Patch(ctx, ref, map[string]any{"data": map[string]any{"key": "value"}}, nil)
	check(err)
	for found, err := range client.List(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap"}, &kopf.ListOptions{Namespace: "default", FieldSelector: "metadata.name=a"}) {
		check(err)
		fmt.Println(found.Name(), found.Get("data"))
	}
	check(client.Delete(ctx, ref, nil))
	var typed struct{ Data map[string]string }
	fmt.Println(kopf.StatusCode(client.Get(ctx, ref, &typed, nil)))
	// Output:
	// 0
	// 409
	// a map[key:value]
	// 404
}

func ExampleClient_Apply() {
	client, err := kopf.NewClient(exampleServer().ConnectionInfo(), nil)
	check(err)
	for _, data := range []map[string]any{{"a": "1", "b": "2"}, {"a": "3"}} {
		object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"}, "data": data}
		check(client.Apply(context.Background(), object, &kopf.WriteOptions{FieldManager: "example"})) // handlers have a manager of their own
		fmt.Println(object["data"])
	}
	// Output:
	// map[a:1 b:2]
	// map[a:3]
}

func ExampleClient_Watch() {
	server := exampleServer()
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	check(err)
	ctx := context.Background()
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"}}
	check(client.Create(ctx, object, nil))
	for event, err := range client.Watch(ctx, object, nil) { // of all config maps in the namespace
		check(err)
		fmt.Println(event.Type, event.Body.Reference())
		if event.Type == kopf.Deleted {
			break
		}
		check(client.Delete(ctx, object, nil))
	}
	// Output:
	// ADDED default/a
	// DELETED default/a
}

func ExampleIgnoreNotFound() {
	client, err := kopf.NewClient(exampleServer().ConnectionInfo(), nil)
	check(err)
	ref := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "gone"}
	err = client.Delete(context.Background(), ref, nil)
	fmt.Println(kopf.StatusCode(err), kopf.IgnoreNotFound(err))
	// Output:
	// 404 <nil>
}

func ExampleAPIServer_Listen() {
	server := exampleServer()
	served, err := server.Listen("127.0.0.1:0") // for kubectl and others; the operator of this process needs no network
	check(err)
	defer served.Close()
	response, err := http.Get(served.URL + "/apis/kopf.dev/v1/namespaces/default/kopfexamples")
	check(err)
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output:
	// 200 OK
}

func ExampleAPIServer_Fail() {
	server := exampleServer()
	remove := server.Fail(kopf.APIServerFault{Verb: "get", Resource: "namespaces", Status: http.StatusForbidden})
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	check(err)
	ref := kopf.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "default"}
	var body kopf.Body
	fmt.Println(kopf.StatusCode(client.Get(context.Background(), ref, &body, nil)))
	remove()
	fmt.Println(client.Get(context.Background(), ref, &body, nil), body.Name())
	// Output:
	// 403
	// <nil> default
}

func ExampleNewRunner() {
	_ = func(t *testing.T) { // a test
		server := kopf.NewAPIServer(nil)
		registry := new(kopf.Registry)
		runner := kopf.NewRunner(t, &kopf.Operator{Registry: registry, Connection: server.ConnectionInfo()}, nil)
		// … it runs …
		if err := runner.Stop(); err != nil { // else it is stopped at the end of the test
			t.Fatal(err)
		}
	}
}

func ExampleObject_PostInfo() {
	server := exampleServer()
	check(server.Apply([]byte(`{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "example", "namespace": "default"}}`)))
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		c.PostInfo("Made", "the volume is there")
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	check(err)
	stop := runOperator(&kopf.Operator{Registry: registry, Connection: server.ConnectionInfo()})
	defer stop()
	for event, err := range client.Watch(context.Background(), kopf.ObjectReference{APIVersion: "v1", Kind: "Event"}, nil) { // as kubectl describe shows it
		check(err)
		fmt.Println(event.Body.Get("type"), event.Body.Get("reason"), event.Body.Get("message"))
		break
	}
	// Output:
	// Normal Made the volume is there
}

func ExampleWaitFor() {
	server := exampleServer()
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	check(err)
	ref := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}
	go func() { // another client
		check(server.Apply([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"key": "value"}}`)))
	}()
	found, err := kopf.WaitFor(context.Background(), client, ref, "to be made", func(b *kopf.Body) bool { return b != nil })
	check(err)
	fmt.Println(found.Get("data"))
	// Output:
	// map[key:value]
}

func ExamplePeeringSettings() {
	server := exampleServer()
	check(server.Apply([]byte(`
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
	who := make(chan string)
	operator := func(name string, priority int) *kopf.Operator {
		registry := new(kopf.Registry)
		registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
			who <- name
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		settings := kopf.NewSettings()
		settings.Peering.Priority = priority
		return &kopf.Operator{Registry: registry, Settings: settings, Identity: name, Connection: server.ConnectionInfo()}
	}
	stop := runOperator(operator("the developer's", 666))
	defer stop()
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	check(err)
	peering := kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "ClusterKopfPeering", Name: "default"}
	_, err = kopf.WaitFor(context.Background(), client, peering, "to be joined", func(b *kopf.Body) bool { return b.Status().Len() > 0 })
	check(err)
	defer runOperator(operator("the deployed", 0))()
	check(server.Apply([]byte(`{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "example", "namespace": "default"}}`)))
	fmt.Println(<-who, "operator works")
	// Output:
	// the developer's operator works
}

func ExampleMultiProgressStorage() {
	settings := kopf.NewSettings() // records are read from both places, and written to both, until all objects have moved
	settings.Persistence.ProgressStorage = kopf.MultiProgressStorage{
		&kopf.AnnotationsProgressStorage{Prefix: "example.com"},
		&kopf.SmartProgressStorage{},
	}
	settings.Persistence.DiffBaseStorage = kopf.MultiDiffBaseStorage{
		&kopf.AnnotationsDiffBaseStorage{Prefix: "example.com"},
		&kopf.AnnotationsDiffBaseStorage{},
	}
	server := exampleServer()
	check(server.Apply([]byte(`{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "example", "namespace": "default"}}`)))
	registry := new(kopf.Registry)
	registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "create"})
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	check(err)
	stop := runOperator(&kopf.Operator{Registry: registry, Settings: settings, Connection: server.ConnectionInfo()})
	defer stop()
	handled, err := kopf.WaitFor(context.Background(), client, reference, "to be handled", func(b *kopf.Body) bool { return len(b.Annotations()) > 0 })
	check(err)
	for _, key := range slices.Sorted(maps.Keys(handled.Annotations())) {
		fmt.Println(key)
	}
	// Output:
	// example.com/kopf-managed
	// example.com/last-handled-configuration
	// kopf.zalando.org/last-handled-configuration
}

func ExampleAPIServer_Apply() {
	server := exampleServer()
	// What kubectl get -o yaml has written on another cluster: uids and versions in it are passed over.
	check(server.Apply([]byte(`
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Namespace
    metadata: {name: default, uid: 1-2-3, resourceVersion: "12"}
  - apiVersion: kopf.dev/v1
    kind: KopfExample
    metadata: {name: example, namespace: default, uid: 4-5-6, resourceVersion: "3456", labels: {env: prod}}
`)))
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	check(err)
	var object kopf.Body
	check(client.Get(context.Background(), reference, &object, nil))
	fmt.Println(object.Labels(), object.UID() == "4-5-6")
	// Output:
	// map[env:prod] false
}
