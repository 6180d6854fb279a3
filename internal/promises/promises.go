// Package promises specifies the behavior of each example in the repository: which handlers are called, how often, and their effects. Two suites check it: the
// tests of the examples use the in-memory API server, those in e2e a real one.
package promises

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf"
)

// Promise specifies the behavior of one example.
type Promise struct {
	// Play runs the example, changes its object, and names all outcomes. Other outcomes of handlers fail the test, and so do warnings and errors that Play does
	// not name.
	Play func(s *Stage)
	// Namespace is the namespace of the example. Default: one for each example.
	Namespace string
	// Alone excludes other examples on the same API server.
	Alone bool
}

// All has the promises by the names of the examples.
var All = map[string]Promise{
	"01-minimal": {Play: func(s *Stage) {
		s.Start()
		s.Create()
		s.Succeeds("create_fn")
		s.Tells("Here is a new object.  duration=1m")
		s.Has("status", map[string]any{"create_fn": map[string]any{"message": "hello world"}})
		s.Handled()
		s.Free()
		s.Change(map[string]any{"spec": map[string]any{"field": "changed"}}) // without a handler
		s.Delete()
		s.Stop()
		s.DoesNotPanic()
	}},
	"02-children": {Play: func(s *Stage) {
		s.Start()
		s.Create()
		s.Succeeds("create_fn")
		child := s.Becomes(kopf.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.Namespace, Name: "kopf-example-1"}, "to exist", exists)
		if command := fmt.Sprint(child.Get("spec.containers").([]any)[0].(map[string]any)["command"]); command != "[sleep 1m]" {
			s.Errorf("the command of the pod is %s", command)
		}
		if label, _ := child.Label("somelabel"); label != "somevalue" {
			s.Errorf("the label of the pod is %q", label)
		}
		parent := s.Becomes(s.object(), "to tell of its children", func(o *kopf.Body) bool { return o.Status().Has("create_fn") })
		if owners := fmt.Sprint(child.Get("metadata.ownerReferences")); strings.Count(owners, "uid:") != 1 || !strings.Contains(owners, "uid:"+parent.UID()) || !strings.Contains(owners, "controller:true") {
			s.Errorf("the owners of the pod are %s", owners)
		}
		s.Has("status.create_fn.children", []string{child.UID()})
		s.Handled()
		s.Free()
		s.Delete()
		s.Stop()
		s.DoesNotPanic()
	}},
	"03-exceptions": {Play: func(s *Stage) {
		s.Start()
		s.Create()
		s.Retries("waiting", "stubborn", "stubborn", "panicking")
		s.Fails("hopeless", "strict", "panicking", "stubborn")
		s.Tells(
			"Handler 'hopeless' failed permanently: the object makes no sense",
			"Handler 'strict' failed with an exception and will stop now.",
			`handler "stubborn" has used up its 3 attempts`,
			`error="panic: nobody has thought of this"`,
			"main.panicking(", // in the stack trace
		)
		s.Succeeds("waiting")
		s.Tells("Creation is processed: 1 succeeded; 4 failed.")
		s.Handled()
		s.Delete()
		s.Stop()
	}},
	"04-events": {Play: func(s *Stage) {
		s.Start()
		s.Create()
		s.Retries("create")
		s.Succeeds("create")
		s.Posted("Error", "Waiting", "the volume is not there yet")
		s.Posted("Normal", "Created", "the volume is there")
		s.Posted("Whatever", "Custom", "any word can be the type of an event")
		s.Handled()
		s.Delete()
		s.Stop()
		s.DoesNotPanic()
	}},
	"05-handlers": {Play: func(s *Stage) {
		s.Start()
		s.Create()
		s.Succeeds("create_1", "create_2", "changed/spec.field")
		s.Tells("This is called first.  reason=create", "This is called next.  reason=create", `The field has changed.  old="" new=value`)
		s.Held()
		s.Handled()
		s.Change(map[string]any{"spec": map[string]any{"field": "changed"}})
		s.Succeeds("updated", "changed/spec.field")
		s.Tells("The field has changed.  old=value new=changed")
		s.Has("status.changes", 1)
		s.Handled()
		s.Stop()
		s.Start()
		s.Succeeds("resume_1", "resume_2")
		s.Handled()
		s.Has("status", map[string]any{
			"create_1": map[string]any{"reason": "create", "by": "first"},
			"resume_1": map[string]any{"reason": "resume", "by": "first"},
			"changes":  1,
		})
		s.Delete()
		s.Succeeds("delete_1", "delete_2")
		s.Stop()
		s.DoesNotPanic()
	}},
	"06-peering": {Play: func(s *Stage) {
		s.Apply("peering-objects.yaml")
		peering := kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfPeering", Namespace: s.Namespace, Name: "default"}
		records := func(n int) {
			s.Helper()
			s.Becomes(peering, fmt.Sprintf("to have %d records", n), func(object *kopf.Body) bool { return object != nil && object.Status().Len() == n })
		}
		s.Start("--priority=1")
		records(1)
		s.Create()
		s.Succeeds("create")
		s.Tells("Of all operators, this one handles the object.", "The guard begins.")
		s.Held()
		s.Handled()
		s.Start("--priority=2")
		records(2)
		s.Tells("Pausing operations in favour of", "The guard ends.  reason=OperatorPausing")
		s.TellsTimes(2, "The guard begins.")
		s.Stop() // the second one; the first one continues
		s.Tells("Resuming operations after the pause")
		s.TellsTimes(3, "The guard begins.")
		s.Delete()
		s.Succeeds("guard", "guard", "guard")
		s.running = append(s.running[1:], s.running[0])
		s.Stop()
		records(0)
		s.DoesNotPanic()
	}},
	"07-subhandlers": {Play: func(s *Stage) {
		s.Start()
		s.Create()
		s.Retries("create/item2")
		s.Succeeds("create/item1", "create/item2", "create")
		s.Tells("item=item1 attempt=1", "item=item2 attempt=2")
		s.Handled()
		s.Delete()
		s.Stop()
		s.DoesNotPanic()
	}},
	"08-events": {Play: func(s *Stage) {
		s.Start()
		s.Create()
		s.Tells("An event has come.  type=")
		s.Ignores("failing")
		s.Has("metadata.annotations", map[string]any{"someannotation": "somevalue"}) // stored nothing
		s.Free()
		s.Change(map[string]any{"spec": map[string]any{"field": "changed"}})
		s.Ignores("failing")
		s.Tells("type=MODIFIED")
		s.Delete()
		s.Ignores("failing")
		s.Tells("type=DELETED")
		s.Stop()
		s.DoesNotPanic()
	}},
	"09-testing": {Play: func(s *Stage) { // it has its own tests, too
		s.Start()
		s.Create()
		s.Retries("order")
		s.Tells("The item is on its way.  item=value", "not delivered yet  delay=10m0s")
		s.Held()
		s.Delete()
		s.Succeeds("cancel")
		s.Stop()
		s.DoesNotPanic()
	}},
	"10-builtins": {Play: func(s *Stage) {
		s.Start()
		s.Tells("[" + s.Namespace + "] Here is a namespace.  name=" + s.Namespace)
		s.Tells("[" + s.Namespace + "] Handler 'welcome' succeeded")
		pod := func(name string, labels map[string]any) kopf.ObjectReference {
			object := map[string]any{
				"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": s.Namespace, "labels": labels},
				"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "busybox"}}},
			}
			if err := s.client.Create(s.Context(), object, nil); err != nil {
				s.Fatal(err)
			}
			return kopf.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.Namespace, Name: name}
		}
		lasting := pod("lasting", map[string]any{})
		patient := pod("patient", map[string]any{"lifetime": "1h"})
		sleeper := pod("sleeper", map[string]any{"lifetime": "1s"})
		pod("wrong", map[string]any{"lifetime": "soon"})
		s.Tells("A pod is seen.")
		s.Fails("limit")
		s.Tells(`the label of the pod: time: invalid duration "soon"`, "/sleeper] The time of the pod is over.")
		s.Succeeds("limit")
		s.Becomes(sleeper, "to be gone", func(object *kopf.Body) bool { return object == nil })
		s.HasOf(lasting, "metadata.annotations", nil) // stored nothing
		s.HasOf(patient, "metadata.finalizers", nil)
		none := time.Duration(0)
		if err := s.client.Delete(s.Context(), patient, &kopf.DeleteOptions{GracePeriod: &none}); err != nil {
			s.Fatal(err)
		}
		s.Succeeds("limit")
		s.Tells("/patient] The pod goes by itself.  reason=")
		s.Stop()
		s.DoesNotPanic()
	}},
	"11-filtering-handlers": {Play: func(s *Stage) {
		s.Start()
		s.Create()
		s.Succeeds("label_equal", "label_present", "label_absent", "label_function", "annotation_equal", "annotation_present",
			"field_present/spec.field", "field_equal/spec.field", "field_absent/spec.nosuchfield", "predicate")
		s.Tells("Creation is processed: 10 succeeded; 0 failed.")
		s.Held()
		s.Handled()
		s.Change(map[string]any{"spec": map[string]any{"field": "changed"}})
		s.Succeeds("switched/spec.field", "accompany/spec.field")
		s.Tells("The field has been switched.  old=value new=changed", "The object matches no more.  reason=FiltersMismatch")
		s.Free() // no daemon is left
		s.Handled()
		s.Change(map[string]any{"spec": map[string]any{"field": "other"}}) // not handled
		s.Delete()
		s.Stop()
		s.DoesNotPanic()
	}},
	"12-embedded": {Namespace: "default", Play: func(s *Stage) {
		s.Run()
		s.Tells("An operator is ready.  number=1", "An operator is ready.  number=2", "The numbers are served.  url=")
		s.Create()
		s.Succeeds("count")
		s.Tells("Hello, object!")
		_, url, _ := strings.Cut(s.log(), "url=")
		url, _, _ = strings.Cut(url, "\n")
		if page := s.Answers(url); page != "1 objects were made\n" {
			s.Errorf("the web server tells %q", page)
		}
		s.Handled()
		s.Delete()
		s.Stop()
		s.DoesNotPanic()
	}},
	"13-hooks": {Play: func(s *Stage) {
		address := s.FreeAddress()
		s.Start("--liveness=http://" + address + "/healthz")
		s.Tells("Settings are adjusted.", "Activity 'connect' succeeded.", "Here is how to log in.")
		s.Warns("Activity 'connect' failed temporarily: the database is still asleep")
		s.TellsTimes(2, "the database is still asleep")
		s.Create()
		s.Succeeds("create")
		var answer struct {
			Now     time.Time `json:"now"`
			Handled int       `json:"handled"`
		}
		if err := json.Unmarshal([]byte(s.Answers("http://"+address+"/healthz")), &answer); err != nil || answer.Now.IsZero() || answer.Handled != 1 {
			s.Errorf("the probes tell %+v, %v", answer, err)
		}
		s.Handled()
		s.Delete()
		s.Stop()
		s.Tells("This is the end.  activity=cleanup handled=1")
		s.DoesNotPanic()
	}},
	"14-daemons": {Play: func(s *Stage) {
		s.Start()
		s.Create()
		s.Retries("listen")
		s.Tells("Listening begins.  attempt=1", "Listening begins.  attempt=2", "The object is watched.  field=value")
		s.Held()
		s.Change(map[string]any{"spec": map[string]any{"field": "changed"}})
		s.Tells("The object is watched.  field=changed")
		s.Delete()
		s.Succeeds("watch", "listen")
		s.Tells("The watch is over.  reason=ResourceDeleted", "Listening ends.  reason=")
		s.Stop()
		s.DoesNotPanic()
	}},
	"15-timers": {Play: func(s *Stage) {
		s.Start()
		s.Create()
		s.Often("tick succeeded")
		s.Tells("A tick.  count=1", "A tick.  count=2", "The object rests.  field=value")
		s.Becomes(s.object(), "to be counted", func(object *kopf.Body) bool { return object != nil && object.Status().Int("tick.count") >= 2 })
		s.Held()
		s.Delete()
		s.Stop()
		s.DoesNotPanic()
	}},
	"16-indexing": {Play: func(s *Stage) {
		s.Create() // before the operator: handlers receive it all the same
		address := s.FreeAddress()
		s.Start("--liveness=http://" + address + "/healthz")
		s.Succeeds("create")
		s.Tells("The object has company.  objects=[kopf-example-1]", "The index has an entry.  duration=1m0s objects=1")
		if page := s.Answers("http://" + address + "/healthz"); !strings.Contains(page, `"labels":1`) {
			s.Errorf("the probe tells %s", page)
		}
		s.Held()
		s.Handled()
		s.Delete()
		s.Stop()
		s.DoesNotPanic()
	}},
	"17-admission": {Alone: true, Play: func(s *Stage) { // it has its own test, too
		s.Start()
		s.Tells("Reconfiguring the validating webhook auto.kopf.dev.", "Reconfiguring the mutating webhook auto.kopf.dev.")
		object := func(spec map[string]any) map[string]any {
			ref := s.object()
			return map[string]any{
				"apiVersion": ref.APIVersion, "kind": ref.Kind, "metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace}, "spec": spec,
			}
		}
		create := func(spec map[string]any) error {
			return s.client.Create(s.Context(), object(spec), &kopf.WriteOptions{DryRun: true})
		}
		until(s.T, "an object is denied", func() bool {
			err := create(map[string]any{"field": "value", "size": -1})
			return kopf.StatusCode(err) == 422 && strings.Contains(err.Error(), "the size -1 is negative")
		})
		until(s.T, "an object is completed", func() bool {
			good := object(map[string]any{"field": "value", "size": 1})
			err := s.client.Create(s.Context(), good, &kopf.WriteOptions{DryRun: true})
			return err == nil && good["spec"].(map[string]any)["duration"] == "1m"
		})
		s.Create()
		status := map[string]any{"status": map[string]any{"ready": 1}}
		if _, err := s.client.Patch(s.Context(), s.object(), status, &kopf.PatchOptions{Subresource: "status"}); err == nil || !strings.Contains(err.Error(), "more are ready than there are: 1") {
			s.Errorf("a wrong status: %v", err)
		}
		s.promise("denied", "checkStatus")
		s.Free()
		s.Delete()
		s.Often("check succeeded", "check denied", "complete succeeded")
		s.Stop()
		until(s.T, "nothing is denied any more", func() bool { return create(map[string]any{"size": -1}) == nil })
		s.DoesNotPanic()
	}},
	"20-typed": {Play: func(s *Stage) {
		site := kopf.ObjectReference{APIVersion: "example.com/v1", Kind: "Website", Namespace: s.Namespace, Name: "a"}
		child := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.Namespace, Name: "a"}
		create := func() error {
			object := map[string]any{"apiVersion": site.APIVersion, "kind": site.Kind, "metadata": map[string]any{"name": site.Name, "namespace": site.Namespace}, "spec": map[string]any{"html": "hello"}}
			return s.client.Create(s.Context(), object, nil)
		}
		s.Start()
		until(s.T, "the kind is served", func() bool { return create() == nil })
		s.HasOf(child, "data", map[string]any{"index.html": "hello"})
		s.HasOf(site, "status.url", "http://a."+s.Namespace)
		s.HasOf(site, "status.bytes", 5)
		s.HasOf(site, "spec.replicas", 1)
		if _, err := s.client.Patch(s.Context(), site, map[string]any{"spec": map[string]any{"replicas": 101}}, nil); kopf.StatusCode(err) != 422 {
			s.Errorf("too many replicas: %v", err)
		}
		if _, err := s.client.Patch(s.Context(), site, map[string]any{"spec": map[string]any{"html": "hello, world"}}, nil); err != nil {
			s.Fatal(err)
		}
		s.HasOf(child, "data", map[string]any{"index.html": "hello, world"})
		s.HasOf(site, "status.bytes", 12)
		if err := s.client.Delete(s.Context(), site, nil); err != nil {
			s.Fatal(err)
		}
		s.Becomes(child, "to be gone", func(object *kopf.Body) bool { return object == nil })
		s.Often("reconcile succeeded")
		s.Stop()
		s.DoesNotPanic()
	}},
	"21-reconcile": {Play: func(s *Stage) {
		child := func(item string) kopf.ObjectReference {
			return kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.Namespace, Name: "kopf-example-1-" + item}
		}
		made := func(items ...string) {
			s.Helper()
			for _, item := range items {
				s.HasOf(child(item), "data", map[string]any{"item": item})
			}
		}
		gone := func(object *kopf.Body) bool { return object == nil }
		s.Start()
		s.Create()
		made("item1", "item2")
		s.Free()
		if err := s.client.Delete(s.Context(), child("item1"), nil); err != nil {
			s.Fatal(err)
		}
		made("item1")
		s.Change(map[string]any{"spec": map[string]any{"items": []any{"item2", "item3"}}})
		made("item3")
		s.Becomes(child("item1"), "to be gone", gone)
		s.Stop()
		if err := s.client.Delete(s.Context(), child("item2"), nil); err != nil {
			s.Fatal(err)
		}
		s.Change(map[string]any{"spec": map[string]any{"items": []any{"item2"}}})
		s.Start() // changes in the meantime make no difference
		made("item2")
		s.Becomes(child("item3"), "to be gone", gone)
		s.Delete()
		s.Stop()
		s.DoesNotPanic()
	}},
	"22-scratch": {Play: func(s *Stage) {
		s.Start()
		s.Create()
		s.Succeeds("create")
		s.HasOf(kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.Namespace, Name: "kopf-example-1"}, "data", map[string]any{"duration": "1m"})
		s.Posted("Normal", "Created", "the config map is there")
		s.Has("status", map[string]any{"create": map[string]any{"message": "from scratch"}})
		s.Held()
		s.Handled()
		s.Delete()
		s.Succeeds("remove")
		s.Stop()
		s.DoesNotPanic()
	}},
	"23-leader-election": {Play: func(s *Stage) { // similar to its own tests
		// A released Lease is taken at once, a missing one after the LeaseDuration.
		lease := map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": "kopf-example", "namespace": "default"},
			"spec": map[string]any{"holderIdentity": "", "leaseDurationSeconds": 1},
		}
		if err := s.client.Create(s.Context(), lease, nil); err != nil {
			s.Fatal(err)
		}
		s.Start()
		s.Tells("From now on, this replica works.")
		s.Create()
		s.Succeeds("create")
		s.Often("count succeeded")
		s.Becomes(s.object(), "to be counted", func(o *kopf.Body) bool { return o.Status().Int("count") > 0 })
		by, _ := s.Becomes(s.object(), "to exist", exists).Get("status.countedBy").(string)
		s.Held()
		s.Handled()
		s.Start()
		s.Tells("Standing by for the holder of the Lease")
		slices.Reverse(s.running)
		s.Stop() // the first one; the second one continues
		s.Tells("Another replica may work now.", "Released the Lease")
		s.TellsTimes(2, "From now on, this replica works.")
		s.Becomes(s.object(), "to be counted by the other replica", func(o *kopf.Body) bool { return o.Status().String("countedBy") != by })
		s.Has("status.createdBy", by)
		slices.Reverse(s.running)
		s.Delete()
		s.Stop()
		s.DoesNotPanic()
	}},
	"24-website": {Play: func(s *Stage) { // similar to its own tests
		child := func(apiVersion, kind string) kopf.ObjectReference {
			return kopf.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: s.Namespace, Name: "kopf-example-1"}
		}
		s.Start()
		s.Create()
		s.HasOf(child("v1", "ConfigMap"), "metadata.name", "kopf-example-1")
		s.HasOf(child("apps/v1", "Deployment"), "metadata.name", "kopf-example-1")
		s.HasOf(child("v1", "Service"), "metadata.name", "kopf-example-1")
		s.Has("status.url", "http://kopf-example-1."+s.Namespace)
		s.Often("reconcile succeeded")
		s.Free()
		s.Delete()
		s.Becomes(child("apps/v1", "Deployment"), "to be gone", func(object *kopf.Body) bool { return object == nil })
		s.Stop()
		s.DoesNotPanic()
	}},
	"25-database": {Play: func(s *Stage) { // similar to its own tests
		s.Start()
		s.Create()
		s.HasOf(kopf.ObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: s.Namespace, Name: "kopf-example-1"}, "metadata.name", "kopf-example-1")
		s.Has("status.backups", 1)
		s.Often("reconcile succeeded")
		s.Held()
		s.Delete()
		s.Succeeds("cleanUp")
		s.Stop()
		s.DoesNotPanic()
	}},
	"28-workers": {Play: func(s *Stage) { // similar to its own tests
		s.Start()
		s.Create()
		s.Change(map[string]any{"spec": map[string]any{"size": 2}})
		s.Has("status.done", 0)
		s.Often("reconcile succeeded")
		s.Free()
		s.Delete()
		s.Stop()
		s.DoesNotPanic()
	}},
	"26-shared-secret": {Alone: true, Play: func(s *Stage) { // it serves all namespaces; similar to its own tests
		team := s.Namespace + "-team"
		create := func(kind, namespace, name string, more map[string]any) {
			object := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]any{"team": s.Namespace}}}
			maps.Copy(object, more)
			if err := s.client.Create(s.Context(), object, nil); err != nil {
				s.Fatal(err)
			}
		}
		create("Namespace", "", team, nil)
		create("Secret", s.Namespace, "password", map[string]any{"data": map[string]any{"value": "b25l"}})
		s.Create()
		s.Change(map[string]any{"spec": map[string]any{"secret": "password", "team": s.Namespace}})
		s.Run("run", "--all-namespaces")
		copied := kopf.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: team, Name: "kopf-example-1"}
		s.HasOf(copied, "data", map[string]any{"value": "b25l"})
		s.Held()
		s.Delete()
		s.Becomes(copied, "to be gone", func(o *kopf.Body) bool { return o == nil })
		s.Stop()
		s.DoesNotPanic()
	}},
	"27-external-database": {Play: func(s *Stage) { // similar to its own tests
		s.Install("manifests", "--only", "CustomResourceDefinition")
		db := kopf.ObjectReference{APIVersion: "example.com/v1", Kind: "Database", Namespace: s.Namespace, Name: "orders"}
		object := func(gib int) map[string]any {
			return map[string]any{"apiVersion": db.APIVersion, "kind": db.Kind, "metadata": map[string]any{"name": db.Name, "namespace": db.Namespace}, "spec": map[string]any{"storage": gib}}
		}
		s.Run("fake")
		s.Tells("the fake database service listens")
		s.Start()
		until(s.T, "the webhook is asked", func() bool {
			err := s.client.Create(s.Context(), object(1000), &kopf.WriteOptions{DryRun: true})
			return kopf.StatusCode(err) == 422
		})
		if err := s.client.Create(s.Context(), object(10), nil); err != nil {
			s.Fatal(err)
		}
		s.HasOf(db, "status.phase", "ready")
		s.HasOf(db, "metadata.finalizers", []string{finalizer})
		s.Often("handlers.reconcile retries", "handlers.reconcile succeeded", "handlers.check succeeded", "handlers.validate succeeded", "handlers.validate denied")
		s.HasOf(kopf.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: s.Namespace, Name: "orders-credentials"}, "type", "Opaque")
		if err := s.client.Delete(s.Context(), db, nil); err != nil {
			s.Fatal(err)
		}
		s.Becomes(db, "to be gone", func(object *kopf.Body) bool { return object == nil })
		s.Succeeds("handlers.remove")
		s.Tells("created database ", "deleted database ")
		s.Stop()
		slices.Reverse(s.running)
		s.Stop() // the service
		s.DoesNotPanic()
	}},
	"99-all-at-once": {Play: func(s *Stage) {
		s.Start()
		s.Create()
		s.Retries("retry", "retry")
		s.Succeeds("create/item1", "create/item2", "create", "retry", "field/spec.field")
		s.Tells("Something has happened.")
		s.Tells("The object is watched.", "A tick.  of-this-size=1")
		s.Posted("Normal", "Made", "The object is here.")
		s.Has("status", map[string]any{"create": map[string]any{"message": "2 items"}})
		s.Held()
		s.Handled()
		s.Change(map[string]any{"spec": map[string]any{"field": "changed"}})
		s.Succeeds("field/spec.field")
		s.Tells("The field has changed.  old=value new=changed")
		s.Handled()
		s.Stop()
		s.Succeeds("watch")
		s.Start()
		s.Succeeds("resume")
		s.TellsTimes(2, "The object is watched.")
		s.Delete()
		s.Succeeds("remove", "watch")
		s.Stop()
		s.DoesNotPanic()
	}},
}

func exists(object *kopf.Body) bool { return object != nil }
