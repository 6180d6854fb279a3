package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// kubectlCommand is a command of testdata/kubectl.txt.
type kubectlCommand struct {
	step
	reason string // the reason why the outputs differ, "" if they do not
}

func readCommands(t *testing.T) []kubectlCommand {
	t.Helper()
	data, err := os.ReadFile("testdata/kubectl.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []kubectlCommand
	reason := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		input, isInput := strings.CutPrefix(line, "\t")
		why, isReason := strings.CutPrefix(line, "! ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case isInput:
			all[len(all)-1].input += input + "\n"
		case isReason:
			reason = why
		default:
			all = append(all, kubectlCommand{step{line, ""}, reason})
			reason = ""
		}
	}
	return all
}

// TestKubectlCommands compares the standard output and the error output of kubectl on both servers.
func TestKubectlCommands(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, nil)
	needSameVersion(t, c)
	served, err := kopf.NewAPIServer(&kopf.APIServerOptions{DisableGarbageCollector: true}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "memory.kubeconfig")
	if err := served.WriteKubeconfig(config); err != nil {
		t.Fatal(err)
	}
	same, commands := 0, readCommands(t)
	for i, command := range commands {
		var want, got string
		var group sync.WaitGroup
		group.Go(func() { want = kubectlOutput(c, c.Kubeconfig(), filepath.Join(dir, "real"), command.step) })
		group.Go(func() { got = kubectlOutput(c, config, filepath.Join(dir, "memory"), command.step) })
		group.Wait()
		switch {
		case want == got:
			same++
			if command.reason != "" {
				t.Errorf("%d kubectl %s: is the same now; remove the reason: %s", i, command.command, command.reason)
			}
		case command.reason == "":
			t.Errorf("%d kubectl %s (-real +in memory):\n%s", i, command.command, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
		}
	}
	t.Logf("%d of %d outputs are the same", same, len(commands))
}

var quotedArgument = regexp.MustCompile(`'[^']*'|[^\s']+`)

// arguments splits a command like a shell that supports only single quotes.
func arguments(command string) []string {
	var all []string
	for field := range strings.FieldsSeq(quotedArgument.ReplaceAllStringFunc(command, func(part string) string {
		return strings.ReplaceAll(strings.Trim(part, "'"), " ", "\x00")
	})) {
		all = append(all, strings.ReplaceAll(field, "\x00", " "))
	}
	return all
}

// kubectlOutput runs a command, and returns its output, without the variable parts.
func kubectlOutput(c *cluster.Cluster, kubeconfig, cache string, s step) string {
	cmd := exec.Command(c.KubectlPath(), append([]string{"--cache-dir=" + cache}, arguments(s.command)...)...)
	cmd.Env = []string{"KUBECONFIG=" + kubeconfig, "HOME=" + cache, "KUBECTL_KUBERC=false", "PATH=" + os.Getenv("PATH"),
		"EDITOR=" + os.Args[0], "KOPF_E2E_EDIT=yes"}
	cmd.Stdin = strings.NewReader(s.input)
	cmd.SysProcAttr = cluster.EndsWithParent()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(&stderr, "%v\n", err)
	}
	out := sameOutput(stdout.String() + stderr.String())
	for _, u := range unlikeAnywhere {
		out = u.text.ReplaceAllString(out, u.as)
	}
	return out
}

// unlikeAnywhere are other differences in the outputs of these commands.
var unlikeAnywhere = []struct {
	text *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\b10\.\d+\.\d+\.\d+\b`), "(address)"},
	{regexp.MustCompile(`\b(\d+[smhd])+( ago)?\b`), "(age)"},
	{regexp.MustCompile(`\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}\b`), "(time)"},
	{regexp.MustCompile(`eyJ[\w.-]+`), "(token)"},
	{regexp.MustCompile(`(?m)^[EWI]\d{4} \S+ +\d+ `), "(log) "},
	{regexp.MustCompile(`nodePort: 3\d{4}|"nodePort": 3\d{4}|:3\d{4}/`), "(node port)"},
	{regexp.MustCompile(`(NodePort: +\S+ +)\d+`), "$1(node port)"},
	{regexp.MustCompile(`"?resourceVersion"?: ?"\d+"`), "(version)"},
}
