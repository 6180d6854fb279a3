package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
	"github.com/kopf-go/kopf/internal/promises"
)

// The tests in this file check docs/deployment.md. The API server accepts the manifests. An operator works with the granted permissions, in an empty image.
// It reports each missing permission.

const (
	deployment   = "../docs/deployment/namespaced"
	shippedImage = "example.com/kopfexample-operator:1"
)

func TestDeployment(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, nil)
	programs := shipped(t)
	world := promises.NewWorld(t, "..", programs, c.Kubeconfig(), c.ConnectionInfo())
	c.Kubectl(t, "apply", "--validate=strict", "-f", "../examples/crd.yaml", "-f", "../examples/peering.yaml")
	c.Kubectl(t, "wait", "--for=condition=Established", "-f", "../examples/crd.yaml", "-f", "../examples/peering.yaml")
	c.Kubectl(t, "apply", "--validate=strict", "-f", "../examples/peering-objects.yaml")

	t.Run("the API server takes the manifests", func(t *testing.T) {
		for _, folder := range []string{deployment, "../docs/deployment/clusterwide", "../docs/deployment/webhooks"} {
			c.Kubectl(t, "apply", "--validate=strict", "--dry-run=server", "-k", folder)
		}
		c.Kubectl(t, "apply", "--validate=strict", "-k", deployment)
		if out := c.Kubectl(t, "apply", "--validate=strict", "-k", "../examples/22-scratch"); strings.Contains(out, "created") {
			t.Errorf("the example deploys something else:\n%s", out)
		}
		if image := c.Kubectl(t, "get", "deployment", "kopfexample-operator", "-o", "jsonpath={.spec.template.spec.containers[*].image}"); image != shippedImage {
			t.Errorf("it deploys %s, and builds %s", image, shippedImage)
		}
	})

	t.Run("the pod may do nothing", func(t *testing.T) {
		c.KubectlInput(t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`, "apply", "-f", "-")
		pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a", "namespace": "strict"}, "spec": podSpec(t)}
		data, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		c.KubectlInput(t, string(data), "apply", "--dry-run=server", "-f", "-")
		allowed := strings.Replace(string(data), `"allowPrivilegeEscalation":false`, `"allowPrivilegeEscalation":true`, 1)
		if _, err := c.TryKubectl(allowed, "apply", "--dry-run=server", "-f", "-"); err == nil {
			t.Error("the API server does not look")
		}
	})

	t.Run("as deployed", func(t *testing.T) { deployed(t, c, world) })
	t.Run("two replicas", func(t *testing.T) { replicas(t, c, filepath.Join(programs, "22-scratch")) })
	t.Run("with further rights", func(t *testing.T) { further(t, c) })
	t.Run("DF-27 with a late stream, no handler is called again", func(t *testing.T) { late(t, c) })
}

// podSpec returns the pod spec of the deployment.
func podSpec(t *testing.T) map[string]any {
	t.Helper()
	objects, err := kopf.ParseManifests(mustRead(t, filepath.Join(deployment, "deployment.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	return objects[0]["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
}

// shipped builds the operator by the command in its Dockerfile, and returns its folder.
func shipped(t *testing.T) string {
	t.Helper()
	const path = "../examples/22-scratch/Dockerfile"
	dockerfile := string(mustRead(t, path))
	for _, line := range []string{"FROM scratch", "COPY --from=build /operator /operator", "USER 65532:65532", `ENTRYPOINT ["/operator"]`, "#\tdocker build -t " + shippedImage + " "} {
		if !strings.Contains(dockerfile, "\n"+line) {
			t.Errorf("the Dockerfile has no line with %s", line)
		}
	}
	run := regexp.MustCompile(`(?m)^RUN ((?:\w+=\S+ )*)go (build .*) -o /operator (\S+)$`).FindStringSubmatch(dockerfile)
	if run == nil {
		t.Fatalf("the Dockerfile does not build the operator:\n%s", dockerfile)
	}
	folder := t.TempDir()
	build := fmt.Sprintf("go %s -o %s %s", run[2], filepath.Join(folder, "22-scratch"), run[3])
	cmd := exec.Command("sh", "-c", build) // as RUN does
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), strings.Fields(run[1])...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return folder
}

// lease is the Lease of the deployment.
const lease = "kopfexample-operator"

// pod is one replica of the deployment.
type pod struct {
	container map[string]any
	address   string // of its endpoint
	args, env []string
	files     map[string]string
}

// newPod returns a replica as the kubelet would start it, with the permissions of its service account.
func newPod(t *testing.T, c *cluster.Cluster, name string) *pod {
	t.Helper()
	spec := podSpec(t)
	p := &pod{container: spec["containers"].([]any)[0].(map[string]any), address: closedPort(t)}
	for _, arg := range p.container["args"].([]any) {
		p.args = append(p.args, strings.NewReplacer("0.0.0.0:8080", p.address, "--log-format=json", "--log-format=full").Replace(arg.(string)))
	}
	folder := "var/run/secrets/kubernetes.io/serviceaccount/"
	p.files = map[string]string{
		folder + "token":     strings.TrimSpace(c.Kubectl(t, "create", "token", spec["serviceAccountName"].(string))),
		folder + "ca.crt":    string(c.CA()),
		folder + "namespace": "default",
	}
	host, port, _ := strings.Cut(strings.TrimPrefix(c.URL(), "https://"), ":")
	p.env = []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port}
	for _, variable := range p.container["env"].([]any) {
		p.env = append(p.env, variable.(map[string]any)["name"].(string)+"="+name)
	}
	return p
}

// command returns the command of the replica.
func (p *pod) command(t *testing.T, program string) *exec.Cmd {
	t.Helper()
	cmd := inPod(t, program, p.files)
	cmd.Args, cmd.Env = append(cmd.Args, p.args...), p.env
	return cmd
}

// deployed runs the example as the kubelet does, with the permissions of its service account, and checks its promises.
func deployed(t *testing.T, c *cluster.Cluster, world *promises.World) {
	p := newPod(t, c, "the-pod")
	container, address := p.container, p.address
	world.Namespace = "default"
	world.Command = func(program string, asked []string) *exec.Cmd {
		if !slices.Equal(asked, p.args[:len(asked)]) {
			t.Errorf("the deployment runs %q, the example %q", p.args, asked)
		}
		return p.command(t, program)
	}
	world.Meanwhile = func(s *promises.Stage) {
		for _, kind := range []string{"livenessProbe", "readinessProbe"} {
			probe := container[kind].(map[string]any)["httpGet"].(map[string]any)
			if port := container["ports"].([]any)[0].(map[string]any); probe["port"] != port["name"] {
				t.Errorf("the %s is for the port %v", kind, probe["port"])
			}
			s.Answers("http://" + address + probe["path"].(string))
		}
		s.Warns("The liveness endpoint can be reached from this host only; use 0.0.0.0 for the kubelet") // in this environment
		if holder := holder(t, c); !strings.HasPrefix(holder, "the-pod_") {
			t.Errorf("%q works", holder)
		}
	}
	world.Play(t, "22-scratch")
	if holder := holder(t, c); holder != "" {
		t.Errorf("after the end, %q holds the Lease", holder)
	}
}

// holder returns the holder of the deployment's Lease.
func holder(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	return c.Kubectl(t, "get", "lease", lease, "-o", "jsonpath={.spec.holderIdentity}")
}

// replicas runs the two replicas of the deployment, and ends the leader: the permissions are sufficient for the takeover by the other one.
func replicas(t *testing.T, c *cluster.Cluster, program string) {
	p := newPod(t, c, "pod-a")
	first := start(t, p.command(t, program), p.env...)
	first.waitForLog("Became the leader")
	p = newPod(t, c, "pod-b")
	second := start(t, p.command(t, program), p.env...)
	second.waitForLog("Standing by for the holder of the Lease")
	c.Kubectl(t, "apply", "-f", "../examples/obj.yaml")
	first.waitForLog("Handler 'create' succeeded.")
	first.stop()
	second.waitForLog("Became the leader")
	if holder := holder(t, c); !strings.HasPrefix(holder, "pod-b_") {
		t.Errorf("%q works", holder)
	}
	c.Kubectl(t, "delete", "-f", "../examples/obj.yaml", "--timeout=1m")
	second.waitForLog("Handler 'remove' succeeded.")
	eventually(t, "the events about the Lease", func() bool {
		return strings.Count(c.Kubectl(t, "get", "events", "--field-selector=involvedObject.kind=Lease", "-o", "jsonpath={.items[*].message}"), "became leader") >= 3 // including that of the previous test
	})
	second.stop()
	for _, op := range []*operator{first, second} {
		for line := range strings.Lines(op.log.String()) {
			if (strings.Contains(line, "[WARN") || strings.Contains(line, "[ERROR")) && !strings.Contains(line, "can be reached from this host only") {
				t.Errorf("it complains: %s", line)
			}
		}
	}
}

// further runs examples with and without the permissions that only some operators need.
func further(t *testing.T, c *cluster.Cluster) {
	token := strings.TrimSpace(c.Kubectl(t, "create", "token", lease))
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(withToken(c, token)), 0o600); err != nil {
		t.Fatal(err)
	}
	programs := filepath.Dir(example(t, "22-scratch"))
	example(t, "17-admission")
	world := promises.NewWorld(t, "..", programs, config, c.ConnectionInfo())

	op := start(t, exec.Command(example(t, "17-admission"), "run", "--namespace=default"), "KUBECONFIG="+config)
	if code := op.wait(time.Minute); code == 0 || !strings.Contains(op.log.String(), "Not enough RBAC permissions to patch a") {
		t.Errorf("without the rights of admission, it ends with the code %d", code)
	}

	c.Kubectl(t, "apply", "-k", "../docs/deployment/clusterwide")
	world.Namespace = "elsewhere"
	ordinary := world.Command
	world.Command = func(program string, args []string) *exec.Cmd {
		args = slices.Clone(args)
		args[slices.Index(args, "--namespace=elsewhere")] = "--all-namespaces"
		return ordinary(program, args)
	}
	world.Meanwhile = func(s *promises.Stage) {
		if status := c.Kubectl(s.T, "get", "clusterkopfpeering", "default", "-o", "jsonpath={.status}"); !strings.Contains(status, `"lastseen"`) {
			s.Errorf("its peers see %q", status)
		}
	}
	t.Run("in the whole cluster", func(t *testing.T) { world.Play(t, "22-scratch") })
}

// withToken returns a kubeconfig with only a token.
func withToken(c *cluster.Cluster, token string) string { return withTokenAt(c.URL(), c, token) }

func withTokenAt(address string, c *cluster.Cluster, token string) string {
	return kubeconfig(address, "certificate-authority-data: "+base64.StdEncoding.EncodeToString(c.CA()), token)
}

// right is one permission of a role.
type right struct {
	Kind, Group, Resource, Verb string
}

// rights returns all permissions in the roles of the example, one by one.
func rights(t *testing.T) (all []right) {
	t.Helper()
	objects, err := kopf.ParseManifests(mustRead(t, filepath.Join(deployment, "rbac.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		rules, _ := object["rules"].([]any)
		for _, rule := range rules {
			r := rule.(map[string]any)
			for _, resource := range r["resources"].([]any) {
				for _, verb := range r["verbs"].([]any) {
					all = append(all, right{object["kind"].(string), r["apiGroups"].([]any)[0].(string), resource.(string), verb.(string)})
				}
			}
		}
	}
	return all
}

// late runs an operator with the shipped permissions, whose stream is delayed for longer than it waits for its own patches. It then reads the objects, if it
// has the permission. Otherwise it calls a handler again whose success is stored.
func late(t *testing.T, c *cluster.Cluster) {
	token := admit(t, c, "late", rights(t))
	address := lateServer(t, c, 4*time.Second)
	var mu sync.Mutex
	var calls []string
	note := func(call string) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, call)
	}
	registry := &kopf.Registry{}
	registry.OnCreate("kopfexamples", func(ctx context.Context, ch *kopf.Change) error {
		note("one")
		_, err := ch.Client.Patch(ctx, ch.Body.Reference(), map[string]any{"spec": map[string]any{"field": "changed"}}, nil)
		return err
	}, &kopf.ChangeOptions{ID: "one"})
	registry.OnCreate("kopfexamples", func(ctx context.Context, ch *kopf.Change) error {
		note("two")
		if ch.Retry == 0 {
			return kopf.Temporary(errors.New("not yet"), 500*time.Millisecond)
		}
		return nil
	}, &kopf.ChangeOptions{ID: "two"})
	var log safeBuffer
	op := &kopf.Operator{
		Registry: registry, Namespaces: []string{"late"}, Settings: kopf.NewSettings(), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Connection: &kopf.ConnectionInfo{Server: address, CAData: c.CA(), Token: kopf.Secret(token)},
	}
	op.Settings.Persistence.ConsistencyTimeout = time.Second
	op.Settings.Peering.Standalone = true // as in the manifests
	kopf.NewRunner(t, op, nil)
	eventually(t, "the object to be read", func() bool {
		return strings.Contains(log.String(), "The watch stream has not shown our patch in time; reading the object")
	})
	time.Sleep(10 * time.Second) // for unexpected calls
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"one", "two", "two"}; !slices.Equal(calls, want) {
		t.Errorf("called were %q, want %q", calls, want)
	}
	for line := range strings.Lines(log.String()) {
		if (strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR")) && !strings.Contains(line, "failed temporarily: not yet") {
			t.Errorf("the log has a line of trouble: %s", line)
		}
	}
}

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu     sync.Mutex // guards buffer
	buffer bytes.Buffer
}

// Write appends to the buffer.
func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// String returns the text so far.
func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// lateServer passes requests on to the API server, with their credentials, and delays each event of the objects. It returns its address.
func lateServer(t *testing.T, c *cluster.Cluster, lag time.Duration) string {
	t.Helper()
	target, err := url.Parse(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	id, err := c.Authority().Issue("kube-apiserver", nil, true, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(id.Cert, id.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA())
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // operators disconnect
		ModifyResponse: func(resp *http.Response) error {
			if resp.Request.URL.Query().Get("watch") != "" && strings.HasSuffix(resp.Request.URL.Path, "/kopfexamples") {
				resp.Body = &lateBody{ReadCloser: resp.Body, lines: bufio.NewReader(resp.Body), lag: lag}
			}
			return nil
		},
	})
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// lateBody delays each line of a stream, one after another.
type lateBody struct {
	io.ReadCloser
	lines *bufio.Reader
	lag   time.Duration
	rest  []byte // of the current line
}

// Read returns as much of the next line as fits.
func (b *lateBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		line, err := b.lines.ReadBytes('\n')
		if len(line) == 0 {
			return 0, err
		}
		time.Sleep(b.lag) // the delay of an event
		b.rest = line
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// admit creates a namespace with an object, a peering object, and a service account with these permissions, and returns a token of that account.
func admit(t *testing.T, c *cluster.Cluster, namespace string, rights []right) string {
	t.Helper()
	client, err := kopf.NewClient(c.ConnectionInfo(), nil)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(apiVersion, kind, name string, object map[string]any) {
		t.Helper()
		metadata := map[string]any{"name": name}
		if kind != "Namespace" && !strings.HasPrefix(kind, "Cluster") {
			metadata["namespace"] = namespace
		}
		object["apiVersion"], object["kind"], object["metadata"] = apiVersion, kind, metadata
		if err := client.Apply(t.Context(), object, &kopf.WriteOptions{FieldManager: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	apply("v1", "Namespace", namespace, map[string]any{})
	apply("v1", "ServiceAccount", "operator", map[string]any{})
	apply("kopf.dev/v1", "KopfPeering", "default", map[string]any{})
	apply("kopf.dev/v1", "KopfExample", "a", map[string]any{"spec": map[string]any{"duration": "1m"}})
	rules := map[string][]any{}
	for _, r := range rights {
		rules[r.Kind] = append(rules[r.Kind], map[string]any{"apiGroups": []any{r.Group}, "resources": []any{r.Resource}, "verbs": []any{r.Verb}})
	}
	const group = "rbac.authorization.k8s.io"
	for kind, rules := range rules {
		apply(group+"/v1", kind, namespace, map[string]any{"rules": rules})
		apply(group+"/v1", kind+"Binding", namespace, map[string]any{
			"roleRef":  map[string]any{"apiGroup": group, "kind": kind, "name": namespace},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "operator", "namespace": namespace}},
		})
	}
	request := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": "operator", "namespace": namespace}}
	of := &kopf.WriteOptions{Subresource: "token", Of: kopf.ObjectReference{APIVersion: "v1", Kind: "ServiceAccount"}}
	if err := client.Create(t.Context(), request, of); err != nil {
		t.Fatal(err)
	}
	return request["status"].(map[string]any)["token"].(string)
}
