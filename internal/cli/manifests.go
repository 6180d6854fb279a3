package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/cliflag"
	"github.com/kopf-go/kopf/internal/installation"
	"github.com/kopf-go/kopf/internal/validation"
	"github.com/kopf-go/kopf/internal/webhookconfig"
)

// The commands about installation.
const (
	commandManifests     = "manifests"
	commandExplainRights = "explain-rights"
)

// isInstallation reports whether a command is about installation.
func isInstallation(command string) bool {
	return command == commandManifests || command == commandExplainRights
}

// InstallOptions are the options of the commands about installation.
type InstallOptions struct {
	Name, Image, Home    string
	Replicas             int // 0 for the default
	WebhookConfiguration string
	WebhookPort          int // 0 for the default
	Monitoring           bool

	Definitions    []string // files
	Discover       bool
	Format, Out    string
	ChartVersion   string
	Only           []string
	NoDescriptions bool
	Check          bool
}

const (
	groupInstallation = "Installation"
	groupKinds        = "Kinds"
)

// installation returns the options of the commands in the order of the help.
func (c *Call) installation(command string, listNamespaces func(*Options) []string) []cliflag.Option {
	i, o := c.Install(), &c.Options
	all := append(o.scope("run", listNamespaces),
		cliflag.Option{Group: groupInstallation, Long: "name", Value: "NAME", Help: "Name the objects NAME", Default: "the program's", Target: checked(&i.Name, installation.CheckName)},
		cliflag.Option{Group: groupInstallation, Long: "install-namespace", Value: "NAMESPACE", Help: "Install into NAMESPACE",
			Default: "the served one or default", Target: checked(&i.Home, checkNamespace)},
		cliflag.Option{Group: groupInstallation, Commands: commandManifests, Long: "image", Value: "IMAGE", Help: "Run IMAGE in the pods", Default: "the name", Target: checked(&i.Image, installation.CheckImage)},
		cliflag.Option{Group: groupInstallation, Long: "replicas", Value: "N", Help: "Run N pods, with leader election if N > 1",
			Default: "1, or 2 with --leader-elect", Target: within(&i.Replicas, 100)},
		cliflag.Option{Group: groupInstallation, Long: "leader-elect", Value: "NAME", Help: "Run with --leader-elect NAME", Default: "the name if N > 1", Target: o.setLeaderElect},
		cliflag.Option{Group: groupInstallation, Long: "peering", Short: "P", Value: "NAME", Help: "Run with --peering NAME instead of --standalone", Target: o.setPeering},
		cliflag.Option{Group: groupInstallation, Long: "webhook-configuration", Value: "NAME", Help: "Expect NAME as Settings.Admission.Managed", Default: "the name and .kopf.dev", Target: checked(&i.WebhookConfiguration, checkConfiguration)},
		cliflag.Option{Group: groupInstallation, Commands: commandManifests, Long: "webhook-port", Value: "N", Help: "Expect N as the port of the webhook server", Default: "9443", Target: within(&i.WebhookPort, 65535)},
		cliflag.Option{Group: groupInstallation, Commands: commandManifests, Long: "service-monitor", Help: "Add a ServiceMonitor for Prometheus", Target: &i.Monitoring},
		cliflag.Option{Group: groupKinds, Long: "definitions", Value: "PATH", Repeated: true, Files: true, Help: "Read CRDs from a file, a folder, or -", Target: &i.Definitions},
		cliflag.Option{Group: groupKinds, Long: "discover", Help: "Read the kinds from the cluster of the kubeconfig", Target: &i.Discover},
	)
	all = append(all, o.connection()...)
	for j := range all {
		all[j].Variables = "" // the manifests depend on arguments only
		if all[j].Group == groupCluster || all[j].Group == groupScope {
			all[j].Commands = ""
		}
	}
	all = append(all, i.output()...)
	return cliflag.Of(all, command)
}

