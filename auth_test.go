package kopf

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/connection"
	"github.com/kopf-go/kopf/internal/kubeconfig"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// nowhere removes all sources of credentials.
func nowhere(t *testing.T) (home string) {
	home = t.TempDir()
	for _, name := range []string{"HOME", "USERPROFILE"} {
		t.Setenv(name, home)
	}
	for _, name := range []string{"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
		t.Setenv(name, "")
	}
	return home
}

// write writes a file and its parent folders, and returns its path.
func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// simple is a kubeconfig with one cluster, user and context.
const simple = `
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: c, user: u, namespace: ns}}
- {name: other, context: {cluster: c2, user: ""}}
clusters:
- name: c
  cluster: {server: "https://one:6443/prefix"}
- name: c2
  cluster: {server: "https://two"}
users:
- name: u
  user: {token: t1}
`

func TestLoginWithKubeconfig(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string // below the folder D, which also stands for its path in all texts
		env   string            // KUBECONFIG, with ":" between the files
		login Login
		want  *ConnectionInfo
		err   string
	}{
		{name: "AC-78 nothing"},
		{name: "AC-78 the home folder", files: map[string]string{"home/.kube/config": simple},
			want: &ConnectionInfo{Server: "https://one:6443/prefix", Token: "t1", DefaultNamespace: "ns"}},
		{name: "AC-78 a blank variable", env: " : ", files: map[string]string{"home/.kube/config": simple},
			want: &ConnectionInfo{Server: "https://one:6443/prefix", Token: "t1", DefaultNamespace: "ns"}},
		{name: "AC-78 a tilde, blanks, and empty parts", env: ": ~/x :", files: map[string]string{"home/x": simple},
			want: &ConnectionInfo{Server: "https://one:6443/prefix", Token: "t1", DefaultNamespace: "ns"}},
		{name: "AC-79 several files", env: "D/a:D/b:D/c",
			files: map[string]string{
				"a": "contexts: [{name: x, context: {cluster: c, user: u}}]",
				"b": "current-context: x\nclusters: [{name: c, cluster: {server: https://first}}]\nusers: null",
				"c": "current-context: yy\nclusters: [{name: c, cluster: {server: https://second, insecure-skip-tls-verify: true}}]\n" +
					"users: [{name: u, user: {token: third}}]\ncontexts: [{name: x, context: {cluster: z, namespace: nn}}]",
			},
			want: &ConnectionInfo{Server: "https://first", Token: "third"}},
		{name: "AC-79 no current context", env: "D/a", files: map[string]string{"a": strings.Replace(simple, "current-context: one", "", 1)},
			err: "kubeconfig D/a: current-context is not set; there are the contexts one, other"},
		{name: "AC-80 the fields of the cluster and the user", env: "D/a", files: map[string]string{"a": kubeconfigOf(
			`{server: https://x, certificate-authority-data: Q0E=, insecure-skip-tls-verify: true, proxy-url: "http://p:1"}`,
			`{client-certificate-data: QQ==, client-key-data: Qg==, username: me, password: secret}`)},
			want: &ConnectionInfo{Server: "https://x", CAData: []byte("Q0E="), InsecureSkipTLSVerify: true, ProxyURL: "http://p:1",
				CertificateData: []byte("QQ=="), KeyData: "Qg==", Username: "me", Password: "secret"}},
		{name: "AC-80 an auth-provider", env: "D/a", files: map[string]string{"a": kubeconfigOf("{server: https://x}",
			"{auth-provider: {name: oidc, config: {access-token: static}}}")},
			want: &ConnectionInfo{Server: "https://x", Token: "static"}},
		{name: "AC-T21 a token file, impersonation, the name of the server", env: "D/a", files: map[string]string{"a": kubeconfigOf(
			"{server: https://x, tls-server-name: name}",
			`{tokenFile: tokens/t, as: boss, as-uid: "7", as-groups: [g, h], as-user-extra: {k: [v]}}`)},
			want: &ConnectionInfo{Server: "https://x", TLSServerName: "name", TokenFile: "D/tokens/t", ImpersonateUser: "boss",
				ImpersonateUID: "7", ImpersonateGroups: []string{"g", "h"}, ImpersonateExtra: map[string][]string{"k": {"v"}}}},
		{name: "AC-T21 another context, without a user", env: "D/a", files: map[string]string{"a": simple}, login: Login{KubeContext: "other"},
			want: &ConnectionInfo{Server: "https://two"}},
		{name: "AC-T21 a token beside a plugin", env: "D/a", files: map[string]string{"a": kubeconfigOf("{server: https://x}",
			"{token: t, exec: {apiVersion: client.authentication.k8s.io/v1, command: none}}")},
			want: &ConnectionInfo{Server: "https://x", Token: "t"}},
		{name: "AC-T22 relative to the folder of the file", env: "D/sub/a", files: map[string]string{"sub/a": kubeconfigOf(
			"{server: https://x, certificate-authority: ca.crt}", "{client-certificate: ../c.crt, client-key: '@DIR@/abs/c.key'}")},
			want: &ConnectionInfo{Server: "https://x", CAFile: "D/sub/ca.crt", CertificateFile: "D/c.crt", KeyFile: "D/abs/c.key"}},
		{name: "AC-T22 a tilde in the file", env: "D/a", files: map[string]string{"a": kubeconfigOf(
			"{server: https://x, certificate-authority: ~/ca.crt}", "{}")},
			want: &ConnectionInfo{Server: "https://x", CAFile: "D/home/ca.crt"}},
		{name: "AC-T22 data wins over files", env: "D/a", files: map[string]string{"a": kubeconfigOf(
			"{server: https://x, certificate-authority: ca.crt, certificate-authority-data: Q0E=}",
			"{client-certificate: c, client-certificate-data: QQ==, client-key: k, client-key-data: Qg==}")},
			want: &ConnectionInfo{Server: "https://x", CAData: []byte("Q0E="), CertificateData: []byte("QQ=="), KeyData: "Qg=="}},
		{name: "AC-T22 missing files are skipped", env: "D/none:D/a:D/none2", files: map[string]string{"a": simple},
			want: &ConnectionInfo{Server: "https://one:6443/prefix", Token: "t1", DefaultNamespace: "ns"}},
		{name: "AC-T22 all files are missing", env: "D/none"},
		{name: "AC-T22 the file of the login is missing", login: Login{Kubeconfig: "D/none"}, err: "kubeconfig: D/none does not exist"},
		{name: "AC-T22 null lists", env: "D/a", files: map[string]string{"a": "contexts: null\nclusters:\nusers: ~\ncurrent-context: x"},
			err: `kubeconfig D/a: the context "x" does not exist; there are no contexts`},
		{name: "AC-T22 an unknown context", env: "D/a:D/b", files: map[string]string{"a": simple, "b": ""}, login: Login{KubeContext: "z"},
			err: `kubeconfig D/a:D/b: the context "z" does not exist; there are the contexts one, other`},
		{name: "AC-T22 an unknown cluster", env: "D/a", files: map[string]string{"a": strings.Replace(simple, "name: c\n", "name: z\n", 1)},
			err: `kubeconfig D/a: the cluster "c" of the context "one" does not exist`},
		{name: "AC-T22 an unknown user", env: "D/a", files: map[string]string{"a": strings.Replace(simple, "name: u\n", "name: z\n", 1)},
			err: `kubeconfig D/a: the user "u" of the context "one" does not exist`},
		{name: "AC-T22 no address", env: "D/a", files: map[string]string{"a": kubeconfigOf("{}", "{}")},
			err: `kubeconfig D/a: the cluster "c" has no server`},
		{name: "AC-T22 an address without https", env: "D/a", files: map[string]string{"a": kubeconfigOf("{server: 'localhost:8080'}", "{}")},
			want: &ConnectionInfo{Server: "http://localhost:8080"}},
		{name: "AC-T26 a token and a password", env: "D/a", files: map[string]string{"a": kubeconfigOf("{server: https://x}", "{token: t, username: u, password: p}")},
			err: "kubeconfig D/a: a token and a username with a password exclude each other"},
		{name: "trust in the environment", env: "D/a", files: map[string]string{"a": kubeconfigOf("{server: https://x}", "{}")}, login: Login{TrustEnv: true},
			want: &ConnectionInfo{Server: "https://x", TrustEnv: true}},
		{name: "JSON", env: "D/a", files: map[string]string{"a": `{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":"https://x"}}]}`},
			want: &ConnectionInfo{Server: "https://x"}},
		{name: "broken YAML", env: "D/a", files: map[string]string{"a": "users:\n\t- x"},
			err: "kubeconfig D/a: line 2, column 1: a tab can't be used for indentation"},
		{name: "a wrong type", env: "D/a", files: map[string]string{"a": "users:\n- name: u\n  user: {token: 5}"},
			err: "kubeconfig D/a: users.user.token: string is expected, not number"},
		{name: "text", env: "D/a", files: map[string]string{"a": "hello"}, err: "kubeconfig D/a: an object is expected, not a string"},
		{name: "a folder", env: "D", err: "kubeconfig: read D: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			nowhere(t)
			dir := t.TempDir()
			place := func(s string) string {
				s = strings.ReplaceAll(s, "D", dir)
				return strings.ReplaceAll(s, ":", string(filepath.ListSeparator))
			}
			for name, text := range c.files {
				write(t, filepath.Join(dir, name), strings.ReplaceAll(text, "@DIR@", filepath.ToSlash(dir)))
			}
			t.Setenv("HOME", filepath.Join(dir, "home"))
			t.Setenv("USERPROFILE", filepath.Join(dir, "home"))
			t.Setenv("KUBECONFIG", place(c.env))
			c.login.Kubeconfig = place(c.login.Kubeconfig)
			info, err := LoginWithKubeconfig(t.Context(), &c.login)
			if c.err != "" {
				got := ""
				if err != nil {
					got = filepath.ToSlash(strings.ReplaceAll(err.Error(), dir, "D"))
					got = strings.ReplaceAll(got, string(filepath.ListSeparator), ":")
				}
				if !strings.HasPrefix(got, c.err) || !errors.As(err, new(*LoginError)) {
					t.Fatalf("got %v, error %q; want a LoginError %q", info, got, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.want != nil {
				c.want.Priority, c.want.KubeContext, c.want.User = connection.KubeconfigPriority, info.KubeContext, info.User // TestLoginNames checks these
				for _, file := range []*string{&c.want.CAFile, &c.want.CertificateFile, &c.want.KeyFile, &c.want.TokenFile} {
					*file = filepath.FromSlash(strings.ReplaceAll(*file, "D", dir))
				}
				info.KeyFile = filepath.FromSlash(info.KeyFile) // absolute paths stay unchanged
			}
			if diff := cmp.Diff(fieldsOf(c.want), fieldsOf(info)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// kubeconfigOf is a kubeconfig with one cluster and one user.
func kubeconfigOf(cluster, user string) string {
	return "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: " + cluster +
		"}]\nusers: [{name: u, user: " + user + "}]\n"
}

// fieldsOf returns a connection in a form that shows its secrets.
func fieldsOf(i *ConnectionInfo) any {
	if i == nil {
		return nil
	}
	type open ConnectionInfo
	return open(*i)
}

// TestExecPluginHelper is no test. It is the exec plugin of the tests below, which run it as a process.
func TestExecPluginHelper(t *testing.T) {
	mode := os.Getenv("KOPF_TEST_PLUGIN")
	if mode == "" {
		t.Skip("run by other tests")
	}
	var info kubeconfig.ExecCredential
	if err := json.Unmarshal([]byte(os.Getenv("KUBERNETES_EXEC_INFO")), &info); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	answer := map[string]any{"kind": "ExecCredential", "apiVersion": info.APIVersion}
	status := map[string]any{"token": "from-plugin"}
	switch mode {
	case "token":
		status["expirationTimestamp"] = "2030-01-02T03:04:05Z"
	case "expired":
		status["expirationTimestamp"] = "2001-01-02T03:04:05Z"
	case "certificate":
		status = map[string]any{"clientCertificateData": "CERT", "clientKeyData": "KEY"}
	case "half":
		status = map[string]any{"clientCertificateData": "CERT"}
	case "nothing":
		status = nil
	case "version":
		answer["apiVersion"] = "client.authentication.k8s.io/v1alpha1"
	case "text":
		fmt.Print("secret-text")
		os.Exit(0)
	case "flood":
		_, _ = os.Stdout.Write(bytes.Repeat([]byte(" "), kubeconfig.MaxPluginOutput+1))
		os.Exit(0)
	case "fail":
		fmt.Fprint(os.Stderr, "please log in first", strings.Repeat("!", 2*kubeconfig.MaxPluginErrors))
		os.Exit(7)
	case "hang":
		time.Sleep(time.Hour) // it is a process, which the test kills
	case "tell":
		input, _ := io.ReadAll(os.Stdin)
		request, _ := json.Marshal(map[string]any{"info": info.Spec, "stdin": len(input), "arg": os.Args[len(os.Args)-1]})
		status["token"] = base64.RawURLEncoding.EncodeToString(request)
	}
	answer["status"] = status
	_ = json.NewEncoder(os.Stdout).Encode(answer)
	os.Exit(0)
}

// pluginUser returns a user of a kubeconfig whose plugin is this test binary.
func pluginUser(t *testing.T, mode, more string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{exec: {command: %q, args: ['-test.run=^TestExecPluginHelper$', '--', last], env: [{name: KOPF_TEST_PLUGIN, value: %s}], %s}}",
		filepath.ToSlash(self), mode, more)
}

func TestExecPlugin(t *testing.T) {
	const v1, v1beta1 = "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never", "apiVersion: client.authentication.k8s.io/v1beta1"
	expiration := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name, mode, more, err string
		want                  ConnectionInfo
	}{
		{name: "AC-T21 a token that expires", mode: "token", more: v1, want: ConnectionInfo{Token: "from-plugin", Expiration: expiration}},
		{name: "DF-59 a token that seems to have expired", mode: "expired", more: v1, want: ConnectionInfo{Token: "from-plugin"}},
		{name: "AC-T21 v1beta1", mode: "plain", more: v1beta1, want: ConnectionInfo{Token: "from-plugin"}},
		{name: "AC-T21 a client certificate", mode: "certificate", more: v1, want: ConnectionInfo{CertificateData: []byte("CERT"), KeyData: "KEY"}},
		{name: "a certificate without its key", mode: "half", more: v1, err: "a client certificate without its key"},
		{name: "neither", mode: "nothing", more: v1, err: "its output has neither a token nor a client certificate"},
		{name: "the answer of another version", mode: "version", more: v1, err: `its output is "ExecCredential" of "client.authentication.k8s.io/v1alpha1"; an ExecCredential of "client.authentication.k8s.io/v1" is expected`},
		{name: "text", mode: "text", more: v1, err: "its output is not an ExecCredential in JSON"},
		{name: "too much", mode: "flood", more: v1, err: "more than 1048576 bytes of output"},
		{name: "a failure", mode: "fail", more: v1, err: "exit status 7: please log in first!!!"},
		{name: "another version", mode: "token", more: "apiVersion: client.authentication.k8s.io/v1alpha1", err: `the exec plugin has the apiVersion "client.authentication.k8s.io/v1alpha1"`},
		{name: "an unknown mode", mode: "token", more: "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Maybe", err: `interactiveMode is "Maybe"; Never, IfAvailable or Always is expected`},
	} {
		t.Run(c.name, func(t *testing.T) {
			nowhere(t)
			file := write(t, filepath.Join(t.TempDir(), "config"), kubeconfigOf("{server: https://x}", pluginUser(t, c.mode, c.more)))
			info, err := LoginWithKubeconfig(t.Context(), &Login{Kubeconfig: file})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), file) {
					t.Fatalf("got %v, error %v; want an error with %q and the file", info, err, c.err)
				}
				if strings.Contains(err.Error(), "secret-text") || len(err.Error()) > 2*kubeconfig.MaxPluginErrors {
					t.Errorf("the error tells too much: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c.want.Server, c.want.Priority, c.want.KubeContext, c.want.User = "https://x", connection.KubeconfigPriority, "x", "u"
			if diff := cmp.Diff(fieldsOf(&c.want), fieldsOf(info)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestExecPluginRequest(t *testing.T) {
	nowhere(t)
	dir := t.TempDir()
	ca := newAuthority(t)
	write(t, filepath.Join(dir, "ca.crt"), string(ca.pem()))
	cluster := "{server: https://x, certificate-authority: ca.crt, tls-server-name: name, proxy-url: 'http://p:1', " +
		"extensions: [{name: other, extension: 1}, {name: client.authentication.k8s.io/exec, extension: {audience: me}}]}"
	for _, c := range []struct{ name, more, want string }{
		{"with the cluster", "provideClusterInfo: true", fmt.Sprintf(`{"arg":"last","stdin":0,"info":{"interactive":false,"cluster":{"server":"https://x",
			"tls-server-name":"name","certificate-authority-data":%q,"proxy-url":"http://p:1","config":{"audience":"me"}}}}`, base64.StdEncoding.EncodeToString(ca.pem()))},
		{"without it", "provideClusterInfo: false", `{"arg":"last","stdin":0,"info":{"interactive":false}}`},
	} {
		t.Run("AC-T21 "+c.name, func(t *testing.T) {
			more := "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, " + c.more
			file := write(t, filepath.Join(dir, "config"), kubeconfigOf(cluster, pluginUser(t, "tell", more)))
			info, err := LoginWithKubeconfig(t.Context(), &Login{Kubeconfig: file})
			if err != nil {
				t.Fatal(err)
			}
			sent, err := base64.RawURLEncoding.DecodeString(string(info.Token))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := rawjson.Decode(sent)
			want, err := rawjson.Decode([]byte(c.want))
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v (-want +got)\n%s", err, diff)
			}
		})
	}
}

func TestExecPluginMissing(t *testing.T) {
	nowhere(t)
	dir := t.TempDir()
	for _, command := range []string{"no-such-plugin-anywhere", "./no-such-plugin"} {
		user := "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: " + command + ", installHint: 'get it from the shop'}}"
		file := write(t, filepath.Join(dir, "config"), kubeconfigOf("{server: https://x}", user))
		_, err := LoginWithKubeconfig(t.Context(), &Login{Kubeconfig: file})
		if err == nil || !strings.Contains(err.Error(), "\nget it from the shop") {
			t.Errorf("%s: got %v, want the hint how to install it", command, err)
		}
		if relative := strings.HasPrefix(command, "."); relative && !strings.Contains(fmt.Sprint(err), filepath.Join(dir, command)) {
			t.Errorf("got %v, want the path in the folder of the kubeconfig", err)
		}
	}
}

func TestExecPluginTimeout(t *testing.T) {
	nowhere(t)
	file := write(t, filepath.Join(t.TempDir(), "config"), kubeconfigOf("{server: https://x}",
		pluginUser(t, "hang", "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never")))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := LoginWithKubeconfig(ctx, &Login{Kubeconfig: file}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the end of the context", err)
	}
}

// TestRelogin breaks the files of a login for a while. The first login fails at once, and later
// ones are retried with growing delays.
func TestRelogin(t *testing.T) {
	config := kubeconfigOf("{server: https://x}", "{tokenFile: token}")
	for name, broken := range map[string]func(dir string){
		"DF-60 half a kubeconfig": func(dir string) { write(t, filepath.Join(dir, "config"), config[:len(config)/2]) },
		"DF-60 no kubeconfig":     func(dir string) { os.Remove(filepath.Join(dir, "config")) },
		"DF-60 no token":          func(dir string) { os.Remove(filepath.Join(dir, "token")) },
	} {
		t.Run(name, func(t *testing.T) {
			nowhere(t)
			dir := t.TempDir()
			write(t, filepath.Join(dir, "token"), "t")
			file := write(t, filepath.Join(dir, "config"), config)
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				op := &Operator{Registry: new(Registry), Kubeconfig: file, Logger: slog.New(slog.NewTextHandler(&log, nil))}
				r, err := op.prepare()
				if err != nil {
					t.Fatal(err)
				}
				broken(dir)
				if _, err := r.login(t.Context()); !errors.As(err, new(*LoginError)) {
					t.Errorf("the first login: got %v, want an error at once", err)
				}
				r.meter.Add(metrics.Logins, 1)
				time.AfterFunc(20*time.Second, func() {
					write(t, filepath.Join(dir, "token"), "t")
					write(t, file, config)
				})
				began := time.Now()
				found, err := r.login(t.Context())
				if took := time.Since(began); err != nil || len(found) != 1 || took != 31*time.Second {
					t.Errorf("got %v and the error %v after %s, want the credentials after 31 s", found, err, took)
				}
				if got := strings.Count(log.String(), "help=K923"); got != 5 {
					t.Errorf("there are %d warnings, want 5:\n%s", got, &log)
				}
				broken(dir)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if _, err := r.login(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the end of the context", err)
				}
			})
		})
	}
}

func TestLoginWithServiceAccount(t *testing.T) {
	nowhere(t)
	dir := t.TempDir()
	l := &Login{serviceAccountDir: dir, TrustEnv: true}
	login := func() *ConnectionInfo {
		t.Helper()
		info, err := LoginWithServiceAccount(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	t.Run("AC-77 no token", func(t *testing.T) {
		if info := login(); info != nil {
			t.Errorf("got %v, want nothing", info)
		}
	})
	token := write(t, filepath.Join(dir, "token"), "\n t1 \n")
	t.Run("AC-77 the files", func(t *testing.T) {
		want := &ConnectionInfo{Server: "https://kubernetes.default.svc", TokenFile: token, TrustEnv: true, Priority: connection.ServiceAccountPriority}
		if diff := cmp.Diff(fieldsOf(want), fieldsOf(login())); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		want.DefaultNamespace, want.CAFile = "ns", write(t, filepath.Join(dir, "ca.crt"), "CA")
		write(t, filepath.Join(dir, "namespace"), " ns\n")
		if diff := cmp.Diff(fieldsOf(want), fieldsOf(login())); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("AC-T25 the address of the environment", func(t *testing.T) {
		t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
		t.Setenv("KUBERNETES_SERVICE_PORT", "6443")
		if info := login(); info.Server != "https://[fd00::1]:6443" {
			t.Errorf("got %q", info.Server)
		}
	})
	t.Run("AC-77 an empty token", func(t *testing.T) {
		write(t, token, " ")
		_, err := LoginWithServiceAccount(t.Context(), l)
		if !errors.As(err, new(*LoginError)) || !strings.Contains(err.Error(), "the token file "+token+" is empty") {
			t.Errorf("got the error %v, want that the token is empty", err)
		}
	})
}

// TestConnectionInfoCopies checks that the operator's copy has all fields of a login's result.
func TestConnectionInfoCopies(t *testing.T) {
	given, used := reflect.TypeFor[ConnectionInfo](), reflect.TypeFor[connection.Info]()
	if given.NumField() != used.NumField() {
		t.Fatalf("there are %d fields, and %d are used", given.NumField(), used.NumField())
	}
	for i := range given.NumField() {
		a, b := given.Field(i), used.Field(i)
		if a.Name != b.Name || a.Type != b.Type && (a.Type != reflect.TypeFor[Secret]() || b.Type != reflect.TypeFor[string]()) {
			t.Errorf("the field %s is a %s, and as it is used, %s is a %s", a.Name, a.Type, b.Name, b.Type)
		}
	}
	info := &ConnectionInfo{
		Server: "https://x", CAData: []byte("ca"), Username: "u", Password: "p", Token: "t", KeyData: "k", Priority: 3, Expiration: time.Unix(1, 0),
		ImpersonateGroups: []string{"g"}, HTTPClient: &http.Client{}, KubeContext: "c", User: "me",
	}
	if diff := cmp.Diff(fieldsOf(info), fieldsOf(connectionInfo(info.info()))); diff != "" {
		t.Errorf("(-given +copied)\n%s", diff)
	}
}

// TestFailedLogin checks that each failure of a login is a [LoginError] with its cause.
func TestFailedLogin(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		info *connection.Info
		err  error
		want string
	}{
		"AC-T23 any error":         {nil, broken, "the login has failed: broken"},
		"AC-T23 one of a login":    {nil, fmt.Errorf("handler: %w", &LoginError{Message: "no files", Err: broken}), "handler: no files: broken"},
		"AC-69 nothing":            {nil, nil, "no credentials were given by the login handlers"},
		"AC-70 useless connection": {&connection.Info{}, nil, `the credentials of "login" can't be used: invalid server ""`},
	} {
		t.Run(name, func(t *testing.T) {
			client := newLoginClient(func(context.Context) (map[string]*connection.Info, error) {
				return map[string]*connection.Info{"login": c.info}, c.err
			}, NewSettings(), slog.New(slog.DiscardHandler))
			defer client.close()
			resp, err := client.HTTPClient().Get("https://x")
			if err == nil {
				resp.Body.Close()
			}
			_, infoErr := client.ConnectionInfo(t.Context())
			for _, err := range []error{err, infoErr, client.Get(t.Context(), podRef, &Body{}, nil)} {
				if !errors.As(err, new(*LoginError)) || !strings.Contains(err.Error(), c.want) || errors.Is(err, broken) != (c.err != nil) {
					t.Errorf("got the error %v, want a LoginError with %q and its cause", err, c.want)
				}
			}
		})
	}
}

func TestConnectionInfoKeepsSecrets(t *testing.T) {
	info := &ConnectionInfo{
		Server: "https://u:hunter2@x", Token: "hunter2", Password: "hunter2", Username: "me", KeyData: "hunter2", ProxyURL: "http://u:hunter2@p",
		CertificateData: []byte("hunter2"), TokenFile: "/f", ImpersonateUser: "boss", InsecureSkipTLSVerify: true,
	}
	var logged bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
		slog.New(h).Info("connected", "info", info, "value", *info, "infos", map[string]*ConnectionInfo{"a": info})
	}
	client, err := NewClient(&ConnectionInfo{Server: "https://x", Token: "hunter2"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.ConnectionInfo(t.Context()); err != nil { // it has the credentials from now on
		t.Fatal(err)
	}
	credential, err := client.credentials.Pick(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	holders := []any{info, *info, []any{info}, []ConnectionInfo{*info}, map[string]any{"info": *info}, &Operator{Connection: info}, Operator{Connection: info}, client, *credential, credential}
	for _, verb := range []string{"v", "+v", "#v", "s", "q", "d", "x", "X", "t", "e", "U", "T"} {
		for _, holder := range holders {
			fmt.Fprintf(&logged, "%"+verb, holder)
		}
	}
	for _, holder := range []any{info, *info, map[string]any{"info": *info}, []*ConnectionInfo{info}, struct{ Connection *ConnectionInfo }{info}} {
		data, err := json.Marshal(holder)
		if err != nil {
			t.Error(err)
		}
		logged.Write(data)
	}
	fmt.Fprint(&logged, ConnectionInfo{Server: "https://u:hunter2@x:no port"})
	text := logged.String()
	if strings.Contains(text, "hunter2") || strings.Contains(strings.ToLower(text), hex.EncodeToString([]byte("hunter2"))) {
		t.Errorf("a secret is told:\n%s", text)
	}
	if want := "{https://x, token, token file /f, user me, certificate, as boss, insecure}"; info.String() != want {
		t.Errorf("got %s, want %s", info, want)
	}
}

// TestLoginNames checks that the log can name the context and the user of a login.
func TestLoginNames(t *testing.T) {
	dir := nowhere(t)
	file := write(t, filepath.Join(dir, "config"), kubeconfigOf("{server: https://x}", "{token: t}"))
	info, err := LoginWithKubeconfig(t.Context(), &Login{Kubeconfig: file})
	if err != nil || info.KubeContext != "x" || info.info().UserName() != "u" {
		t.Fatalf("got the context %q and the user %q, error %v", info.KubeContext, info.info().UserName(), err)
	}
	info.Username = "basic"
	if got := info.info().UserName(); got != "basic" {
		t.Errorf("the API server knows the user as %q", got)
	}
	info.ImpersonateUser = "boss"
	if got := info.info().UserName(); got != "boss" {
		t.Errorf("the user acts as %q", got)
	}
}
