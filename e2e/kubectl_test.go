package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// kubectl runs the same commands on the real server and on the embedded one. Its output must be the same.

// step is a command. The input, if any, is its standard input, "-f -".
type step struct{ command, input string }

// session uses objects of a CRD, and the built-in kinds that operators use most.
var session = []step{
	{"create namespace other", ""},
	{"get namespace other", ""},
	{"apply -f ../examples/crd.yaml", ""},
	{"wait --for=condition=Established crd/kopfexamples.kopf.dev --timeout=30s", ""},
	{"get crd kopfexamples.kopf.dev", ""},
	{"get kopfexamples", ""},
	{"apply -f ../examples/obj.yaml", ""},
	{"apply -f ../examples/obj.yaml", ""},
	{"get kex", ""},
	{"get kopfexamples.v1.kopf.dev -o wide", ""},
	{"get kopfexample kopf-example-1 -o name", ""},
	{"get kopfexample kopf-example-1 -o yaml", ""},
	{"get kopfexample kopf-example-1 -o yaml --show-managed-fields", ""},
	{"get kex -A", ""},
	{"get kex --show-labels -L somelabel", ""},
	{"get kex -l somelabel=somevalue", ""},
	{"get kex -l somelabel!=somevalue", ""},
	{"get kex --field-selector metadata.name=kopf-example-1", ""},
	{"get kex --sort-by .metadata.name -o custom-columns=NAME:.metadata.name,DURATION:.spec.duration", ""},
	{"describe kex kopf-example-1", ""},
	{"label kex kopf-example-1 colour=red", ""},
	{"label kex kopf-example-1 colour=blue", ""},
	{"label kex kopf-example-1 colour=blue --overwrite", ""},
	{"label kex kopf-example-1 colour-", ""},
	{"annotate kex kopf-example-1 note=hello", ""},
	{"patch kex kopf-example-1 --type=merge -p {\"spec\":{\"duration\":\"5m\"}}", ""},
	{"patch kex kopf-example-1 --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/field\",\"value\":\"other\"}]", ""},
	{"patch kex kopf-example-1 -p {\"spec\":{}}", ""},
	{"patch kex kopf-example-1 --subresource=status --type=merge -p {\"status\":{\"create_fn\":{\"message\":\"patched\"}}}", ""},
	{"get kex", ""},
	{"diff -f ../examples/obj.yaml", ""},
	{"apply -f ../examples/obj.yaml", ""},
	{"apply --server-side -f ../examples/obj.yaml", ""},
	{"apply --server-side --force-conflicts -f ../examples/obj.yaml", ""},
	{"apply --server-side --field-manager=other -f -", `{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "kopf-example-1", "namespace": "default"}, "spec": {"duration": "9m"}}`},
	{"apply --dry-run=server -f -", `{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "dry", "namespace": "default"}}`},
	{"get kex dry", ""},
	{"create -f -", `{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "strict", "namespace": "default"}, "unknown": 1}`},
	{"create -f -", `{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "held", "namespace": "default", "finalizers": ["example.com/hold"]}}`},
	{"delete kex held --wait=false", ""},
	{"get kex held -o jsonpath={.metadata.finalizers}", ""},
	{"patch kex held --type=merge -p {\"metadata\":{\"finalizers\":null}}", ""},
	{"wait --for=delete kex/held --timeout=10s", ""},
	{"wait --for=jsonpath={.spec.field}=value kex/kopf-example-1 --timeout=10s", ""},
	{"get kex nothing", ""},
	{"get nothings", ""},
	{"delete kex nothing", ""},
	{"delete kex nothing --ignore-not-found", ""},
	{"explain kopfexamples", ""},
	{"explain kopfexamples.spec", ""},
	{"create configmap settings --from-literal=a=1 --from-literal=b=2", ""},
	{"get configmap settings", ""},
	{"describe configmap settings", ""},
	{"patch configmap settings -p {\"data\":{\"a\":null,\"c\":\"3\"}}", ""},
	{"get configmap settings -o jsonpath={.data}", ""},
	{"create secret generic hidden --from-literal=password=x", ""},
	{"get secret hidden", ""},
	{"describe secret hidden", ""},
	{"create serviceaccount robot", ""},
	{"get events", ""},
	{"get all -n other", ""},
	{"api-versions", ""},
	{"get --raw /readyz", ""},
	{"create -f -", `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two"}}]}`},
	{"get configmaps one two", ""},
	{"delete configmaps one two settings", ""},
	{"replace -f -", `{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "kopf-example-1", "namespace": "default"}, "spec": {"duration": "1h"}}`},
	{"edit kex kopf-example-1", ""},
	{"get kex kopf-example-1", ""},
	{"delete -f ../examples/obj.yaml", ""},
	{"delete kex --all", ""},
	{"delete crd kopfexamples.kopf.dev", ""},
	{"get kex", ""},
}

// knownOutputs are commands with intended differences of the output. The reasons are in docs/embedded-server.md.
var knownOutputs = map[string]string{
	"explain kopfexamples":        "The explanations of fields that all objects have use different words.",
	"explain configmap.immutable": "Descriptions have different words",
	"auth can-i --list":           "The server knows no users: all clients may do everything.",
	"create token sa":             "Tokens of service accounts are signed with a key that is not kept: no server accepts them.",
}

func TestKubectl(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, nil)
	needSameVersion(t, c)
	t.Run("objects", func(t *testing.T) { compareSessions(t, c, session) })
	t.Run("kinds", func(t *testing.T) { compareSessions(t, c, kindsSession) })
}

// compareSessions runs the same commands on the real server and on a new embedded one.
func compareSessions(t *testing.T, c *cluster.Cluster, steps []step) {
	served, err := kopf.NewAPIServer(nil).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "embedded.kubeconfig")
	if err := served.WriteKubeconfig(config); err != nil {
		t.Fatal(err)
	}
	for i, step := range steps {
		t.Run(fmt.Sprintf("%d %s", i, step.command), func(t *testing.T) {
			run := func(config, cache string) string {
				out, err := cluster.RunKubectl(c.KubectlPath(), config, filepath.Join(dir, cache), step.input, strings.Fields(step.command)...)
				if err != nil {
					out += fmt.Sprintf("%v\n", err)
				}
				return sameOutput(out)
			}
			want, got := run(c.Kubeconfig(), "real"), run(config, "embedded")
			if want != got {
				if reason := knownOutputs[step.command]; reason != "" {
					t.Skipf("known: %s", reason)
				}
				t.Errorf("kubectl %s (-real +embedded):\n%s", step.command, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
			}
		})
	}
}

var unlike = []struct {
	text *regexp.Regexp
	as   string
}{
	{uidText, "(uid)"},
	{timeText, "(time)"},
	{regexp.MustCompile(`(resourceVersion: |Resource Version: +)"?\d+"?`), "$1(version)"},
	{regexp.MustCompile(`(?m)\b(\d+[smh])+\b( *)$`), "(age)"},
	{regexp.MustCompile(`https?://127\.0\.0\.1:\d+`), "(server)"},
	{regexp.MustCompile(`(?m)^(diff |---|\+\+\+).*$`), ""},
	{regexp.MustCompile(`\S+/kubectl-edit\S*`), "(file)"},
	{regexp.MustCompile(` +`), " "},
}

// sameOutput removes the variable parts of an output.
func sameOutput(output string) string {
	for _, u := range unlike {
		output = u.text.ReplaceAllString(output, u.as)
	}
	return output
}

// editFile is the editor of "kubectl edit"; see TestMain.
func editFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(string(data), "duration: 1h", "duration: 2h")), 0o600)
}
