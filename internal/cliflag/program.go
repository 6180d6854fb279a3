package cliflag

import (
	"fmt"
	"slices"
	"strings"
)

// Program is a program with commands.
type Program struct {
	Name     string // as called in a shell
	About    string // description, in paragraphs
	Prefix   string // of its environment variables, such as "APP_"
	Default  string // the default command
	Commands []Command
	Examples []Example
}

// Command is a command of a program.
type Command struct {
	Name     string
	Args     string // arguments after the name, for the help
	Short    string // one line, which begins with a verb, without a full stop
	About    string // description, in paragraphs
	Examples []Example
	Options  []Option
	Words    []Candidate // valid arguments, for completion
}

// Example is an example in the help.
type Example struct {
	About   string
	Command string // with {} in place of the program name
}

// Command returns a command by name, or an error that lists the commands.
func (p *Program) Command(name string) (*Command, error) {
	if i := slices.IndexFunc(p.Commands, func(c Command) bool { return c.Name == name }); i >= 0 {
		return &p.Commands[i], nil
	}
	var names []string
	for _, c := range p.Commands {
		names = append(names, c.Name)
	}
	meant := didYouMean("", name, names)
	if meant == "" {
		meant = ": want " + Or(names)
	}
	return nil, fmt.Errorf("unknown command %q%s", name, meant)
}

// Split splits the arguments into the name of the command and the rest.
func (p *Program) Split(args []string) (name string, rest []string) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return args[0], args[1:]
	}
	return p.Default, args
}

// width is the width of a terminal.
const width = 80

// Help returns the help of the program: its description, its commands, and examples.
func (p *Program) Help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nUsage:\n  %s [command] [flags]\n\nCommands:\n", paragraphs(p.About), p.Name)
	for _, c := range p.Commands {
		short := c.Short
		if c.Name == p.Default {
			short += " (default)"
		}
		writeEntry(&b, "  "+c.Name, 14, short)
	}
	writeExamples(&b, p.Name, p.Examples)
	fmt.Fprintf(&b, "\nRun \"%s help COMMAND\" for the flags and examples of a command.\n", p.Name)
	return b.String()
}

// CommandHelp returns the help of a command: its description, its options by group, and their environment variables.
func (p *Program) CommandHelp(c *Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nUsage:\n  %s\n", paragraphs(c.About), strings.TrimSpace(p.Name+" "+c.Name+" "+c.Args))
	writeExamples(&b, p.Name, c.Examples)
	writeOptions(&b, c.Options)
	variables := slices.ContainsFunc(c.Options, func(o Option) bool { return o.Variables != "" })
	if !variables {
		return b.String()
	}
	prefix := p.Prefix + strings.ToUpper(c.Name) + "_"
	fmt.Fprintf(&b, "\nEnvironment:\n")
	text := fmt.Sprintf("Each flag can also be set by an environment variable, such as %[1]sLOG_FORMAT for --log-format. A flag beats its environment variable. "+
		"Separate several values in one variable, such as %[1]sNAMESPACES, by spaces.", prefix)
	for _, line := range wrap(text, width-2) {
		fmt.Fprintln(&b, "  "+line)
	}
	return b.String()
}

// writeOptions writes the options under their headings, in order.
func writeOptions(b *strings.Builder, options []Option) {
	var groups []string
	for _, o := range options {
		if !o.Hidden && !slices.Contains(groups, o.Group) {
			groups = append(groups, o.Group)
		}
	}
	for _, group := range groups {
		fmt.Fprintf(b, "\n%s:\n", group)
		for _, o := range options {
			if !o.Hidden && o.Group == group {
				o.writeHelp(b)
			}
		}
	}
}

// writeHelp writes the names and the description of an option.
func (o *Option) writeHelp(b *strings.Builder) {
	names := o.Name()
	if o.Short == "" {
		names = "    " + names
	}
	if o.Negatable {
		names += ", --no-" + o.Long
	}
	if o.Value != "" {
		names += " " + o.Value
	}
	help := o.Help
	if o.Repeated {
		help += " (repeatable)"
	}
	if o.Default != "" {
		help += " (default " + o.Default + ")"
	}
	writeEntry(b, "  "+names, 30, help)
}

// writeEntry writes a description at a column, in several lines if necessary. A long name has its own line.
func writeEntry(b *strings.Builder, name string, column int, text string) {
	if len(name) > column-2 {
		fmt.Fprintln(b, name)
		name = ""
	}
	for _, line := range wrap(text, width-column) {
		fmt.Fprintf(b, "%-*s%s\n", column, name, line)
		name = ""
	}
}

// writeExamples writes the examples with their heading, if there are any.
func writeExamples(b *strings.Builder, program string, examples []Example) {
	for i, e := range examples {
		if i == 0 {
			fmt.Fprint(b, "\nExamples:\n")
		} else {
			fmt.Fprintln(b)
		}
		fmt.Fprintf(b, "  # %s\n", e.About)
		for line := range strings.Lines(strings.ReplaceAll(e.Command, "{}", program)) {
			fmt.Fprint(b, "  "+line)
		}
		fmt.Fprintln(b)
	}
}

// paragraphs wraps paragraphs that are separated by empty lines.
func paragraphs(text string) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			fmt.Fprintln(&b)
		}
		for _, line := range wrap(paragraph, width) {
			fmt.Fprintln(&b, line)
		}
	}
	return b.String()
}

// wrap breaks a text into lines of at most a number of columns, except for longer words.
func wrap(text string, columns int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > columns {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
