package kopf

import (
	"fmt"
	"strings"
)

// This file knows what completes the command line in a shell. It runs on the goroutine of the command.

// completionCommands are the commands in the order of the help.
const completionCommands = "run freeze resume completion version help"

// completion prints the script for a shell.
func (c *command) completion(args []string) int {
	shell := strings.Join(args, " ")
	var b strings.Builder
	name := program()
	function := "_kopf_" + strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return '_'
		}
		return r
	}, name)
	switch shell {
	case "bash", "zsh":
		current, all, reply := "${COMP_WORDS[1]}", "COMP_CWORD", `COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))`
		if shell == "zsh" {
			fmt.Fprintf(&b, "#compdef %s\n", name)
			current, all, reply = "$words[2]", "CURRENT - 1", `compadd -- ${=choices}; _files`
		}
		fmt.Fprintf(&b, "%s() {\n  local choices=\"\"\n  case \"%s\" in\n", function, current)
		for _, command := range strings.Fields("run freeze resume") {
			fmt.Fprintf(&b, "    %s) choices=\"%s\" ;;\n", command, strings.Join(longNames(command), " "))
		}
		fmt.Fprintf(&b, "    completion) choices=\"bash zsh fish\" ;;\n  esac\n  [ $((%s)) -le 1 ] && choices=\"%s\"\n  %s\n}\n",
			all, completionCommands, strings.ReplaceAll(reply, "$words", "$choices"))
		if shell == "zsh" {
			fmt.Fprintf(&b, "compdef %s %s\n", function, name)
		} else {
			fmt.Fprintf(&b, "complete -o default -F %s %s\n", function, name)
		}
	case "fish":
		fmt.Fprintf(&b, "complete -c %s -n __fish_use_subcommand -f -a '%s'\n", name, completionCommands)
		fmt.Fprintf(&b, "complete -c %s -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n", name)
		for _, command := range strings.Fields("run freeze resume") {
			for _, option := range longNames(command) {
				fmt.Fprintf(&b, "complete -c %s -n '__fish_seen_subcommand_from %s' -l %s\n", name, command, strings.TrimPrefix(option, "--"))
			}
		}
	default:
		return c.misused("run", fmt.Errorf("unknown shell %q: expected bash, zsh or fish", shell))
	}
	fmt.Fprint(c.stdout, b.String())
	return 0
}

// longNames returns the options of a command.
func longNames(command string) []string {
	var names []string
	for _, f := range new(runOptions).of(command) {
		if !f.hidden {
			names = append(names, "--"+f.long)
		}
	}
	return names
}
