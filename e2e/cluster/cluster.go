// Package cluster runs a real Kubernetes control plane on loopback, from one binary that it builds itself: etcd, kube-apiserver with RBAC, and optionally
// kube-controller-manager. There are no nodes, so pods stay pending.
package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kopf-go/kopf"
)

// Options configure a cluster. The zero value is an API server with its etcd.
type Options struct {
	// Controllers are the names of the controllers that kube-controller-manager runs, such as "namespace-controller". Without names, it is not started.
	Controllers []string
	// ServiceAccounts gives pods the service accounts of their namespaces, which the controller of that name creates.
	ServiceAccounts bool
	// APIServerArgs are appended to the command line of kube-apiserver.
	APIServerArgs []string
	// Log gets progress messages. Default: none.
	Log io.Writer
}

// UsualControllers are the controllers that remove deleted namespaces and the dependents of deleted objects, and create service accounts.
var UsualControllers = []string{"namespace-controller", "garbage-collector-controller", "serviceaccount-controller"}

// Cluster is a running control plane. It belongs to the process that started it and ends with it.
type Cluster struct {
	// Dir is the temporary folder with the data, the certificates and the logs.
	Dir string

	opts       Options
	bin        string // the folder with the links to the binary
	url, etcd  string
	ca         *Authority
	admin      *http.Client
	kubeconfig string
	programs   map[Program]*process
}

// Program is the name of one program of a cluster.
type Program string

// The programs of a cluster.
const (
	Etcd              Program = "etcd"
	APIServer         Program = "kube-apiserver"
	ControllerManager Program = "kube-controller-manager"
)

// startingTime is more than the start takes on a loaded machine with two cores.
const startingTime = 2 * time.Minute

// Start builds the binary if it is missing, starts the programs, and waits until the API server is ready. The caller must call [Cluster.Stop].
func Start(ctx context.Context, opts *Options) (*Cluster, error) {
	c := &Cluster{programs: map[Program]*process{}}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.Log == nil {
		c.opts.Log = io.Discard
	}
	var err error
	if c.bin, err = Binaries(ctx, c.opts.Log); err != nil {
		return nil, err
	}
	if c.Dir, err = os.MkdirTemp("", "kopf-cluster-"); err != nil {
		return nil, err
	}
	if err := c.prepare(); err != nil {
		c.Stop()
		return nil, err
	}
	for _, p := range []Program{Etcd, APIServer, ControllerManager} {
		if c.programs[p] == nil {
			continue
		}
		if err := c.Launch(ctx, p); err != nil {
			err = fmt.Errorf("%w\n%s", err, c.Logs())
			c.Stop()
			return nil, err
		}
	}
	return c, nil
}

// prepare creates the certificates and the command lines, which stay the same across restarts.
func (c *Cluster) prepare() error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	if c.ca, err = NewAuthority(); err != nil {
		return err
	}
	server, err := c.ca.Issue("kube-apiserver", nil, true, validity)
	if err != nil {
		return err
	}
	admin, err := c.ca.Issue("admin", []string{"system:masters"}, false, validity)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"ca.crt": c.ca.certPEM, "server.crt": server.Cert, "server.key": server.Key,
		"tokens.csv": []byte(AdminToken + ",token-admin,token-admin,system:masters\n"),
	}
	for name, content := range files {
		if err := os.WriteFile(c.path(name), content, 0o600); err != nil {
			return err
		}
	}
	c.url = "https://127.0.0.1:" + ports[2]
	c.admin = admin.httpClient(c.ca)
	c.kubeconfig = c.path("admin.kubeconfig")
	if err := os.WriteFile(c.kubeconfig, admin.kubeconfig(c.url, c.ca), 0o600); err != nil {
		return err
	}
	c.describePrograms(ports)
	return nil
}

