package cli

import (
	"slices"

	"github.com/kopf-go/kopf/internal/cliflag"
	"github.com/kopf-go/kopf/internal/embedded"
	"github.com/kopf-go/kopf/internal/installation"
)

// commands returns the commands. Their options are stored in the call.
func (l *Line) commands(call *Call) *cliflag.Program {
	o := &call.Options
	call.Inspect.Pods, call.Inspect.PagePort = "app.kubernetes.io/name="+l.Name(), installation.ProbesPort
	p := &cliflag.Program{
		Name: l.Name(), Prefix: "KOPF_", Default: "run",
		About: "A Kubernetes operator, built with kopf. It watches objects in a cluster, and calls its handlers when they change.",
		Examples: []cliflag.Example{
			{About: "Run on the cluster of kubectl, with debugging messages", Command: "{} run --verbose"},
			{About: "Show all flags of run", Command: "{} help run"},
		},
	}
	if embedded.Included {
		p.Examples = append(p.Examples, cliflag.Example{About: "Try it without a cluster", Command: "{} run --embedded --apply crd.yaml"})
	}
	p.Commands = []cliflag.Command{run(), freeze(), resume(), {
		Name: "completion", Args: "bash|zsh|fish", Short: "Generate a completion script for bash, zsh or fish",
		About: "Print a shell completion script for commands, flags and their values.",
		Words: cliflag.Shells(),
		Examples: []cliflag.Example{
			{About: "In bash: add this line to ~/.bashrc", Command: "source <({} completion bash)"},
			{About: "In zsh: write it into a folder of $fpath", Command: "{} completion zsh > \"${fpath[1]}/_{}\""},
			{About: "In fish: write it where fish looks for it", Command: "{} completion fish > ~/.config/fish/completions/{}.fish"},
		},
	}, {
		Name: "version", Args: "[flags]", Short: "Print the versions of kopf, Go and this operator",
		About: "Print the versions of kopf and Go, the platform, and the build information of this operator.",
		Examples: []cliflag.Example{
			{About: "Print the commit of this build", Command: "{} version -o json | jq -r .operator.revision"},
		},
	}, {
		Name: "help", Args: "[command|code]", Short: "Print this help, or that of a command or of a code",
		About:    "Print the help of the program, of a command, or of a code in a message, without a network.",
		Examples: []cliflag.Example{{About: "Explain a log line with help=K305", Command: "{} help K305"}},
	}}
	p.Commands = slices.Insert(p.Commands, 3, append(call.inspectionCommands(), call.installationCommands(l.Namespaces)...)...)
	for i := range p.Commands {
		c := &p.Commands[i]
		switch c.Name {
		case "run", "freeze", "resume", "version":
			c.Options = o.of(c.Name, l.Namespaces)
		case "help":
			for _, other := range p.Commands {
				c.Words = append(c.Words, cliflag.Candidate{Value: other.Name, Help: other.Short})
			}
		}
	}
	return p
}

func run() cliflag.Command {
	c := cliflag.Command{
		Name: "run", Args: "[flags]", Short: "Run the operator until SIGINT or SIGTERM",
		About: "Run the operator until SIGINT or SIGTERM. The second signal skips the grace period of handlers, and the third one exits at once.",
		Examples: []cliflag.Example{
			{About: "Serve the whole cluster that kubectl uses", Command: "{} run"},
			{About: "Serve the namespaces of a team, as a pod does", Command: "{} run -n 'team-a-*' --log-format json \\\n    --liveness http://0.0.0.0:8080/healthz"},
		},
	}
	if embedded.Included {
		c.Examples = append(c.Examples,
			cliflag.Example{About: "Try it without a cluster", Command: "{} run --embedded --apply crd.yaml --apply examples/"},
			cliflag.Example{About: "The same, with manifests from another program", Command: "kubectl kustomize config | {} run --embedded --apply -"})
	}
	return c
}

func freeze() cliflag.Command {
	return cliflag.Command{
		Name: "freeze", Args: "--peering NAME --lifetime DURATION [flags]", Short: "Pause the operators of a peering object for a while",
		About: "Pause all operators of a peering object whose priority is not higher, by adding a record to it. " +
			"The operators resume when the lifetime of the record is over, or when the command resume removes it.",
		Examples: []cliflag.Example{
			{About: "Pause the operators of the cluster for an hour and a half", Command: "{} freeze --peering default --lifetime 1h30m"},
			{About: "Pause those in some namespaces", Command: "{} freeze -n 'team-*' -P default -t 10m -m \"moving the database\""},
		},
	}
}

func resume() cliflag.Command {
	return cliflag.Command{
		Name: "resume", Args: "--peering NAME [flags]", Short: "Resume operators that freeze has paused",
		About: "Remove the record that freeze has written, so that the operators resume.",
		Examples: []cliflag.Example{
			{About: "Resume the operators of the cluster", Command: "{} resume --peering default"},
			{About: "Remove the record that another user has written", Command: "{} resume --peering default --id alice@laptop"},
		},
	}
}
