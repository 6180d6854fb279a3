// Package kubeconfig reads kubeconfigs: it finds the files, merges them as kubectl does, and runs their exec plugins.
package kubeconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/yaml"
)

// Config has the supported fields of a kubeconfig.
type Config struct {
	CurrentContext string `json:"current-context"`
	Contexts       []struct {
		Name    string  `json:"name"`
		Context Context `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string  `json:"name"`
		Cluster Cluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string `json:"name"`
		User User   `json:"user"`
	} `json:"users"`
}

// Context names a cluster and a user.
type Context struct {
	Cluster   string `json:"cluster"`
	User      string `json:"user"`
	Namespace string `json:"namespace"`
}

// Cluster has the address of an API server and its CA bundle.
type Cluster struct {
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

// User has the credentials of a user.
type User struct {
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
	Exec *ExecConfig `json:"exec"`
}

// Files are the kubeconfig files that were searched.
type Files struct {
	Found   []string
	Missing []string // missing files, for messages
}

// Find finds the kubeconfig files: the named ones, as a list in the form of PATH, or the default ones of kubectl. It skips missing files.
func Find(named string) Files {
	var p Files
	home, homeErr := os.UserHomeDir()
	list, fallback := named, false
	if list == "" {
		list = os.Getenv("KUBECONFIG")
	}
	if strings.Trim(list, " "+string(filepath.ListSeparator)) == "" {
		p.Missing = append(p.Missing, "KUBECONFIG is not set")
		if homeErr != nil {
			p.Missing = append(p.Missing, fmt.Sprintf("~/.kube/config can't be looked for (%v)", homeErr))
			return p
		}
		list, fallback = filepath.Join(home, ".kube", "config"), true
	}
	paths := []string{list}
	if !fallback { // the path itself may contain a separator
		paths = filepath.SplitList(list)
	}
	for _, path := range paths {
		path = expandHome(strings.TrimSpace(path), home)
		if path == "" || slices.Contains(p.Found, path) {
			continue
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			p.Missing = append(p.Missing, path+" does not exist")
			continue
		}
		p.Found = append(p.Found, path)
	}
	return p
}

// expandHome expands a leading ~ in a path.
func expandHome(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && home != "" && (rest == "" || os.IsPathSeparator(rest[0])) {
		return home + rest
	}
	return path
}

// Read reads and merges files. The first of equal names wins.
func Read(files []string) (*Config, error) {
	merged := &Config{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, &Error{Err: err}
		}
		config, err := Parse(data)
		if err != nil {
			return nil, &Error{File: file, Err: err}
		}
		config.Resolve(filepath.Dir(file))
		if merged.CurrentContext == "" {
			merged.CurrentContext = config.CurrentContext
		}
		merged.Contexts = append(merged.Contexts, config.Contexts...)
		merged.Clusters = append(merged.Clusters, config.Clusters...)
		merged.Users = append(merged.Users, config.Users...)
	}
	return merged, nil
}

// Parse parses one kubeconfig.
func Parse(data []byte) (*Config, error) {
	docs, err := yaml.Parse(data, true)
	if err != nil {
		return nil, err
	}
	config := &Config{}
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
	if err := rawjson.Unmarshal(text, config); err != nil {
		return nil, typeError(err)
	}
	return config, nil
}

// typeError names the field with a wrong type.
func typeError(err error) error {
	if e := (*json.UnmarshalTypeError)(nil); errtype.As(err, &e) {
		expected := e.Type.String()
		switch e.Type.Kind() {
		case reflect.Struct, reflect.Map, reflect.Pointer:
			expected = "object"
		case reflect.Slice:
			expected = "list"
		}
		return fmt.Errorf("%s: %s is expected, not %s", e.Field, expected, e.Value)
	}
	return err
}

// Resolve makes the relative file names of a kubeconfig absolute. They are relative to its folder.
func (c *Config) Resolve(dir string) {
	home, _ := os.UserHomeDir() // without it, ~ is not expanded
	absolute := func(path *string) {
		if *path = expandHome(*path, home); *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	for i := range c.Clusters {
		absolute(&c.Clusters[i].Cluster.CAFile)
	}
	for i := range c.Users {
		user := &c.Users[i].User
		absolute(&user.CertificateFile)
		absolute(&user.KeyFile)
		absolute(&user.TokenFile)
		// A command without a separator is searched in PATH.
		if user.Exec != nil && (filepath.Base(user.Exec.Command) != user.Exec.Command || strings.Contains(user.Exec.Command, "/")) {
			absolute(&user.Exec.Command)
		}
	}
}

func (c *Config) contextNames() string {
	names := make([]string, 0, len(c.Contexts))
	for _, x := range c.Contexts {
		names = append(names, x.Name)
	}
	if len(names) == 0 {
		return "no contexts"
	}
	return "the contexts " + strings.Join(names, ", ")
}

// context returns a context by name, or nil.
func (c *Config) context(name string) *Context {
	for i := range c.Contexts {
		if x := &c.Contexts[i]; x.Name == name {
			return &x.Context
		}
	}
	return nil
}

// cluster returns a cluster by name, or nil.
func (c *Config) cluster(name string) *Cluster {
	for i := range c.Clusters {
		if x := &c.Clusters[i]; x.Name == name {
			return &x.Cluster
		}
	}
	return nil
}

// user returns a user by name, or nil.
func (c *Config) user(name string) *User {
	for i := range c.Users {
		if u := &c.Users[i]; u.Name == name {
			return &u.User
		}
	}
	return nil
}

// Choice is a context with its cluster and user.
type Choice struct {
	Name      string // of the context
	Cluster   *Cluster
	User      *User
	UserName  string
	Namespace string
}

// Choose returns the context with a name, or the current one without a name.
func (c *Config) Choose(name string) (Choice, error) {
	if name == "" {
		name = c.CurrentContext
	}
	if name == "" {
		return Choice{}, fmt.Errorf("current-context is not set; there are %s", c.contextNames())
	}
	chosen := c.context(name)
	if chosen == nil {
		return Choice{}, fmt.Errorf("the context %q does not exist; there are %s", name, c.contextNames())
	}
	choice := Choice{Name: name, Cluster: c.cluster(chosen.Cluster), User: c.user(chosen.User), UserName: chosen.User, Namespace: chosen.Namespace}
	if choice.Cluster == nil {
		return choice, fmt.Errorf("the cluster %q of the context %q does not exist", chosen.Cluster, name)
	}
	if choice.User == nil && chosen.User != "" {
		return choice, fmt.Errorf("the user %q of the context %q does not exist", chosen.User, name)
	} else if choice.User == nil {
		choice.User = &User{}
	}
	if choice.Cluster.Server == "" {
		return choice, fmt.Errorf("the cluster %q has no server", chosen.Cluster)
	}
	return choice, nil
}

// Error reports an unusable kubeconfig.
type Error struct {
	File string // "" if the error names it
	Err  error
}

func (e *Error) Error() string {
	return strings.TrimSpace("kubeconfig "+e.File) + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// ExecExtension returns the extension of a cluster for exec plugins.
func (c *Cluster) ExecExtension() json.RawMessage {
	var config json.RawMessage
	for _, x := range c.Extensions {
		if x.Name == execExtension {
			config = x.Extension
		}
	}
	return config
}

// DataOrFile returns the data, or the file if there is no data.
func DataOrFile(file, data string) (string, []byte) {
	if data != "" {
		return "", []byte(data)
	}
	return file, nil
}
