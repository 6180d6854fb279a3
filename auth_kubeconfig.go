package kopf

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/yaml"
)

// This file knows kubeconfigs: which files they are, how several become one, what kubectl makes of
// them, and how the commands that they name are asked for credentials. It runs on the goroutine of a login.

// kubeconfig is what we read of a kubeconfig.
type kubeconfig struct {
	CurrentContext string `json:"current-context"`
	Contexts       []struct {
		Name    string            `json:"name"`
		Context kubeconfigContext `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string            `json:"name"`
		Cluster kubeconfigCluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string         `json:"name"`
		User kubeconfigUser `json:"user"`
	} `json:"users"`
}

// kubeconfigContext names a cluster and a user.
type kubeconfigContext struct {
	Cluster   string `json:"cluster"`
	User      string `json:"user"`
	Namespace string `json:"namespace"`
}

// kubeconfigCluster tells where an API server is and how to trust it.
type kubeconfigCluster struct {
	Server        string `json:"server"`
	TLSServerName string `json:"tls-server-name"`
	Insecure      bool   `json:"insecure-skip-tls-verify"`
	CAFile        string `json:"certificate-authority"`
	CAData        string `json:"certificate-authority-data"`
	ProxyURL      string `json:"proxy-url"`
	Extensions    []struct {
		Name      string          `json:"name"`
		Extension json.RawMessage `json:"extension"`
	} `json:"extensions"`
}

// kubeconfigUser tells how to be let in.
type kubeconfigUser struct {
	CertificateFile string              `json:"client-certificate"`
	CertificateData string              `json:"client-certificate-data"`
	KeyFile         string              `json:"client-key"`
	KeyData         string              `json:"client-key-data"`
	Token           string              `json:"token"`
	TokenFile       string              `json:"tokenFile"`
	Username        string              `json:"username"`
	Password        string              `json:"password"`
	As              string              `json:"as"`
	AsUID           string              `json:"as-uid"`
	AsGroups        []string            `json:"as-groups"`
	AsUserExtra     map[string][]string `json:"as-user-extra"`
	AuthProvider    *struct {
		Name   string            `json:"name"`
		Config map[string]string `json:"config"`
	} `json:"auth-provider"`
	Exec *execConfig `json:"exec"`
}

// execConfig tells how a command is asked for credentials.
type execConfig struct {
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

// LoginWithKubeconfig logs in as kubectl does, with the current context of the kubeconfig: with certificates, tokens,
// passwords, or what an exec plugin gives. It returns nil where there is no kubeconfig. Errors name the files.
func LoginWithKubeconfig(ctx context.Context, l *Login) (*ConnectionInfo, error) {
	files, err := kubeconfigFiles(l)
	if err != nil || len(files.found) == 0 {
		return nil, err
	}
	from := "kubeconfig " + strings.Join(files.found, string(filepath.ListSeparator))
	config, err := readKubeconfigs(files.found)
	if err != nil {
		return nil, err
	}
	info, err := config.login(ctx, l)
	if err != nil {
		return nil, &LoginError{Message: from, Err: err}
	}
	return info, nil
}

// kubeconfigPlaces are the files that were looked for.
type kubeconfigPlaces struct {
	found   []string
	missing []string // what is not there, for messages
}

// kubeconfigFiles finds the files of the kubeconfig. Those of a list that do not exist are skipped, but for a
// Login that names none that exists.
func kubeconfigFiles(l *Login) (kubeconfigPlaces, error) {
	var p kubeconfigPlaces
	home, homeErr := os.UserHomeDir()
	list, fallback := l.Kubeconfig, false
	if list == "" {
		list = os.Getenv("KUBECONFIG")
	}
	if strings.Trim(list, " "+string(filepath.ListSeparator)) == "" {
		p.missing = append(p.missing, "KUBECONFIG is not set")
		if homeErr != nil {
			p.missing = append(p.missing, fmt.Sprintf("~/.kube/config can't be looked for (%v)", homeErr))
			return p, nil
		}
		list, fallback = filepath.Join(home, ".kube", "config"), true
	}
	paths := []string{list}
	if !fallback { // the folder itself may have a separator in its name
		paths = filepath.SplitList(list)
	}
	for _, path := range paths {
		path = expandHome(strings.TrimSpace(path), home)
		if path == "" || slices.Contains(p.found, path) {
			continue
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			p.missing = append(p.missing, path+" does not exist")
			continue
		}
		p.found = append(p.found, path)
	}
	if l.Kubeconfig != "" && len(p.found) == 0 {
		return p, &LoginError{Message: "kubeconfig: " + strings.Join(p.missing, ", ")}
	}
	return p, nil
}

// expandHome replaces the ~ at the beginning of a path.
func expandHome(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && home != "" && (rest == "" || os.IsPathSeparator(rest[0])) {
		return home + rest
	}
	return path
}

// readKubeconfigs reads files into one: of equal names, the first one counts.
func readKubeconfigs(files []string) (*kubeconfig, error) {
	merged := &kubeconfig{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, &LoginError{Message: "kubeconfig", Err: err}
		}
		config, err := parseKubeconfig(data)
		if err != nil {
			return nil, &LoginError{Message: "kubeconfig " + file, Err: err}
		}
		config.resolve(filepath.Dir(file))
		if merged.CurrentContext == "" {
			merged.CurrentContext = config.CurrentContext
		}
		merged.Contexts = append(merged.Contexts, config.Contexts...)
		merged.Clusters = append(merged.Clusters, config.Clusters...)
		merged.Users = append(merged.Users, config.Users...)
	}
	return merged, nil
}

func parseKubeconfig(data []byte) (*kubeconfig, error) {
	docs, err := yaml.Parse(data, true)
	if err != nil {
		return nil, err
	}
	config := &kubeconfig{}
	if len(docs) == 0 || docs[0] == nil {
		return config, nil
	}
	if _, ok := docs[0].(map[string]any); !ok {
		return nil, fmt.Errorf("an object is expected, not %s", rawjson.KindOf(docs[0]))
	}
	text, err := rawjson.Encode(docs[0])
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, config); err != nil {
		return nil, kubeconfigTypeError(err)
	}
	return config, nil
}

// kubeconfigTypeError tells which field has a wrong type.
func kubeconfigTypeError(err error) error {
	if e := (*json.UnmarshalTypeError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: %s is expected, not %s", e.Field, e.Type, e.Value)
	}
	return err
}

// resolve makes the file names of a kubeconfig absolute: they are relative to its folder.
func (k *kubeconfig) resolve(dir string) {
	home, _ := os.UserHomeDir() // without one, a ~ is left
	absolute := func(path *string) {
		if *path = expandHome(*path, home); *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	for i := range k.Clusters {
		absolute(&k.Clusters[i].Cluster.CAFile)
	}
	for i := range k.Users {
		user := &k.Users[i].User
		absolute(&user.CertificateFile)
		absolute(&user.KeyFile)
		absolute(&user.TokenFile)
		// A command without a separator is looked up in PATH.
		if user.Exec != nil && (filepath.Base(user.Exec.Command) != user.Exec.Command || strings.Contains(user.Exec.Command, "/")) {
			absolute(&user.Exec.Command)
		}
	}
}

// login makes the connection information of a context.
func (k *kubeconfig) login(ctx context.Context, l *Login) (*ConnectionInfo, error) {
	name := l.Context
	if name == "" {
		name = k.CurrentContext
	}
	if name == "" {
		return nil, fmt.Errorf("current-context is not set; there are %s", k.contextNames())
	}
	chosen := k.context(name)
	if chosen == nil {
		return nil, fmt.Errorf("the context %q does not exist; there are %s", name, k.contextNames())
	}
	cluster := k.cluster(chosen.Cluster)
	if cluster == nil {
		return nil, fmt.Errorf("the cluster %q of the context %q does not exist", chosen.Cluster, name)
	}
	user := k.user(chosen.User)
	if user == nil && chosen.User != "" {
		return nil, fmt.Errorf("the user %q of the context %q does not exist", chosen.User, name)
	} else if user == nil {
		user = &kubeconfigUser{}
	}
	if cluster.Server == "" {
		return nil, fmt.Errorf("the cluster %q has no server", chosen.Cluster)
	}
	info := cluster.info()
	info.DefaultNamespace = chosen.Namespace
	info.TrustEnv = l.TrustEnv
	info.Priority = kubeconfigPriority
	if err := user.fill(ctx, l, info, cluster); err != nil {
		return nil, fmt.Errorf("the user %q: %w", chosen.User, err)
	}
	if !strings.Contains(info.Server, "://") { // as kubectl completes it
		scheme := "http://"
		if info.Insecure || info.CAFile != "" || len(info.CAData) > 0 || info.hasCertificate() {
			scheme = "https://"
		}
		info.Server = scheme + info.Server
	}
	return info, info.validate()
}

func (k *kubeconfig) contextNames() string {
	names := make([]string, 0, len(k.Contexts))
	for _, c := range k.Contexts {
		names = append(names, c.Name)
	}
	if len(names) == 0 {
		return "no contexts"
	}
	return "the contexts " + strings.Join(names, ", ")
}

// context returns the context of the name, nil if there is none.
func (k *kubeconfig) context(name string) *kubeconfigContext {
	for i := range k.Contexts {
		if c := &k.Contexts[i]; c.Name == name {
			return &c.Context
		}
	}
	return nil
}

// cluster returns the cluster of the name, nil if there is none.
func (k *kubeconfig) cluster(name string) *kubeconfigCluster {
	for i := range k.Clusters {
		if c := &k.Clusters[i]; c.Name == name {
			return &c.Cluster
		}
	}
	return nil
}

// user returns the user of the name, nil if there is none.
func (k *kubeconfig) user(name string) *kubeconfigUser {
	for i := range k.Users {
		if u := &k.Users[i]; u.Name == name {
			return &u.User
		}
	}
	return nil
}

// info returns what a cluster tells. Data wins over the file of the same thing.
func (c *kubeconfigCluster) info() *ConnectionInfo {
	info := &ConnectionInfo{
		Server:        c.Server,
		TLSServerName: c.TLSServerName,
		Insecure:      c.Insecure,
		ProxyURL:      c.ProxyURL,
	}
	info.CAFile, info.CAData = dataOrFile(c.CAFile, c.CAData)
	return info
}

func dataOrFile(file, data string) (string, []byte) {
	if data != "" {
		return "", []byte(data)
	}
	return file, nil
}

// fill adds the credentials of a user.
func (u *kubeconfigUser) fill(ctx context.Context, l *Login, info *ConnectionInfo, cluster *kubeconfigCluster) error {
	info.CertificateFile, info.CertificateData = dataOrFile(u.CertificateFile, u.CertificateData)
	info.KeyFile, info.KeyData = dataOrFile(u.KeyFile, u.KeyData)
	info.Token, info.TokenFile = u.Token, u.TokenFile
	info.Username, info.Password = u.Username, u.Password
	info.ImpersonateUser, info.ImpersonateUID = u.As, u.AsUID
	info.ImpersonateGroups, info.ImpersonateExtra = u.AsGroups, u.AsUserExtra
	known := u.Token != "" || u.TokenFile != "" || u.Username != ""
	if u.AuthProvider != nil && !known {
		info.Token = u.AuthProvider.Config["access-token"]
		l.logger().Warn("auth-provider is no longer supported; only its access token is used, as it is",
			"provider", u.AuthProvider.Name, "token", info.Token != "")
	}
	if u.Exec == nil || known { // as in kubectl, what is written down comes first
		return nil
	}
	return u.Exec.fill(ctx, l, info, cluster)
}

// The versions of the exec protocol, and the extension of clusters that is passed to the commands.
const (
	execGroup     = "client.authentication.k8s.io/"
	execExtension = execGroup + "exec"
)

// maxPluginOutput and maxPluginErrors limit what is kept of the output of a plugin, in bytes.
const (
	maxPluginOutput = 1 << 20
	maxPluginErrors = 4 << 10
)

// execCredential is what goes to a plugin and what comes back.
type execCredential struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Spec       *execSpec       `json:"spec,omitempty"`
	Status     *execCredStatus `json:"status,omitempty"`
}

type execSpec struct {
	Cluster     *execCluster `json:"cluster,omitempty"`
	Interactive bool         `json:"interactive"`
}

type execCluster struct {
	Server        string          `json:"server"`
	TLSServerName string          `json:"tls-server-name,omitempty"`
	Insecure      bool            `json:"insecure-skip-tls-verify,omitempty"`
	CAData        string          `json:"certificate-authority-data,omitempty"`
	ProxyURL      string          `json:"proxy-url,omitempty"`
	Config        json.RawMessage `json:"config,omitempty"`
}

type execCredStatus struct {
	Expiration      *time.Time `json:"expirationTimestamp"`
	Token           string     `json:"token"`
	CertificateData string     `json:"clientCertificateData"`
	KeyData         string     `json:"clientKeyData"`
}

// fill runs the plugin and adds the credentials that it gives.
func (e *execConfig) fill(ctx context.Context, l *Login, info *ConnectionInfo, cluster *kubeconfigCluster) error {
	if e.APIVersion != execGroup+"v1" && e.APIVersion != execGroup+"v1beta1" {
		return fmt.Errorf("the exec plugin has the apiVersion %q; %sv1 or v1beta1 is expected", e.APIVersion, execGroup)
	}
	if e.Command == "" {
		return errors.New("the exec plugin has no command")
	}
	request, stdin, err := e.request(info, cluster)
	if err != nil {
		return err
	}
	started := time.Now()
	output, err := e.run(ctx, request, stdin)
	if err != nil {
		return fmt.Errorf("the exec plugin %q: %w", e.Command, err)
	}
	status, err := e.parse(output)
	if err != nil {
		return fmt.Errorf("the exec plugin %q: %w", e.Command, err)
	}
	l.logger().Debug("the exec plugin has given credentials", "command", e.Command, "took", time.Since(started))
	info.Token = status.Token
	if status.CertificateData != "" {
		info.CertificateFile, info.CertificateData = "", []byte(status.CertificateData)
		info.KeyFile, info.KeyData = "", []byte(status.KeyData)
	}
	if status.Expiration != nil {
		info.Expiration = *status.Expiration
	}
	return nil
}

// request returns what the plugin gets in KUBERNETES_EXEC_INFO, and its input.
func (e *execConfig) request(info *ConnectionInfo, cluster *kubeconfigCluster) (text []byte, stdin io.Reader, err error) {
	spec := &execSpec{}
	switch e.InteractiveMode {
	case "Never":
	case "", "IfAvailable":
		spec.Interactive = isInteractive(os.Stdin)
	case "Always":
		if spec.Interactive = isInteractive(os.Stdin); !spec.Interactive {
			return nil, nil, fmt.Errorf("the exec plugin %q needs a terminal (interactiveMode: Always)", e.Command)
		}
	default:
		return nil, nil, fmt.Errorf("interactiveMode is %q; Never, IfAvailable or Always is expected", e.InteractiveMode)
	}
	if spec.Interactive {
		stdin = os.Stdin
	}
	if e.ProvideClusterInfo {
		ca, err := info.authorities()
		if err != nil {
			return nil, nil, err
		}
		spec.Cluster = &execCluster{
			Server:        info.Server,
			TLSServerName: info.TLSServerName,
			Insecure:      info.Insecure,
			CAData:        base64.StdEncoding.EncodeToString(ca),
			ProxyURL:      info.ProxyURL,
		}
		for _, x := range cluster.Extensions {
			if x.Name == execExtension {
				spec.Cluster.Config = x.Extension
			}
		}
	}
	text, err = rawjson.Encode(execCredential{APIVersion: e.APIVersion, Kind: "ExecCredential", Spec: spec})
	return text, stdin, err
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
func (e *execConfig) run(ctx context.Context, request []byte, stdin io.Reader) ([]byte, error) {
	cmd := exec.CommandContext(ctx, e.Command, e.Args...)
	cmd.WaitDelay = 2 * time.Second // for what the plugin has started and left behind
	cmd.Env = os.Environ()
	for _, v := range e.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+string(request))
	output, complaints := &boundedBuffer{limit: maxPluginOutput}, &boundedBuffer{limit: maxPluginErrors}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, output, complaints
	err := cmd.Run()
	switch {
	case err == nil && output.full:
		return nil, fmt.Errorf("more than %d bytes of output", maxPluginOutput)
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

// parse reads the answer of the plugin. Nothing of it gets into an error: it is secret.
func (e *execConfig) parse(output []byte) (*execCredStatus, error) {
	var answer execCredential
	if err := json.Unmarshal(output, &answer); err != nil {
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

// boundedBuffer keeps the beginning of what is written to it.
type boundedBuffer struct {
	kept  []byte
	limit int
	full  bool // something was dropped
}

// Write never fails, so that the writer can go on.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	n := min(len(p), b.limit-len(b.kept))
	b.full = b.full || n < len(p)
	b.kept = append(b.kept, p[:n]...)
	return len(p), nil
}
