package cliflag

import (
	"fmt"
	"strings"
)

// Command is a command of a program, with what can follow it.
type Command struct {
	Name    string
	Options []Option
	Words   []string // arguments that are no options
}

// choices returns what a shell offers after the command.
func (c *Command) choices() []string {
	words := c.Words
	for _, o := range c.Options {
		if !o.Hidden {
			words = append(words[:len(words):len(words)], "--"+o.Long)
		}
	}
	return words
}

// Completion returns the script that completes the commands of a program in bash, zsh or fish, and an error for any other shell.
func Completion(shell, program string, commands []Command) (string, error) {
	switch shell {
	case "bash":
		function := functionOf(program)
		return completionFunction(function, "${COMP_WORDS[1]}", "COMP_CWORD", commands,
			`COMPREPLY=($(compgen -W "$choices" -- "${COMP_WORDS[COMP_CWORD]}"))`) +
			fmt.Sprintf("complete -o default -F %s %s\n", function, program), nil
	case "zsh":
		function := functionOf(program)
		return fmt.Sprintf("#compdef %s\n", program) +
			completionFunction(function, "$words[2]", "CURRENT - 1", commands, `compadd -- ${=choices}; _files`) +
			fmt.Sprintf("compdef %s %s\n", function, program), nil
	case "fish":
		return fishCompletion(program, commands), nil
	}
	return "", fmt.Errorf("unknown shell %q: expected bash, zsh or fish", shell)
}

// functionOf returns the name of the shell function that completes a program.
func functionOf(program string) string {
	return "_kopf_" + strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return '_'
		}
		return r
	}, program)
}

// completionFunction returns a function of bash or zsh. It finds the command in one expression and the number of the word in another, and ends with reply,
// which offers $choices.
func completionFunction(name, command, number string, commands []Command, reply string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s() {\n  local choices=\"\"\n  case \"%s\" in\n", name, command)
	for _, c := range commands {
		if choices := c.choices(); len(choices) > 0 {
			fmt.Fprintf(&b, "    %s) choices=\"%s\" ;;\n", c.Name, strings.Join(choices, " "))
		}
	}
	fmt.Fprintf(&b, "  esac\n  [ $((%s)) -le 1 ] && choices=\"%s\"\n  %s\n}\n", number, names(commands), reply)
	return b.String()
}

func fishCompletion(program string, commands []Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "complete -c %s -n __fish_use_subcommand -f -a '%s'\n", program, names(commands))
	for _, c := range commands {
		seen := fmt.Sprintf("complete -c %s -n '__fish_seen_subcommand_from %s'", program, c.Name)
		if len(c.Words) > 0 {
			fmt.Fprintf(&b, "%s -f -a '%s'\n", seen, strings.Join(c.Words, " "))
		}
		for _, o := range c.Options {
			if !o.Hidden {
				fmt.Fprintf(&b, "%s -l %s\n", seen, o.Long)
			}
		}
	}
	return b.String()
}

// names returns the names of commands, separated by spaces.
func names(commands []Command) string {
	var all []string
	for _, c := range commands {
		all = append(all, c.Name)
	}
	return strings.Join(all, " ")
}
