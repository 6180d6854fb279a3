package cli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/cliflag"
	"github.com/kopf-go/kopf/internal/embedded"
	"github.com/kopf-go/kopf/internal/kubeconfig"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/validation"
)

// Options are the options of all commands.
type Options struct {
	Verbose, Debug, Quiet bool
	LogFormat             string // full, plain or json; default: full
	LogRefKey             string
	LogPrefix, NoPrefix   bool

	Clusterwide bool
	Namespaces  []string
	Kubeconfig  string
	Context     string

	Peering    string
	Standalone bool
	Dev        bool
	Priority   int
	ID         string
	Lifetime   time.Duration
	Message    string

	LeaderElect          string
	LeaderElectNamespace string

	Liveness             string
	Page                 bool
	PageToken            string
	PageAuth, PageStacks bool

	Embedded  bool
	Listen    string
	Apply     []string
	Manifests []manifest.File // the content of the files in Apply

	Output string // of the command version: json, or "" for text
}

// devPriority is the priority of operators under development: they take over from deployed ones.
const devPriority = 666

// freezePriority is the default priority of freeze.
const freezePriority = 100

// PeeringPriority returns the priority for peering.
func (o *Options) PeeringPriority() int {
	if o.Dev {
		return devPriority
	}
	return o.Priority
}

// The headings in the help.
const (
	groupScope    = "Scope"
	groupCluster  = "Cluster connection"
	groupPeering  = "Peering"
	groupReplicas = "Replicas"
	groupHealth   = "Health"
	groupEmbedded = "Embedded API server"
	groupLogging  = "Logging"
	groupOutput   = "Output"
)

// of returns the options of a command in the order of the help. The function lists namespaces for completion.
func (o *Options) of(command string, listNamespaces func(*Options) []string) []cliflag.Option {
	if command == "version" {
		return []cliflag.Option{{Group: groupOutput, Short: "o", Long: "output", Value: "json", Help: "Print JSON for programs",
			Values: choices(cliflag.Candidate{Value: "json", Help: "One JSON object"}), Target: choice(&o.Output, "json")}}
	}
	all := slices.Concat(o.scope(command, listNamespaces), o.connection(), o.peering(command), o.endpoints(), o.logging())
	return cliflag.Of(all, command)
}

func (o *Options) scope(command string, listNamespaces func(*Options) []string) []cliflag.Option {
	everywhere, some := "Serve all namespaces (default)", "Serve only namespaces matching PATTERN, such as 'team-*'"
	if command != "run" {
		everywhere, some = "Use the peering object of the cluster (default)", "Use the peering objects in namespaces matching PATTERN"
	}
	return []cliflag.Option{
		{Group: groupScope, Commands: "run freeze resume", Short: "A", Long: "all-namespaces", Variables: "CLUSTERWIDE ALL_NAMESPACES",
			Help: everywhere, Target: &o.Clusterwide},
		{Group: groupScope, Commands: "run freeze resume", Short: "n", Long: "namespace", Variables: "NAMESPACES", Value: "PATTERN", Repeated: true,
			Help: some, Target: o.addNamespace, Values: func() (all []cliflag.Candidate) {
				for _, name := range listNamespaces(o) {
					all = append(all, cliflag.Candidate{Value: name, Help: "A namespace of the cluster"})
				}
				return all
			}},
	}
}

func (o *Options) connection() []cliflag.Option {
	return []cliflag.Option{
		{Group: groupCluster, Commands: "run freeze resume", Long: "kubeconfig", Variables: "KUBECONFIG", Value: "FILE", Files: true,
			Help: "Log in with FILE instead of $KUBECONFIG or ~/.kube/config", Target: &o.Kubeconfig},
		{Group: groupCluster, Commands: "run freeze resume", Long: "context", Variables: "CONTEXT", Value: "NAME",
			Help: "Use the context NAME of the kubeconfig", Default: "current", Target: &o.Context, Values: o.contexts},
	}
}

