package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"

	"github.com/kopf-go/kopf"
)

// The parts of client-go that operators use, on both servers: they work in memory as on the real server.

// library is client-go with one of the servers.
type library struct {
	*kubernetes.Clientset
	config *rest.Config
	forget func(*testing.T) // has the server end all streams, and drop its history
}

func TestClientLibraries(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, nil)
	server := kopf.NewAPIServer(nil)
	listener, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	kubeconfig := t.TempDir() + "/memory.kubeconfig"
	if err := listener.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	// A restarted server has an empty cache, and refuses watches from earlier versions.
	restart := func(t *testing.T) {
		if err := c.Restart(t.Context(), "kube-apiserver"); err != nil {
			t.Fatal(err)
		}
	}
	forget := func(*testing.T) {
		server.Compact()
		server.Disconnect()
	}
	t.Run("kube-apiserver", func(t *testing.T) { testLibraries(t, c.Kubeconfig(), restart) })
	t.Run("in memory", func(t *testing.T) { testLibraries(t, kubeconfig, forget) })
}

func testLibraries(t *testing.T, kubeconfig string, forget func(*testing.T)) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	l := &library{Clientset: kubernetes.NewForConfigOrDie(config), config: config, forget: forget}
	t.Run("apply", l.testApply)
	t.Run("apply status", l.testApplyStatus)
	t.Run("definitions", l.testDefinitions)
	t.Run("dynamic", l.testDynamic)
	t.Run("metadata", l.testMetadata)
	t.Run("scale", l.testScale)
	t.Run("mapper", l.testMapper)
	t.Run("leader election", l.testLeaderElection)
	t.Run("informers", l.testInformers)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// testApply has two managers of one ConfigMap.
func (l *library) testApply(t *testing.T) {
	ctx, maps, get := t.Context(), l.CoreV1().ConfigMaps("default"), must[*core.ConfigMap](t)
	first := applycore.ConfigMap("applied", "default").WithLabels(map[string]string{"l": "1"}).WithData(map[string]string{"a": "1", "b": "1"})
	get(maps.Apply(ctx, first, meta.ApplyOptions{FieldManager: "one"}))
	second := applycore.ConfigMap("applied", "default").WithData(map[string]string{"b": "2", "c": "2"})
	_, err := maps.Apply(ctx, second, meta.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, meta.CauseTypeFieldManagerConflict) {
		t.Fatalf("got %v, want a conflict of managers", err)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details.Causes[0].Field != ".data.b" {
		t.Errorf("the conflict is about %v", status.Status().Details.Causes)
	}
	got := get(maps.Apply(ctx, second, meta.ApplyOptions{FieldManager: "two", Force: true}))
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2", "c": "2"}, got.Data); diff != "" {
		t.Error(diff)
	}
	// The first manager can extract its configuration, change it, and apply it again: this removes a, and the manager no longer owns b.
	extracted, err := applycore.ExtractConfigMap(got, "one")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1"}, extracted.Data); diff != "" {
		t.Errorf("extracted: %s", diff)
	}
	delete(extracted.Data, "a")
	got = get(maps.Apply(ctx, extracted, meta.ApplyOptions{FieldManager: "one"}))
	if diff := cmp.Diff(map[string]string{"b": "2", "c": "2"}, got.Data); diff != "" || got.Labels["l"] != "1" {
		t.Errorf("labels %v, data: %s", got.Labels, diff)
	}
	unchanged := get(maps.Apply(ctx, extracted, meta.ApplyOptions{FieldManager: "one"}))
	if unchanged.ResourceVersion != got.ResourceVersion {
		t.Error("applying the same again makes a new version")
	}
	// An update takes ownership of fields without a conflict. Its conflicts are those of versions.
	got.Data["c"] = "3"
	updated := get(maps.Update(ctx, got, meta.UpdateOptions{FieldManager: "three"}))
	if _, err := maps.Update(ctx, got, meta.UpdateOptions{}); !apierrors.IsConflict(err) || apierrors.HasStatusCause(err, meta.CauseTypeFieldManagerConflict) {
		t.Errorf("got %v, want a conflict of versions", err)
	}
	if extracted, err = applycore.ExtractConfigMap(updated, "two"); err != nil || extracted.Data["c"] != "" {
		t.Errorf("the second manager still has %v (%v)", extracted.Data, err)
	}
	// Eight writers that retry after conflicts lose nothing.
	var group sync.WaitGroup
	var written atomic.Int32
	for n := range 8 {
		group.Go(func() {
			err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				now, err := maps.Get(ctx, "applied", meta.GetOptions{})
				if err != nil {
					return err
				}
				now.Data[fmt.Sprint("writer", n)] = "x"
				_, err = maps.Update(ctx, now, meta.UpdateOptions{})
				return err
			})
			switch {
			case err == nil:
				written.Add(1)
			case !apierrors.IsConflict(err): // there may be too few attempts
				t.Error(err)
			}
		})
	}
	group.Wait()
	got = get(maps.Get(ctx, "applied", meta.GetOptions{}))
	if lost := int(written.Load()) + 2 - len(got.Data); lost != 0 || written.Load() == 0 {
		t.Errorf("%d writers have succeeded, and the data is %v", written.Load(), got.Data)
	}
}

