package kopf

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/cli"
)

// TestBuilds checks the build tag noembed: no embedded server in the binary or in the help, and a refusal that names the tag.
func TestBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	with, without := shipped(t), shipped(t, "-tags=noembed")

	t.Run("the server is linked only if it can be reached", func(t *testing.T) {
		for program, want := range map[string]bool{with: true, without: false} {
			data, err := os.ReadFile(program)
			if err != nil {
				t.Fatal(err)
			}
			// Binaries without symbols still contain the names of functions, for the stacks of panics.
			linked := bytes.Contains(data, []byte("kopf-go/kopf.(*APIServer).")) || bytes.Contains(data, []byte("kopf-go/kopf/internal/apiserver.(*Server)."))
			if linked != want {
				t.Errorf("%s: methods of the API server are linked: %t, want %t", program, linked, want)
			}
		}
	})
	t.Run("what runs handlers is linked only with them", func(t *testing.T) {
		data, err := os.ReadFile(without)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{".(*cycle).": true, ".(*reviewServer).": false, ".(*daemons).": false, ".(*indexer).": false, "/internal/kstatus.": false, "/internal/structschema.": false, "/internal/definition.": false} {
			if linked := bytes.Contains(data, []byte("kopf-go/kopf"+name)); linked != want {
				t.Errorf("an operator with a handler of creations alone has the functions %s: %t, want %t", name, linked, want)
			}
		}
	})
	t.Run("the options are refused", func(t *testing.T) {
		for _, tt := range []struct{ args, variable string }{
			{args: "run --embedded"},
			{args: "--embedded --apply nope.yaml --listen 127.0.0.1:0"},
			{args: "run --apply nope.yaml"},
			{args: "run --listen 127.0.0.1:0"},
			{args: "run --embedded --context nope"},
			{args: "run", variable: "KOPF_RUN_EMBEDDED=yes"},
		} {
			code, stdout, stderr := executed(t, without, tt.variable, strings.Fields(tt.args)...)
			want := "operator: this operator was built with the tag noembed, which leaves out the embedded API server: " +
				"build it without the tag, or run it on a cluster, without --embedded, --listen and --apply\n"
			if code != cli.ExitUsage || stdout != "" || stderr != want {
				t.Errorf("%s %s: got the exit code %d, %q and %q, want %d and %q", tt.variable, tt.args, code, stdout, stderr, cli.ExitUsage, want)
			}
		}
	})
	t.Run("DF-78 the commands are there without the server", func(t *testing.T) {
		definition, err := filepath.Abs("examples/crd.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for args, want := range map[string]string{
			"manifests --name web --only ServiceAccount --definitions " + definition: "kind: ServiceAccount",
			"explain-rights --name web --definitions " + definition:                  "kopfexamples",
			"explain --file " + example(t):                                           "the handlers for the creation are called",
		} {
			code, stdout, stderr := executed(t, without, "", strings.Fields(args)...)
			if code != 0 || !strings.Contains(stdout, want) {
				t.Errorf("%s: got the exit code %d and %q, want %q in it: %s", args, code, stdout, want, stderr)
			}
			_, same, _ := executed(t, with, "", strings.Fields(args)...)
			if stdout != same {
				t.Errorf("%s: got %q, and %q with the server", args, stdout, same)
			}
		}
		if code, _, stderr := executed(t, without, "", "status"); code != 1 || !strings.Contains(stderr, "no login") {
			t.Errorf("status: got the exit code %d: %s", code, stderr)
		}
	})
	t.Run("the options are not offered", func(t *testing.T) {
		for _, args := range []string{"help run", "help", "__complete run --"} {
			for program, want := range map[string]bool{with: true, without: false} {
				code, stdout, stderr := executed(t, program, "", strings.Fields(args)...)
				for _, option := range []string{"--embedded", "--listen", "--apply"} {
					offered := strings.Contains(stdout, option)
					if code != 0 || offered && !want || !offered && want && !(args == "help" && option == "--listen") {
						t.Errorf("%s %s: got the exit code %d and %q, want %s in it: %t\n%s", program, args, code, stdout, option, want, stderr)
					}
				}
			}
		}
	})
}

// shipped builds an operator as the deployment pages do, and returns the path of the program. It does so without -trimpath,
// which would compile the standard library once more.
func shipped(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "operator.exe") // Windows needs the extension, which is not in the program's name
	args = slices.Concat([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", path}, args, []string{"./examples/01-minimal"})
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// example writes an object to a file, and returns its path.
func example(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "example.yaml")
	object := "{apiVersion: kopf.dev/v1, kind: KopfExample, metadata: {name: a, namespace: default}}"
	if err := os.WriteFile(path, []byte(object), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// executed runs a program to its end, without access to a cluster.
func executed(t *testing.T, program, variable string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(cmd.Dir, "none"), variable)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}