func (o *Options) peering(command string) []cliflag.Option {
	name, priority, defaultPriority := "Require the peering object NAME", "Set the priority to N, where the highest one works", "0"
	if command != "run" {
		name = "Use the peering object NAME (required)"
	}
	if command == "freeze" {
		priority, defaultPriority = "Pause operators with a priority of at most N", strconv.Itoa(freezePriority)
	}
	return []cliflag.Option{
		{Group: groupPeering, Short: "P", Long: "peering", Variables: "PEERING PEERING_NAME", Value: "NAME", Help: name, Target: o.setPeering},
		{Group: groupPeering, Commands: "freeze resume", Short: "i", Long: "id", Variables: "ID", Value: "TEXT",
			Help: "Use TEXT as the key of the record", Default: "$POD_ID or user@host", Target: o.setID},
		{Group: groupPeering, Commands: "freeze", Short: "t", Long: "lifetime", Variables: "LIFETIME", Value: "DURATION",
			Help: "Pause for DURATION, such as 90s or 1h30m (required)", Target: &o.Lifetime},
		{Group: groupPeering, Commands: "freeze", Short: "m", Long: "message", Variables: "MESSAGE", Value: "TEXT",
			Help: "Print TEXT as the reason, without storing it", Target: &o.Message},
		{Group: groupPeering, Commands: "run freeze", Short: "p", Long: "priority", Variables: "PRIORITY", Value: "N",
			Help: priority, Default: defaultPriority, Target: &o.Priority},
		{Group: groupPeering, Commands: "run freeze", Long: "dev", Variables: "DEV",
			Help: fmt.Sprintf("Use priority %d to take over from deployed operators", devPriority), Target: &o.Dev},
		{Group: groupPeering, Commands: "run", Long: "standalone", Variables: "STANDALONE", Help: "Ignore other operators (disable peering)", Target: &o.Standalone},
	}
}

func (o *Options) endpoints() []cliflag.Option {
	return []cliflag.Option{
		{Group: groupReplicas, Commands: "run", Long: "leader-elect", Variables: "LEADER_ELECT", Value: "NAME",
			Help: "Elect a leader among replicas with the Lease NAME", Target: o.setLeaderElect},
		{Group: groupReplicas, Commands: "run", Long: "leader-elect-namespace", Variables: "LEADER_ELECT_NAMESPACE", Value: "NAMESPACE",
			Help: "Use the Lease in NAMESPACE", Default: "the pod's or the context's", Target: o.setLeaderElectNamespace},
		{Group: groupHealth, Commands: "run", Short: "L", Long: "liveness", Variables: "LIVENESS_ENDPOINT LIVENESS", Value: "URL",
			Help: "Serve probes and metrics at URL, e.g. http://:8080/healthz", Target: o.setLiveness},
		{Group: groupHealth, Commands: "run", Long: "page", Variables: "PAGE", Help: "Serve the live page at / of the liveness URL", Target: &o.Page},
		{Group: groupHealth, Commands: "run", Long: "page-token", Variables: "PAGE_TOKEN", Value: "FILE", Files: true,
			Help: "Show the live page to clients with the token in FILE", Target: &o.PageToken},
		{Group: groupHealth, Commands: "run", Long: "page-auth", Variables: "PAGE_AUTH",
			Help: "Show the live page to users who may get /kopf-page", Target: &o.PageAuth},
		{Group: groupHealth, Commands: "run", Long: "page-stacks", Variables: "PAGE_STACKS",
			Help: "Show the stacks of running handlers on the live page", Target: &o.PageStacks},
		{Group: groupEmbedded, Commands: "run", Long: "embedded", Variables: "EMBEDDED", Hidden: !embedded.Included,
			Help: "Run on an embedded API server, without a cluster", Target: &o.Embedded},
		{Group: groupEmbedded, Commands: "run", Long: "listen", Variables: "LISTEN", Hidden: !embedded.Included, Value: "ADDRESS",
			Help: "Listen on ADDRESS, or https://ADDRESS for TLS", Default: embedded.DefaultAddress, Target: o.setListen},
		{Group: groupEmbedded, Commands: "run", Long: "apply", Variables: "APPLY", Hidden: !embedded.Included, Value: "PATH", Repeated: true, Files: true,
			Help: "Load manifests from a file, a folder, or - for stdin", Target: &o.Apply},
	}
}