// testApplyStatus applies a Deployment and its status, which have separate managers.
func (l *library) testApplyStatus(t *testing.T) {
	ctx, deployments, get := t.Context(), l.AppsV1().Deployments("default"), must[*apps.Deployment](t)
	labels := map[string]string{"a": "b"}
	get(deployments.Create(ctx, &apps.Deployment{ObjectMeta: meta.ObjectMeta{Name: "applied"}, Spec: apps.DeploymentSpec{
		Replicas: pointer(int32(1)), Selector: &meta.LabelSelector{MatchLabels: labels}, Template: core.PodTemplateSpec{
			ObjectMeta: meta.ObjectMeta{Labels: labels}, Spec: core.PodSpec{Containers: []core.Container{{Name: "a", Image: "b"}}}}}}, meta.CreateOptions{}))
	spec := applyapps.Deployment("applied", "default").WithSpec(applyapps.DeploymentSpec().WithReplicas(3))
	got := get(deployments.Apply(ctx, spec, meta.ApplyOptions{FieldManager: "spec", Force: true}))
	if *got.Spec.Replicas != 3 || got.Generation != 2 {
		t.Errorf("replicas %d, generation %d", *got.Spec.Replicas, got.Generation)
	}
	status := applyapps.Deployment("applied", "default").WithSpec(applyapps.DeploymentSpec().WithReplicas(9)).WithStatus(applyapps.DeploymentStatus().
		WithReplicas(2).WithConditions(applyapps.DeploymentCondition().WithType("Available").WithStatus("True").WithReason("R").WithMessage("m")))
	got = get(deployments.ApplyStatus(ctx, status, meta.ApplyOptions{FieldManager: "status"}))
	if *got.Spec.Replicas != 3 || got.Status.Replicas != 2 || len(got.Status.Conditions) != 1 || got.Generation != 2 {
		t.Errorf("replicas %d, generation %d, status %+v", *got.Spec.Replicas, got.Generation, got.Status)
	}
	extracted, err := applyapps.ExtractDeploymentStatus(got, "status")
	if err != nil || extracted.Status == nil || *extracted.Status.Replicas != 2 {
		t.Errorf("extracted %+v (%v)", extracted.Status, err)
	}
	if spec, err := applyapps.ExtractDeployment(got, "status"); err != nil || spec.Spec != nil {
		t.Errorf("the manager of the status has %+v of the spec (%v)", spec.Spec, err)
	}
}

var gears = schema.GroupVersionResource{Group: "libraries.example.com", Version: "v1", Resource: "gears"}

