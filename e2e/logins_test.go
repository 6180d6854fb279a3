package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// Operators with credentials that last only for seconds work under load, and miss nothing.

// account is a service account whose tokens can be revoked.
type account struct {
	c         *cluster.Cluster
	namespace string
	issued    atomic.Int64
}

func newAccount(t *testing.T, c *cluster.Cluster, namespace string) *account {
	t.Helper()
	for _, args := range [][]string{
		{"create", "namespace", namespace}, {"-n", namespace, "create", "serviceaccount", "operator"},
		{"create", "clusterrolebinding", namespace, "--clusterrole=cluster-admin", "--serviceaccount=" + namespace + ":operator"},
	} {
		if out, err := c.TryKubectl("", args...); err != nil {
			t.Fatal(out, err)
		}
	}
	return &account{c: c, namespace: namespace}
}

// token returns a new token, and the name of the secret that it depends on.
func (a *account) token(ctx context.Context) (token, secret string, err error) {
	secret = fmt.Sprint("holder-", a.issued.Add(1))
	path := "/api/v1/namespaces/" + a.namespace
	made, err := a.c.Request(ctx, http.MethodPost, path+"/secrets", fmt.Appendf(nil, `{"metadata":{"name":%q}}`, secret))
	if err != nil {
		return "", "", err
	}
	body, err := kopf.ParseBody(made)
	if err != nil {
		return "", "", err
	}
	request := fmt.Appendf(nil, `{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":%q,"uid":%q}}}`, secret, body.UID())
	answer, err := a.c.Request(ctx, http.MethodPost, path+"/serviceaccounts/operator/token", request)
	if err != nil {
		return "", "", err
	}
	given, err := kopf.ParseBody(answer)
	if err != nil {
		return "", "", err
	}
	return given.Status().String("token"), secret, nil
}

// revoke invalidates a token. The server refuses it when its cache has expired.
func (a *account) revoke(ctx context.Context, secret string) error {
	_, err := a.c.Request(ctx, http.MethodDelete, "/api/v1/namespaces/"+a.namespace+"/secrets/"+secret, nil)
	return err
}

// load writes to some objects for a while, and checks that an operator has handled each state of each of them.
type load struct {
	t         *testing.T
	client    *kopf.Client
	namespace string

	mu      sync.Mutex      // guards following
	seen    map[string]bool // the states in calls of the event handler
	handled map[string]int  // the last state in calls of the change handlers
}

func (l *load) registry() *kopf.Registry {
	r := &kopf.Registry{}
	r.OnEvent("configmaps", func(ctx context.Context, e *kopf.WatchEvent) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen[e.Name()+" "+e.Body.View("data").String("x")] = true
		return nil
	}, &kopf.EventOptions{ID: "event", Labels: kopf.Match{"load": "yes"}})
	change := func(ctx context.Context, ch *kopf.Change) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		n, err := strconv.Atoi(ch.Body.View("data").String("x"))
		l.handled[ch.Name()] = n
		return err
	}
	r.OnCreate("configmaps", change, &kopf.ChangeOptions{ID: "change", Labels: kopf.Match{"load": "yes"}})
	r.OnUpdate("configmaps", change, &kopf.ChangeOptions{ID: "change", Labels: kopf.Match{"load": "yes"}})
	return r
}

// run writes until enough returns true, every 10 ms.
func (l *load) run(enough func() bool) {
	l.t.Helper()
	const objects = 50
	wrote := map[string]int{}
	for n := 0; n < objects || !enough(); n++ {
		name := fmt.Sprint("load-", n%objects)
		wrote[name] = n
		data := map[string]any{"x": fmt.Sprint(n)}
		var err error
		if n < objects {
			err = l.client.Create(l.t.Context(), map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": name, "namespace": l.namespace, "labels": map[string]any{"load": "yes"}}, "data": data}, nil)
		} else {
			_, err = l.client.Patch(l.t.Context(), kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: l.namespace, Name: name}, map[string]any{"data": data}, nil)
		}
		if err != nil {
			l.t.Fatal(err)
		}
		if n > 20000 {
			l.t.Fatal("it does not end")
		}
		time.Sleep(10 * time.Millisecond) // the rate of the load
		if n >= objects && enough() {
			l.check(n, objects, wrote)
			return
		}
	}
}