func (o *Options) logging() []cliflag.Option {
	return []cliflag.Option{
		{Group: groupLogging, Short: "v", Long: "verbose", Variables: "VERBOSE", Help: "Log debugging messages", Target: &o.Verbose},
		{Group: groupLogging, Short: "d", Long: "debug", Variables: "DEBUG",
			Help: "Log debugging messages with their source locations", Target: &o.Debug},
		{Group: groupLogging, Short: "q", Long: "quiet", Variables: "QUIET", Help: "Log only warnings and errors", Target: &o.Quiet},
		{Group: groupLogging, Long: "log-format", Variables: "LOG_FORMAT", Value: "FORMAT", Default: "full",
			Help: "Set the log format to full, plain or json", Target: choice(&o.LogFormat, "full", "plain", "json"),
			Values: choices(
				cliflag.Candidate{Value: "full", Help: "Time, level, object, message and attributes"},
				cliflag.Candidate{Value: "plain", Help: "Object, message and attributes"},
				cliflag.Candidate{Value: "json", Help: "One JSON object a line"})},
		{Group: groupLogging, Long: "log-refkey", Variables: "LOG_REFKEY", Value: "KEY", Default: "object",
			Help: "Set the key of the object reference in JSON logs", Target: &o.LogRefKey},
		{Group: groupLogging, Long: "log-prefix", Variables: "LOG_PREFIX", Negatable: true,
			Help: "Start messages with [namespace/name]", Default: "in text, not in JSON", Target: o.setPrefix},
	}
}

// choice stores one of the values, in any case.
func choice(target *string, values ...string) func(string) error {
	return func(value string) error {
		lower := strings.ToLower(value)
		if !slices.Contains(values, lower) {
			return errors.New("want " + cliflag.Or(values))
		}
		*target = lower
		return nil
	}
}

// choices returns values for completion.
func choices(all ...cliflag.Candidate) func() []cliflag.Candidate {
	return func() []cliflag.Candidate { return all }
}

func (o *Options) setPrefix(value string) error {
	on, err := cliflag.ParseBool(value)
	o.LogPrefix, o.NoPrefix = on, !on
	return err
}

func (o *Options) addNamespace(pattern string) error {
	if pattern == "" {
		return errors.New("want a name or a pattern, such as team-*")
	}
	if _, err := namespaces.Check([]string{pattern}); err != nil {
		return err
	}
	if pattern = strings.TrimSpace(pattern); !slices.Contains(o.Namespaces, pattern) {
		o.Namespaces = append(o.Namespaces, pattern)
	}
	return nil
}

func (o *Options) setPeering(name string) error {
	if name != "" && !validation.IsObjectName(name) {
		return errors.New("want the name of an object: " + validation.ObjectName)
	}
	o.Peering = name
	return nil
}

func (o *Options) setID(id string) error {
	if id == "" { // perhaps of an unset variable
		return errors.New("want the key of a record; leave the flag out for the default")
	}
	o.ID = id
	return nil
}

func (o *Options) setLeaderElect(name string) error {
	const otherwise = "; leave the flag out for no election"
	if _, err := cliflag.ParseBool(name); err == nil { // as in other frameworks
		return errors.New("want the name of the Lease that all replicas share, not true or false" + otherwise)
	}
	if !validation.IsObjectName(name) {
		return errors.New("want the name of a Lease: " + validation.ObjectName + otherwise)
	}
	o.LeaderElect = name
	return nil
}

func (o *Options) setLeaderElectNamespace(name string) error {
	if name != "" && !validation.IsNamespaceName(name) {
		return errors.New("want the name of a namespace: " + validation.NamespaceName)
	}
	o.LeaderElectNamespace = name
	return nil
}

func (o *Options) setLiveness(endpoint string) error {
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "http" || u.Opaque != "" || u.User != nil {
			return errors.New("want a URL with http, such as http://0.0.0.0:8080/healthz")
		}
		if u.Port() != "" && !isPort(u.Port()) {
			return errors.New("want a port up to 65535")
		}
		if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
			return errors.New("want a path without a query and without a fragment, such as http://0.0.0.0:8080/healthz")
		}
	}
	o.Liveness = endpoint
	return nil
}

func (o *Options) setListen(address string) error {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(address, embedded.TLSPrefix))
	if err != nil || !isPort(port) || host != "" && net.ParseIP(host) == nil && !validation.IsDNSSubdomain(strings.ToLower(host)) {
		return errors.New("want an address such as 127.0.0.1:6443, or https://127.0.0.1:6443 for TLS")
	}
	o.Listen = address
	return nil
}

// isPort reports whether a text is a port number; 0 means any free port.
func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// contexts lists the contexts of the kubeconfig, for completion.
func (o *Options) contexts() (all []cliflag.Candidate) {
	config, err := kubeconfig.Read(kubeconfig.Find(o.Kubeconfig).Found)
	if err != nil {
		return nil
	}
	for _, c := range config.Contexts {
		help := "Cluster " + c.Context.Cluster
		if c.Name == config.CurrentContext {
			help += " (current)"
		}
		all = append(all, cliflag.Candidate{Value: c.Name, Help: help})
	}
	return all
}