// testDefinitions creates, changes and deletes CRDs by the generated clientset, which sends Protocol Buffers.
func (l *library) testDefinitions(t *testing.T) {
	ctx, get := t.Context(), must[*apiextensions.CustomResourceDefinition](t)
	definitions := extensionsclient.NewForConfigOrDie(l.config).ApiextensionsV1().CustomResourceDefinitions()
	made := map[string]*apiextensions.CustomResourceDefinition{}
	for _, plural := range []string{"gears", "cogs"} {
		made[plural] = get(definitions.Create(ctx, &apiextensions.CustomResourceDefinition{
			ObjectMeta: meta.ObjectMeta{Name: plural + "." + gears.Group},
			Spec: apiextensions.CustomResourceDefinitionSpec{Group: gears.Group, Scope: apiextensions.NamespaceScoped,
				Names: apiextensions.CustomResourceDefinitionNames{Plural: plural, Singular: plural[:len(plural)-1], Kind: strings.ToUpper(plural[:1]) + plural[1:len(plural)-1], ListKind: "List" + plural},
				Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
					Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{},
						Scale: &apiextensions.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"}},
					Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: pointer(true)}}}},
			}}, meta.CreateOptions{}))
	}
	established := func(name string) func() bool {
		return func() bool {
			now, err := definitions.Get(ctx, name, meta.GetOptions{})
			return err == nil && slices.ContainsFunc(now.Status.Conditions, func(c apiextensions.CustomResourceDefinitionCondition) bool {
				return c.Type == apiextensions.Established && c.Status == apiextensions.ConditionTrue
			})
		}
	}
	for plural := range made {
		eventually(t, plural+" are established", established(plural+"."+gears.Group))
	}
	var now *apiextensions.CustomResourceDefinition
	change := func(do func() error) { // the controllers of the server write to it, too
		t.Helper()
		if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			now = get(definitions.Get(ctx, "cogs."+gears.Group, meta.GetOptions{}))
			return do()
		}); err != nil {
			t.Fatal(err)
		}
	}
	change(func() (err error) {
		now.Spec.Names.ShortNames = []string{"cg"}
		now, err = definitions.Update(ctx, now, meta.UpdateOptions{})
		return err
	})
	if now.Generation != 2 {
		t.Errorf("generation %d after a change", now.Generation)
	}
	eventually(t, "the short name is accepted", func() bool {
		now = get(definitions.Get(ctx, now.Name, meta.GetOptions{}))
		return slices.Equal(now.Status.AcceptedNames.ShortNames, []string{"cg"})
	})
	change(func() error {
		now.Status.Conditions = append(now.Status.Conditions, apiextensions.CustomResourceDefinitionCondition{Type: "Extra", Status: "True", Reason: "R"})
		now.Spec.Names.ShortNames = nil
		_, err := definitions.UpdateStatus(ctx, now, meta.UpdateOptions{})
		return err
	})
	now = get(definitions.Get(ctx, now.Name, meta.GetOptions{}))
	if len(now.Spec.Names.ShortNames) != 1 || !slices.ContainsFunc(now.Status.Conditions, func(c apiextensions.CustomResourceDefinitionCondition) bool { return c.Type == "Extra" }) {
		t.Errorf("short names %v, conditions %v", now.Spec.Names.ShortNames, now.Status.Conditions)
	}
	if err := definitions.Delete(ctx, now.Name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the definition is gone", func() bool {
		_, err := definitions.Get(ctx, now.Name, meta.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func gear(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": gears.GroupVersion().String(), "kind": "Gear",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"of": name}}, "spec": map[string]any{"replicas": int64(1)}}}
}

func (l *library) testDynamic(t *testing.T) {
	ctx, get := t.Context(), must[*unstructured.Unstructured](t)
	client := dynamic.NewForConfigOrDie(l.config).Resource(gears).Namespace("default")
	eventually(t, "gears are served", func() bool {
		_, err := client.List(ctx, meta.ListOptions{})
		return err == nil
	})
	for _, name := range []string{"a", "b", "c"} {
		get(client.Create(ctx, gear(name), meta.CreateOptions{}))
	}
	watch, err := client.Watch(ctx, meta.ListOptions{LabelSelector: "of=a", ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	got := get(client.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec": {"replicas": 2}}`), meta.PatchOptions{}))
	if n, _, _ := unstructured.NestedInt64(got.Object, "spec", "replicas"); n != 2 || got.GetGeneration() != 2 {
		t.Errorf("got %v", got)
	}
	got.Object["status"] = map[string]any{"replicas": int64(2)}
	got = get(client.UpdateStatus(ctx, got, meta.UpdateOptions{}))
	got = get(client.Apply(ctx, "a", &unstructured.Unstructured{Object: map[string]any{"apiVersion": got.GetAPIVersion(), "kind": "Gear",
		"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"teeth": int64(12)}}}, meta.ApplyOptions{FieldManager: "dynamic"}))
	if n, _, _ := unstructured.NestedInt64(got.Object, "status", "replicas"); n != 2 || got.GetGeneration() != 3 {
		t.Errorf("got %v", got)
	}
	page, err := client.List(ctx, meta.ListOptions{Limit: 2})
	if err != nil || len(page.Items) != 2 || page.GetContinue() == "" || page.GetRemainingItemCount() == nil || *page.GetRemainingItemCount() != 1 {
		t.Fatalf("a page: %v (%v)", page, err)
	}
	if rest, err := client.List(ctx, meta.ListOptions{Limit: 2, Continue: page.GetContinue()}); err != nil || len(rest.Items) != 1 {
		t.Errorf("the next page: %v (%v)", rest, err)
	}
	if err := client.Delete(ctx, "a", meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: pointer(types.UID("other"))}}); !apierrors.IsConflict(err) {
		t.Errorf("a deletion with another uid: %v", err)
	}
	if err := client.DeleteCollection(ctx, meta.DeleteOptions{}, meta.ListOptions{LabelSelector: "of in (a,b)"}); err != nil {
		t.Error(err)
	}
	var seen []string
	for event := range watch.ResultChan() {
		if event.Type == "BOOKMARK" {
			continue
		}
		seen = append(seen, string(event.Type))
		if event.Type == "DELETED" {
			break
		}
	}
	if diff := cmp.Diff([]string{"ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"}, seen); diff != "" {
		t.Error(diff)
	}
}

func (l *library) testMetadata(t *testing.T) {
	ctx, get := t.Context(), must[*meta.PartialObjectMetadata](t)
	client := metadata.NewForConfigOrDie(l.config).Resource(gears).Namespace("default")
	got := get(client.Patch(ctx, "c", types.MergePatchType, []byte(`{"metadata": {"annotations": {"a": "b"}}}`), meta.PatchOptions{}))
	if got.Annotations["a"] != "b" || got.Generation != 1 {
		t.Errorf("got %+v", got)
	}
	list, err := client.List(ctx, meta.ListOptions{LabelSelector: "of=c"})
	if err != nil || len(list.Items) != 1 || list.Items[0].UID != got.UID {
		t.Errorf("got %v (%v)", list, err)
	}
	if _, err := client.Get(ctx, "nothing", meta.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func (l *library) mapper(t *testing.T) (*restmapper.DeferredDiscoveryRESTMapper, discovery.CachedDiscoveryInterface) {
	cached := memory.NewMemCacheClient(must[*discovery.DiscoveryClient](t)(discovery.NewDiscoveryClientForConfig(l.config)))
	return restmapper.NewDeferredDiscoveryRESTMapper(cached), cached
}

func (l *library) testScale(t *testing.T) {
	mapper, cached := l.mapper(t)
	eventually(t, "gears are discovered", func() bool { // discovery is later than serving
		mapper.Reset()
		_, err := mapper.ResourceFor(gears.GroupResource().WithVersion(""))
		return err == nil
	})
	client, err := scale.NewForConfig(l.config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(cached))
	if err != nil {
		t.Fatal(err)
	}
	for resource, name := range map[schema.GroupResource]string{gears.GroupResource(): "c", {Group: "apps", Resource: "deployments"}: "applied"} {
		scales := client.Scales("default")
		got, err := scales.Get(t.Context(), resource, name, meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got.Spec.Replicas = 7
		if got, err = scales.Update(t.Context(), resource, got, meta.UpdateOptions{}); err != nil || got.Spec.Replicas != 7 {
			t.Errorf("%s: %v (%v)", resource, got, err)
		}
		got, err = scales.Patch(t.Context(), resource.WithVersion("v1"), name, types.MergePatchType, []byte(`{"spec": {"replicas": 8}}`), meta.PatchOptions{})
		if err != nil || got.Spec.Replicas != 8 {
			t.Errorf("%s: %v (%v)", resource, got, err)
		}
		got.ResourceVersion = "1"
		if _, err := scales.Update(t.Context(), resource, got, meta.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("%s of another version: %v", resource, err)
		}
	}
}

func (l *library) testMapper(t *testing.T) {
	mapper, cached := l.mapper(t)
	kind, err := mapper.KindFor(schema.GroupVersionResource{Resource: "gear"})
	if err != nil || kind != gears.GroupVersion().WithKind("Gear") {
		t.Errorf("got %v (%v)", kind, err)
	}
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	if err != nil || mapping.Resource.Resource != "deployments" || mapping.Scope.Name() != "namespace" {
		t.Errorf("got %v (%v)", mapping, err)
	}
	if _, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: "nothings"}); err == nil {
		t.Error("there are nothings")
	}
	preferred, err := cached.ServerPreferredResources()
	if err != nil || len(preferred) == 0 {
		t.Errorf("got %v (%v)", preferred, err)
	}
	if expander := restmapper.NewShortcutExpander(mapper, cached, nil); expander != nil {
		if got, err := expander.ResourceFor(schema.GroupVersionResource{Resource: "deploy"}); err != nil || got.Resource != "deployments" {
			t.Errorf("got %v (%v)", got, err)
		}
	}
}

// candidate takes part in the election of a leader, until it is stopped.
func (l *library) candidate(t *testing.T, name string, release bool) (leads <-chan string, stop func()) {
	t.Helper()
	leading := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{LeaseMeta: meta.ObjectMeta{Namespace: "default", Name: "election"}, Client: l.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name}},
		// Long enough for a server that is slow because of other tests: a leader must not lose its term in the meantime.
		LeaseDuration: 10 * time.Second, RenewDeadline: 8 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { leading <- name }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		elector.Run(ctx)
		close(done)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return leading, stop
}

// testLeaderElection has a leader that releases its lease, and one that does not.
func (l *library) testLeaderElection(t *testing.T) {
	wait := func(leads <-chan string) {
		t.Helper()
		select {
		case <-leads:
		case <-time.After(time.Minute):
			t.Fatal("no leader within a minute")
		}
		// An elector that is stopped during an update cannot release its Lease. It makes the first one at once, and the next one
		// after the RetryPeriod.
		eventually(t, "the first renewal", func() bool {
			lease, err := l.CoordinationV1().Leases("default").Get(t.Context(), "election", meta.GetOptions{})
			return err == nil && !lease.Spec.RenewTime.Equal(lease.Spec.AcquireTime)
		})
	}
	first, stopFirst := l.candidate(t, "first", true)
	wait(first)
	second, stopSecond := l.candidate(t, "second", false)
	stopFirst()
	wait(second)
	third, stopThird := l.candidate(t, "third", true)
	select {
	case <-third:
		t.Error("there are two leaders")
	default:
	}
	began := time.Now()
	stopSecond()
	wait(third)
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("the lease of a leader that is gone was taken after %s", took)
	}
	stopThird()
	lease, err := l.CoordinationV1().Leases("default").Get(t.Context(), "election", meta.GetOptions{})
	if err != nil || *lease.Spec.HolderIdentity != "" || *lease.Spec.LeaseTransitions != 2 {
		t.Errorf("the lease is %+v (%v)", lease.Spec, err)
	}
}

// cutter is a client's network that can be cut.
type cutter struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
	}
	return conn, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close() // it may be closed
	}
	c.conns = nil
}

// follower checks the order of an informer's events: each object is added, changes, and is deleted.
type follower struct {
	mu       sync.Mutex
	known    map[string]string // the values, by name
	mistakes []string
}

func (f *follower) mistake(what string, name string) {
	f.mistakes = append(f.mistakes, what+" "+name)
}

func (f *follower) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			f.mu.Lock()
			defer f.mu.Unlock()
			m := o.(*core.ConfigMap)
			if _, ok := f.known[m.Name]; ok {
				f.mistake("added twice", m.Name)
			}
			f.known[m.Name] = m.Data["n"]
		},
		UpdateFunc: func(old, o any) {
			f.mu.Lock()
			defer f.mu.Unlock()
			m := o.(*core.ConfigMap)
			if n, ok := f.known[m.Name]; !ok || n != old.(*core.ConfigMap).Data["n"] {
				f.mistake("changed before it was there", m.Name)
			}
			f.known[m.Name] = m.Data["n"]
		},
		DeleteFunc: func(o any) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			m := o.(*core.ConfigMap)
			if _, ok := f.known[m.Name]; !ok {
				f.mistake("deleted twice", m.Name)
			}
			delete(f.known, m.Name)
		},
	}
}

