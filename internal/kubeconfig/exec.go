package kubeconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// ExecConfig is the configuration of an exec plugin, a command that returns credentials.
type ExecConfig struct {
	APIVersion string   `json:"apiVersion"`
	Command    string   `json:"command"`
	Args       []string `json:"args"`
	Env        []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	InstallHint        string `json:"installHint"`
	ProvideClusterInfo bool   `json:"provideClusterInfo"`
	InteractiveMode    string `json:"interactiveMode"`
}

// The versions of the exec protocol, and the cluster extension that is passed to plugins.
const (
	execGroup     = "client.authentication.k8s.io/"
	execExtension = execGroup + "exec"
)

// MaxPluginOutput and MaxPluginErrors limit the stored output of a plugin, in bytes.
const (
	MaxPluginOutput = 1 << 20
	MaxPluginErrors = 4 << 10
)

// ExecCredential is the input and the output of a plugin.
type ExecCredential struct {
	APIVersion string                `json:"apiVersion"`
	Kind       string                `json:"kind"`
	Spec       *execSpec             `json:"spec,omitempty"`
	Status     *ExecCredentialStatus `json:"status,omitempty"`
}

// execSpec is the input of a plugin.
type execSpec struct {
	Cluster     *ExecCluster `json:"cluster,omitempty"`
	Interactive bool         `json:"interactive"`
}

// ExecCluster is the cluster for the credentials.
type ExecCluster struct {
	Server        string          `json:"server"`
	TLSServerName string          `json:"tls-server-name,omitempty"`
	Insecure      bool            `json:"insecure-skip-tls-verify,omitempty"`
	CAData        string          `json:"certificate-authority-data,omitempty"`
	ProxyURL      string          `json:"proxy-url,omitempty"`
	Config        json.RawMessage `json:"config,omitempty"`
}

// ExecCredentialStatus holds the credentials from a plugin.
type ExecCredentialStatus struct {
	Expiration      *time.Time `json:"expirationTimestamp"`
	Token           string     `json:"token"`
	CertificateData string     `json:"clientCertificateData"`
	KeyData         string     `json:"clientKeyData"`
}

// Check validates the configuration of the plugin, and reports whether the plugin may prompt the user.
func (e *ExecConfig) Check() (interactive bool, err error) {
	if e.APIVersion != execGroup+"v1" && e.APIVersion != execGroup+"v1beta1" {
		return false, fmt.Errorf("the exec plugin has the apiVersion %q; %sv1 or v1beta1 is expected", e.APIVersion, execGroup)
	}
	if e.Command == "" {
		return false, errors.New("the exec plugin has no command")
	}
	switch e.InteractiveMode {
	case "Never":
		return false, nil
	case "", "IfAvailable":
		return isInteractive(os.Stdin), nil
	case "Always":
		if !isInteractive(os.Stdin) {
			return false, fmt.Errorf("the exec plugin %q needs a terminal (interactiveMode: Always)", e.Command)
		}
		return true, nil
	}
	return false, fmt.Errorf("interactiveMode is %q; Never, IfAvailable or Always is expected", e.InteractiveMode)
}

// Credentials runs the plugin and returns its credentials. The cluster is nil unless the plugin requests it.
func (e *ExecConfig) Credentials(ctx context.Context, cluster *ExecCluster, interactive bool) (*ExecCredentialStatus, error) {
	spec := &execSpec{Cluster: cluster, Interactive: interactive}
	request, err := rawjson.Encode(ExecCredential{APIVersion: e.APIVersion, Kind: "ExecCredential", Spec: spec})
	if err != nil {
		return nil, err
	}
	var stdin io.Reader
	if interactive {
		stdin = os.Stdin
	}
	output, err := e.run(ctx, request, stdin)
	if err != nil {
		return nil, fmt.Errorf("the exec plugin %q: %w", e.Command, err)
	}
	status, err := e.parse(output)
	if err != nil {
		return nil, fmt.Errorf("the exec plugin %q: %w", e.Command, err)
	}
	return status, nil
}

// isInteractive reports whether a file may be a terminal.
func isInteractive(f *os.File) bool {
	stat, err := f.Stat()
	if err != nil || stat.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(stat, null)
}

// run runs the plugin and returns its output.
func (e *ExecConfig) run(ctx context.Context, request []byte, stdin io.Reader) ([]byte, error) {
	cmd := exec.CommandContext(ctx, e.Command, e.Args...)
	cmd.WaitDelay = 2 * time.Second // for processes that the plugin has left running
	cmd.Env = os.Environ()
	for _, v := range e.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+string(request))
	output, complaints := &boundedBuffer{limit: MaxPluginOutput}, &boundedBuffer{limit: MaxPluginErrors}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, output, complaints
	err := cmd.Run()
	switch {
	case err == nil && output.full:
		return nil, fmt.Errorf("more than %d bytes of output", MaxPluginOutput)
	case err == nil:
		return output.kept, nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		if hint := strings.TrimSpace(e.InstallHint); hint != "" {
			return nil, fmt.Errorf("%w\n%s", err, hint)
		}
	}
	if said := strings.TrimSpace(string(complaints.kept)); said != "" {
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	return nil, err
}

// parse reads the output of the plugin. Errors contain nothing of it, because it is secret.
func (e *ExecConfig) parse(output []byte) (*ExecCredentialStatus, error) {
	var answer ExecCredential
	if err := rawjson.Unmarshal(output, &answer); err != nil {
		return nil, errors.New("its output is not an ExecCredential in JSON")
	}
	s := answer.Status
	switch {
	case answer.Kind != "ExecCredential" || answer.APIVersion != e.APIVersion:
		return nil, fmt.Errorf("its output is %q of %q; an ExecCredential of %q is expected", answer.Kind, answer.APIVersion, e.APIVersion)
	case s == nil || s.Token == "" && s.CertificateData == "" && s.KeyData == "":
		return nil, errors.New("its output has neither a token nor a client certificate")
	case (s.CertificateData == "") != (s.KeyData == ""):
		return nil, errors.New("its output has a client certificate without its key, or a key without its certificate")
	}
	return s, nil
}

// boundedBuffer keeps the beginning of its input.
type boundedBuffer struct {
	kept  []byte
	limit int
	full  bool // some input was dropped
}

// Write never fails, so that the writer continues.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	n := min(len(p), b.limit-len(b.kept))
	b.full = b.full || n < len(p)
	b.kept = append(b.kept, p[:n]...)
	return len(p), nil
}
