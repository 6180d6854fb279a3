package connection

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf/internal/embedded"
	"github.com/kopf-go/kopf/internal/kubeconfig"
)

// nowhere hides all credentials of the machine.
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

// write writes a file and creates its folders. It returns the path.
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

// simple is a kubeconfig with one entry of each kind.
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

// kubeconfigOf returns a kubeconfig with one cluster and one user.
func kubeconfigOf(cluster, user string) string {
	return "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: " + cluster +
		"}]\nusers: [{name: u, user: " + user + "}]\n"
}

func TestDefaultLogin(t *testing.T) {
	home := nowhere(t)
	dir := t.TempDir()
	l := &Options{ServiceAccountDir: dir, Log: slog.New(slog.DiscardHandler)}
	token := filepath.Join(dir, "token")
	t.Run("AC-61 nothing found", func(t *testing.T) {
		_, err := DefaultLogin(t.Context(), l)
		want := fmt.Sprintf("no login: KUBECONFIG is not set, %s does not exist, %s does not exist: pass --kubeconfig, or try run --embedded", filepath.Join(home, ".kube", "config"), token)
		if !embedded.Included {
			want = strings.TrimSuffix(want, ", or try run --embedded")
		}
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		wantError(t, err, "no login")
	})
	t.Run("AC-61 nothing found in a list", func(t *testing.T) {
		t.Setenv("KUBECONFIG", "/none/a"+string(filepath.ListSeparator)+"/none/b")
		_, err := DefaultLogin(t.Context(), l)
		wantError(t, err, "no login: /none/a does not exist, /none/b does not exist, "+token+" does not exist")
	})
	t.Run("AC-61 no home folder", func(t *testing.T) {
		for _, name := range []string{"HOME", "USERPROFILE", "home"} {
			t.Setenv(name, "")
		}
		_, err := DefaultLogin(t.Context(), l)
		wantError(t, err, "no login: KUBECONFIG is not set, ~/.kube/config can't be looked for")
	})
	t.Run("AC-61 a broken kubeconfig", func(t *testing.T) {
		file := write(t, filepath.Join(dir, "config"), simple)
		t.Setenv("KUBECONFIG", file)
		_, err := DefaultLogin(t.Context(), &Options{ServiceAccountDir: dir, Log: slog.New(slog.DiscardHandler), KubeContext: "z"})
		wantError(t, err, "no login: kubeconfig "+file+`: the context "z" does not exist`)
	})
	t.Run("AC-61 a file that is named and missing appears once", func(t *testing.T) {
		_, err := DefaultLogin(t.Context(), &Options{ServiceAccountDir: dir, Log: slog.New(slog.DiscardHandler), Kubeconfig: "/none/a"})
		if want := "no login: kubeconfig: /none/a does not exist"; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	})
	t.Run("AC-61 all that apply, and errors of one are ignored", func(t *testing.T) {
		write(t, token, "t")
		t.Setenv("KUBECONFIG", write(t, filepath.Join(dir, "config"), simple))
		infos, err := DefaultLogin(t.Context(), l)
		if err != nil || len(infos) != 2 || infos[KubeconfigLogin].Priority != 10 || infos[ServiceAccountLogin].Priority != 20 {
			t.Errorf("got %v, error %v; want both with the priorities 10 and 20", infos, err)
		}
		infos, err = DefaultLogin(t.Context(), &Options{ServiceAccountDir: dir, Log: slog.New(slog.DiscardHandler), KubeContext: "z"})
		if err != nil || !slices.Equal(slices.Collect(maps.Keys(infos)), []string{ServiceAccountLogin}) {
			t.Errorf("got %v, error %v; want the service account alone", infos, err)
		}
	})
}

// TestPluginTimeout checks that a plugin that hangs fails the login in time.
func TestPluginTimeout(t *testing.T) {
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip("no such command")
	}
	nowhere(t)
	user := "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sleep, args: ['600']}}"
	file := write(t, filepath.Join(t.TempDir(), "config"), kubeconfigOf("{server: https://x}", user))
	o := &Options{Kubeconfig: file, Log: slog.New(slog.DiscardHandler), pluginTimeout: 100 * time.Millisecond}
	_, err := LoginWithKubeconfig(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), `the exec plugin "sleep": no answer in 100ms`) {
		t.Errorf("DF-60 got %v, want that there is no answer", err)
	}
	o.pluginTimeout = 0
	if o.pluginLimit(false) != time.Minute || o.pluginLimit(true) != 10*time.Minute {
		t.Errorf("the limits are %s and %s", o.pluginLimit(false), o.pluginLimit(true))
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(kubeconfigOf("{server: https://x}", "{token: t, username: u, password: p}")))
	f.Add([]byte(kubeconfigOf("{server: 'https://u:secret1@x', proxy-url: ftp://p}", "{auth-provider: {name: gcp, config: {access-token: a}}}")))
	f.Add([]byte(kubeconfigOf("{server: https://x, certificate-authority-data: QQ==}", "{client-certificate-data: '@', client-key-data: QQ==, as: boss, as-user-extra: {a: [b]}}")))
	f.Add([]byte(`{"current-context":"c","contexts":[{"name":"c","context":null}],"clusters":null,"users":[{}]}`))
	f.Add([]byte("contexts: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := kubeconfig.Parse(data)
		if err != nil {
			return
		}
		config.Resolve(t.TempDir())
		for _, user := range config.Users {
			if user.User.Exec != nil {
				return // an exec plugin could run any command
			}
		}
		for _, c := range config.Contexts {
			info, err := login(context.Background(), &Options{Log: slog.New(slog.DiscardHandler), KubeContext: c.Name}, config)
			if err == nil {
				err = info.Validate()
			}
			for _, user := range config.Users {
				secret := user.User.Password
				if err != nil && len(secret) > 6 && strings.Contains(err.Error(), secret) && !strings.Contains(c.Name+c.Context.Cluster+c.Context.User+user.Name, secret) {
					t.Errorf("the password %q is told: %v", secret, err)
				}
			}
		}
	})
}