func (c *Cluster) describePrograms(ports []string) {
	etcd, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	c.etcd = etcd
	c.add(Etcd,
		"--name=kopf", "--data-dir="+c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=kopf="+peer)
	args := []string{
		"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + ports[2],
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged",
		"--tls-cert-file=" + c.path("server.crt"), "--tls-private-key-file=" + c.path("server.key"),
		"--client-ca-file=" + c.path("ca.crt"), "--token-auth-file=" + c.path("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("server.crt"), "--service-account-signing-key-file=" + c.path("server.key"),
		"--shutdown-delay-duration=0s",
	}
	if !c.opts.ServiceAccounts {
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	c.add(APIServer, append(args, c.opts.APIServerArgs...)...)
	if len(c.opts.Controllers) > 0 {
		c.add(ControllerManager,
			"--kubeconfig="+c.kubeconfig, "--controllers="+strings.Join(c.opts.Controllers, ","),
			"--leader-elect=false", "--secure-port=0", "--bind-address=127.0.0.1",
			"--service-account-private-key-file="+c.path("server.key"), "--root-ca-file="+c.path("ca.crt"))
	}
}

func (c *Cluster) add(p Program, args ...string) {
	c.programs[p] = &process{path: filepath.Join(c.bin, executable(string(p))), args: args, dir: c.Dir, log: c.path(string(p) + ".log")}
}

func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

// Launch starts a program that is not running, and waits until it is ready.
func (c *Cluster) Launch(ctx context.Context, p Program) error {
	process, ok := c.programs[p]
	if !ok {
		return fmt.Errorf("the cluster has no %s", p)
	}
	began := time.Now()
	if err := process.start(); err != nil {
		return err
	}
	ready := map[Program]func(context.Context) error{Etcd: c.etcdReady, APIServer: c.apiServerReady}[p]
	if ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startingTime)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			fmt.Fprintf(c.opts.Log, "%s is ready after %s\n", p, time.Since(began).Round(time.Millisecond))
			return nil
		}
		select {
		case <-process.done:
			return fmt.Errorf("%s ended while it was starting: %v", p, process.state())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: %w", p, time.Since(began).Round(time.Second), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *Cluster) etcdReady(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(c.etcd, "http://"))
	if err != nil {
		return err
	}
	return conn.Close()
}

// apiServerReady also waits for the default namespace, which the server creates after it reports that it is ready.
func (c *Cluster) apiServerReady(ctx context.Context) error {
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
		if _, err := c.Request(ctx, http.MethodGet, path, nil); err != nil {
			return err
		}
	}
	return nil
}

// Kill ends a program by force, like kill -9, and waits for its end.
func (c *Cluster) Kill(p Program) { c.programs[p].kill() }

// Restart shuts a program down and starts it again. It kills the program if the shutdown takes too long, and returns when the new one is ready.
func (c *Cluster) Restart(ctx context.Context, p Program) error {
	c.programs[p].terminate(3 * time.Second)
	return c.Launch(ctx, p)
}

// Stop ends all programs and removes all their files except the binary.
func (c *Cluster) Stop() {
	for _, p := range []Program{ControllerManager, APIServer, Etcd} {
		if process := c.programs[p]; process != nil {
			process.kill()
		}
	}
	if c.admin != nil {
		c.admin.CloseIdleConnections()
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		fmt.Fprintln(c.opts.Log, err)
	}
}

// URL returns the address of the API server.
func (c *Cluster) URL() string { return c.url }

// CA returns the certificate of the authority, in PEM.
func (c *Cluster) CA() []byte { return bytes.Clone(c.ca.certPEM) }

// Authority returns the certificate authority of the cluster.
func (c *Cluster) Authority() *Authority { return c.ca }

// EtcdURL returns the address of etcd.
func (c *Cluster) EtcdURL() string { return c.etcd }

// Running reports whether a program runs.
func (c *Cluster) Running(p Program) bool { return c.programs[p].running() }

// ProcessID returns the process ID of a running program.
func (c *Cluster) ProcessID(p Program) int { return c.programs[p].cmd.Process.Pid }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// HTTPClient returns the administrator's client.
func (c *Cluster) HTTPClient() *http.Client { return c.admin }

// AdminToken is the administrator's bearer token.
const AdminToken = "the-token-of-the-administrator"

// ConnectionInfo returns the administrator's connection.
func (c *Cluster) ConnectionInfo() *kopf.ConnectionInfo {
	return &kopf.ConnectionInfo{Server: c.url, CAData: c.CA(), Token: AdminToken}
}

// StatusError is an unsuccessful response of the API server.
type StatusError struct {
	Code int
	Body []byte
}

// Error returns the code and the body.
func (e *StatusError) Error() string {
	return fmt.Sprintf("status %d: %s", e.Code, bytes.TrimSpace(e.Body))
}

// Request sends a request as the administrator, with a JSON body if it is not nil. It returns the body of the response, or a [StatusError].
func (c *Cluster) Request(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.admin.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		return nil, &StatusError{Code: resp.StatusCode, Body: data}
	}
	return data, nil
}

// Create sends an object to the path of its collection. The test fails if the server refuses it.
func (c *Cluster) Create(t T, path string, object map[string]any) {
	t.Helper()
	data, err := json.Marshal(object)
	if err == nil {
		_, err = c.Request(context.Background(), http.MethodPost, path, data)
	}
	if err != nil {
		t.Fatalf("creating an object at %s: %v", path, err)
	}
}

// Logs returns the last lines of the logs of all programs.
func (c *Cluster) Logs() string {
	var all strings.Builder
	for _, p := range []Program{Etcd, APIServer, ControllerManager} {
		if process := c.programs[p]; process != nil {
			fmt.Fprintf(&all, "--- the end of the log of %s\n%s", p, process.tail(30))
		}
	}
	return all.String()
}

// freePorts returns ports that are free now. It opens all of them at once, so that they differ.
func freePorts(n int) ([]string, error) {
	var ports []string
	var errs []error
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { errs = append(errs, listener.Close()) }()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		errs = append(errs, err)
		ports = append(ports, port)
	}
	return ports, errors.Join(errs...)
}