// testInformers writes objects while an informer's connections are cut, and the server drops its history.
func (l *library) testInformers(t *testing.T) {
	network := &cutter{}
	config := rest.CopyConfig(l.config)
	config.Dial = network.dial
	factory := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(config), 0, informers.WithNamespace("default"),
		informers.WithTweakListOptions(func(o *meta.ListOptions) { o.LabelSelector = "informed=yes" }))
	informer := factory.Core().V1().ConfigMaps()
	f := &follower{known: map[string]string{}}
	if _, err := informer.Informer().AddEventHandler(f.handler()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer stop()
	factory.WaitForCacheSync(ctx.Done())
	for round := range 6 {
		l.write(t, round)
		switch round {
		case 1, 4:
			network.cut()
		case 2:
			l.forget(t)
		case 3:
			network.cut()
			l.forget(t)
		}
	}
	want := map[string]string{}
	list, err := l.CoreV1().ConfigMaps("default").List(t.Context(), meta.ListOptions{LabelSelector: "informed=yes"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Items {
		want[m.Name] = m.Data["n"]
	}
	eventually(t, "the informer has seen all", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return cmp.Equal(want, f.known)
	})
	if f.mistakes != nil {
		t.Errorf("the informer tells what cannot be: %q", f.mistakes)
	}
}

// write creates, changes and deletes ConfigMaps.
func (l *library) write(t *testing.T, round int) {
	t.Helper()
	maps := l.CoreV1().ConfigMaps("default")
	for i := range 20 {
		name := fmt.Sprintf("informed-%d", i)
		m := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{"informed": "yes"}}, Data: map[string]string{"n": fmt.Sprint(round)}}
		_, err := maps.Create(t.Context(), m, meta.CreateOptions{})
		switch {
		case apierrors.IsAlreadyExists(err) && (i+round)%3 == 0:
			err = maps.Delete(t.Context(), name, meta.DeleteOptions{})
		case apierrors.IsAlreadyExists(err):
			_, err = maps.Update(t.Context(), m, meta.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
