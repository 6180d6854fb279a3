package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInstallOptions(t *testing.T) {
	t.Run("TD-37 the options", func(t *testing.T) {
		call, err := parse(t, "manifests -n a -n b -n a --name web --install-namespace ops --image example.com/web:1 --replicas 3 --leader-elect l -P p --webhook-configuration x.example.com --webhook-port 1 "+
			"--service-monitor --discover --kubeconfig f --context c --format HELM --chart-version 1.0.0-rc.1 --out dir --no-descriptions --check", map[string]string{"KOPF_MANIFESTS_NAMESPACES": "z", "KOPF_RUN_NAMESPACE": "z"})
		if err != nil {
			t.Fatal(err)
		}
		want := Options{Namespaces: []string{"a", "b"}, LeaderElect: "l", Peering: "p", Kubeconfig: "f", Context: "c"}
		install := &InstallOptions{
			Name: "web", Home: "ops", Image: "example.com/web:1", Replicas: 3, WebhookConfiguration: "x.example.com", WebhookPort: 1, Monitoring: true, Discover: true, Format: "helm", ChartVersion: "1.0.0-rc.1", Out: "dir", NoDescriptions: true, Check: true,
		}
		if diff := cmp.Diff(install, call.Install()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if diff := cmp.Diff(want, call.Options); diff != "" || call.Command != "manifests" {
			t.Errorf("got the command %s, (-want +got)\n%s", call.Command, diff)
		}
	})
	t.Run("TD-37 kinds", func(t *testing.T) {
		call, err := parse(t, "manifests --only Role,rolebindings --only deployment", nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"Role", "rolebindings", "deployment"}, call.Install().Only); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("definitions", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "crd.yaml")
		if err := os.WriteFile(path, []byte("kind: X"), 0o600); err != nil {
			t.Fatal(err)
		}
		call, err := parse(t, "explain-rights --definitions "+path, nil)
		if err != nil || len(call.Manifests) != 1 || call.Manifests[0].Path != path {
			t.Errorf("got %+v, %v", call, err)
		}
		if _, err := parse(t, "manifests --definitions "+path+".no", nil); err == nil || !strings.Contains(err.Error(), "--definitions: ") {
			t.Errorf("got %v", err)
		}
	})
	for args, want := range map[string]string{
		"manifests --format yml":                      `invalid value "yml" for --format: want yaml, kustomize or helm`,
		"manifests --format helm":                     "--format helm makes several files: it needs --out DIR",
		"manifests --format kustomize":                "--format kustomize makes several files: it needs --out DIR",
		"manifests --check":                           "--check compares a folder: it needs --out DIR",
		"manifests --name A":                          `invalid value "A" for --name: want at most 50 lower-case letters, digits and '-'`,
		"manifests --name 1web":                       `invalid value "1web" for --name: want at most 50 lower-case letters, digits and '-', of which the first one is a letter`,
		"manifests --name contract.test":              `invalid value "contract.test" for --name: want at most`,
		"manifests --install-namespace a.b":           `invalid value "a.b" for --install-namespace: want the name of a namespace: at most 63 lower-case`,
		"manifests --replicas -1":                     `invalid value "-1" for --replicas: want 1 to 100`,
		"explain-rights --replicas 0":                 `invalid value "0" for --replicas: want 1 to 100`,
		"manifests --replicas two":                    `invalid value "two" for --replicas: want 1 to 100`,
		"manifests --webhook-port 70000":              `invalid value "70000" for --webhook-port: want 1 to 65535`,
		"manifests --webhook-port 0":                  `invalid value "0" for --webhook-port: want 1 to 65535`,
		"manifests --out=":                            `invalid value "" for --out: want a folder`,
		"manifests --image=":                          `invalid value "" for --image: want an image, such as example.com/operator:1`,
		"manifests --image=a$b":                       `invalid value "a$b" for --image: want an image`,
		"manifests --webhook-configuration web":       `invalid value "web" for --webhook-configuration: want a name with a dot`,
		"manifests --webhook-configuration Web.x":     `invalid value "Web.x" for --webhook-configuration: want a name with a dot`,
		"manifests --only Role,Pod":                   `invalid value "Role,Pod" for --only: want one of CustomResourceDefinition, ServiceAccount, Role, `,
		"manifests --chart-version 1.0":               `invalid value "1.0" for --chart-version: want a semantic version, such as 1.2.3`,
		"manifests --chart-version 1.2.3":             "--chart-version is for a chart: it needs --format helm",
		"manifests -n web_*":                          `invalid value "web_*" for -n, --namespace: invalid namespace "web_*": want a name of at most 63 lower-case letters, digits and "-", or a glob`,
		"run -n web_*":                                `invalid value "web_*" for -n, --namespace: invalid namespace "web_*"`,
		"manifests --only Role,,b":                    `invalid value "Role,,b" for --only: want kinds with commas between them`,
		"manifests --format helm --out x --only Role": "a chart has all objects: --only does not go together with --format helm",
		"manifests -A -n x":                           `-A, --all-namespaces and the namespaces ["x"] exclude each other: use one of them`,
		"explain-rights --out x":                      `unknown flag "--out"`,
		"manifests --verbose":                         `unknown flag "--verbose"`,
		"manifests x":                                 `unexpected argument "x": handlers are compiled in, and manifests takes flags only`,
	} {
		t.Run(args, func(t *testing.T) {
			call, err := parse(t, args, nil)
			if err == nil || !strings.HasPrefix(err.Error(), "myoperator: "+want) {
				t.Errorf("got %+v and %v, want %s", call, err, want)
			}
		})
	}
}