func (l *load) check(last, objects int, wrote map[string]int) {
	l.t.Helper()
	l.t.Logf("%d writes", last+1)
	missing := func() (missing []string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for n := range last + 1 {
			if state := fmt.Sprintf("load-%d %d", n%objects, n); !l.seen[state] {
				missing = append(missing, state)
			}
		}
		for name, n := range wrote {
			if l.handled[name] != n {
				missing = append(missing, fmt.Sprintf("%s was last handled with %d, not %d", name, l.handled[name], n))
			}
		}
		return missing
	}
	// The loop polls the records of the handlers, for at most a minute.
	for late := time.Now().Add(time.Minute); len(missing()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(late) {
			l.t.Fatalf("not seen: %q", missing())
		}
	}
}

func TestLogins(t *testing.T) {
	t.Parallel()
	c := theCluster(t)
	begin := func(t *testing.T, namespace string) (*account, *load) {
		client, err := kopf.NewClient(c.ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return newAccount(t, c, namespace), &load{t: t, client: client, namespace: namespace, seen: map[string]bool{}, handled: map[string]int{}}
	}
	// bearer returns a connection to the server with a token instead of the certificate.
	bearer := func(token string) *kopf.ConnectionInfo {
		info := c.ConnectionInfo()
		return &kopf.ConnectionInfo{Server: info.Server, CAFile: info.CAFile, CAData: info.CAData, Token: kopf.Secret(token)}
	}
	// lasting tests a login whose credentials expire after a time: as announced, or unexpectedly.
	lasting := func(t *testing.T, namespace string, life time.Duration, announced bool, times int64) {
		a, l := begin(t, namespace)
		r := l.registry()
		var logins atomic.Int64
		r.OnLogin(func(ctx context.Context, _ *kopf.Login) (*kopf.ConnectionInfo, error) {
			token, secret, err := a.token(ctx)
			if err != nil {
				return nil, err
			}
			logins.Add(1)
			time.AfterFunc(life, func() { _ = a.revoke(context.WithoutCancel(ctx), secret) })
			info := bearer(token)
			if announced {
				info.Expiration = time.Now().Add(life)
			}
			return info, nil
		}, &kopf.ActivityOptions{ID: "login"})
		kopf.NewRunner(t, &kopf.Operator{Registry: r, Namespaces: []string{namespace}, Logger: slog.New(slog.DiscardHandler)}, nil)
		l.run(func() bool { return logins.Load() >= times })
	}
	t.Run("AC-67 credentials that last two seconds", func(t *testing.T) { lasting(t, "expiring", 2*time.Second, true, 6) })
	t.Run("AC-64 credentials that are refused without notice", func(t *testing.T) { lasting(t, "revoked", 2*time.Second, false, 3) })
	t.Run("AC-T21 a plugin whose tokens last two seconds", func(t *testing.T) {
		a, l := begin(t, "plugged")
		dir := t.TempDir()
		next := func() { // replaces the token of the plugin
			token, _, err := a.token(context.WithoutCancel(t.Context()))
			if err != nil {
				t.Error(err)
				return
			}
			answer, _ := json.Marshal(map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
				"status": map[string]any{"token": token, "expirationTimestamp": time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)}})
			if err := os.WriteFile(filepath.Join(dir, "next"), answer, 0o600); err != nil {
				t.Error(err)
			}
			if err := os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "answer")); err != nil {
				t.Error(err)
			}
		}
		info := c.ConnectionInfo()
		kubeconfig := filepath.Join(dir, "config")
		clusterOf := map[string]any{"server": info.Server}
		if info.CAFile != "" {
			clusterOf["certificate-authority"] = info.CAFile
		} else {
			clusterOf["certificate-authority-data"] = info.CAData
		}
		text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Config", "current-context": "c",
			"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u"}}},
			"clusters": []any{map[string]any{"name": "c", "cluster": clusterOf}},
			"users": []any{map[string]any{"name": "u", "user": map[string]any{"exec": map[string]any{
				"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never",
				"args": []any{"-c", "echo called >>$FOLDER/calls && cat $FOLDER/answer"},
				"env":  []any{map[string]any{"name": "FOLDER", "value": dir}},
			}}}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
			t.Fatal(err)
		}
		next()
		calls := func() int {
			data, _ := os.ReadFile(filepath.Join(dir, "calls"))
			return len(data) / len("called\n")
		}
		stop := make(chan struct{})
		var renewing sync.WaitGroup
		renewing.Go(func() {
			for tick := time.NewTicker(time.Second); ; {
				select {
				case <-tick.C:
					next()
				case <-stop:
					return
				}
			}
		})
		defer renewing.Wait()
		defer close(stop)
		kopf.NewRunner(t, &kopf.Operator{Registry: l.registry(), Kubeconfig: kubeconfig, Namespaces: []string{"plugged"}, Logger: slog.New(slog.DiscardHandler)}, nil)
		l.run(func() bool { return calls() >= 6 })
	})
}