func (i *InstallOptions) output() []cliflag.Option {
	return []cliflag.Option{
		{Group: groupOutput, Commands: commandManifests, Long: "format", Value: "FORMAT", Help: "Set the format to yaml, kustomize or helm", Default: "yaml",
			Target: choice(&i.Format, "yaml", "kustomize", "helm"), Values: choices(
				cliflag.Candidate{Value: "yaml", Help: "Manifests, printed or in files"},
				cliflag.Candidate{Value: "kustomize", Help: "Files for kubectl apply -k"},
				cliflag.Candidate{Value: "helm", Help: "A chart"})},
		{Group: groupOutput, Commands: commandManifests, Long: "out", Value: "DIR", Files: true, Help: "Write files into DIR instead of printing", Target: checked(&i.Out, checkFolder)},
		{Group: groupOutput, Commands: commandManifests, Long: "chart-version", Value: "VERSION", Help: "Give the chart VERSION", Default: "0.1.0", Target: checked(&i.ChartVersion, installation.CheckChartVersion)},
		{Group: groupOutput, Commands: commandManifests, Long: "only", Value: "KIND,...", Repeated: true, Help: "Print only these kinds, e.g. ClusterRole or dashboard", Target: i.addKinds},
		{Group: groupOutput, Commands: commandManifests, Long: "no-descriptions", Help: "Omit the descriptions from CRDs", Target: &i.NoDescriptions},
		{Group: groupOutput, Commands: commandManifests, Long: "check", Help: "Report whether DIR is up to date, without writing", Target: &i.Check},
	}
}

// checked stores a valid value.
func checked(target *string, check func(string) error) func(string) error {
	return func(value string) error {
		if err := check(value); err != nil {
			return err
		}
		*target = value
		return nil
	}
}

// within stores a number from 1 to a maximum.
func within(target *int, most int) func(string) error {
	return func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > most {
			return fmt.Errorf("want 1 to %d", most)
		}
		*target = n
		return nil
	}
}

func checkNamespace(name string) error {
	if !validation.IsNamespaceName(name) {
		return errors.New("want the name of a namespace: " + validation.NamespaceName)
	}
	return nil
}

// checkConfiguration validates the name of the webhook configurations. It is a part of the names of the webhooks, which must have three parts.
func checkConfiguration(name string) error {
	if !webhookconfig.IsDomain(name) || !strings.Contains(name, ".") {
		return errors.New("want a name with a dot, as Settings.Admission.Managed has it, such as auto.kopf.dev")
	}
	return nil
}

func checkFolder(path string) error {
	if path == "" {
		return errors.New("want a folder")
	}
	return nil
}

// addKinds adds comma-separated kinds.
func (i *InstallOptions) addKinds(value string) error {
	for kind := range strings.SplitSeq(value, ",") {
		if kind = strings.TrimSpace(kind); kind == "" {
			return errors.New("want kinds with commas between them")
		}
		if err := installation.CheckKind(kind); err != nil {
			return err
		}
		i.Only = append(i.Only, kind)
	}
	return nil
}

// Install returns the options of the commands about installation.
func (c *Call) Install() *InstallOptions { return c.install }

// checkInstall returns an error about conflicting options.
func (i *InstallOptions) checkInstall() error {
	switch {
	case i.Out == "" && slices.Contains([]string{"kustomize", "helm"}, i.Format):
		return fmt.Errorf("--format %s makes several files: it needs --out DIR", i.Format)
	case i.Check && i.Out == "":
		return errors.New("--check compares a folder: it needs --out DIR")
	case i.ChartVersion != "" && i.Format != "helm":
		return errors.New("--chart-version is for a chart: it needs --format helm")
	case len(i.Only) > 0 && i.Format == "helm":
		return errors.New("a chart has all objects: --only does not go together with --format helm")
	}
	return nil
}

// installationCommands returns the commands with their options.
func (c *Call) installationCommands(listNamespaces func(*Options) []string) []cliflag.Command {
	c.install = &InstallOptions{}
	return []cliflag.Command{{
		Options: c.installation(commandManifests, listNamespaces),
		Name:    commandManifests, Args: "[flags]", Short: "Print the manifests that install this operator",
		About: "Print the manifests of this operator: custom resource definitions, a service account with minimal permissions (RBAC), a deployment, and related objects. " +
			"They are derived from the registered handlers. The command calls no handler, and needs no cluster.",
		Examples: []cliflag.Example{
			{About: "Install the operator for one namespace", Command: "{} manifests -n web --image example.com/web:1 | kubectl apply -f -"},
			{About: "Write a Helm chart", Command: "{} manifests --replicas 2 --format helm --out chart"},
			{About: "Fail in CI if the chart is not up to date", Command: "{} manifests --replicas 2 --format helm --out chart --check"},
		},
	}, {
		Options: c.installation(commandExplainRights, listNamespaces),
		Name:    commandExplainRights, Args: "[flags]", Short: "Print which handler needs which permission",
		About: "Print which handler needs each permission of the roles that the command manifests prints.",
		Examples: []cliflag.Example{
			{About: "Explain the permissions for one namespace", Command: "{} explain-rights -n web"},
		},
	}}
}
