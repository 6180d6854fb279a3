// Package cliflag reads the options of a command from its arguments and from environment variables, lists them for a help text, and generates
// the scripts that complete them in a shell. Package flag of the standard library has neither letters that go together, as in -Av, nor variables.
package cliflag

import (
	"encoding"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Option is an option of commands.
type Option struct {
	Commands  string // the commands that have it, separated by spaces; all by default
	Short     string // one letter, such as "n" for -n; optional
	Long      string // such as "namespace" for --namespace
	Variables string // environment variables without their prefix, separated by spaces; the first one that is set counts
	Value     string // what its value is, in the help; empty for an option that is true if given
	Repeated  bool   // each occurrence adds a value, and so does each word of a variable
	Negatable bool   // --no-namespace is --namespace=false
	Hidden    bool   // it can be given, but is neither in the help nor completed
	Help      string

	// Target is where the value goes: a *bool, *int, *string, *[]string, an [encoding.TextUnmarshaler], or a func(string) error.
	Target any
}

// Of returns the options that a command has, in their order.
func Of(options []Option, command string) []Option {
	return slices.DeleteFunc(slices.Clone(options), func(o Option) bool {
		return o.Commands != "" && !slices.Contains(strings.Fields(o.Commands), command)
	})
}

// Parse stores the values of the options in the arguments, up to the first argument that is no option. It returns the long names of the
// options, the arguments that are left, and whether the last option was -h or --help, which all commands have. An error names the option.
func Parse(options []Option, args []string) (given map[string]bool, rest []string, help bool, err error) {
	given = make(map[string]bool)
	for len(args) > 0 {
		arg := args[0]
		switch {
		case arg == "--help" || arg == "-h":
			return given, args[1:], true, nil
		case strings.HasPrefix(arg, "--") && len(arg) > 2:
			args, err = parseLong(options, given, arg, args[1:])
		case strings.HasPrefix(arg, "-") && len(arg) > 1 && arg != "--":
			args, err = parseShort(options, given, arg, args[1:])
		case arg == "--" && len(args) == 1:
			return given, nil, false, nil
		default:
			return given, args, false, nil
		}
		if err != nil {
			return given, nil, false, err
		}
	}
	return given, nil, false, nil
}

// parseLong reads "--name", "--no-name", "--name=value", or "--name" with its value in the next argument, and returns the arguments left.
func parseLong(options []Option, given map[string]bool, arg string, rest []string) ([]string, error) {
	name, value, hasValue := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
	i := slices.IndexFunc(options, func(o Option) bool { return o.Long == name || !hasValue && o.Negatable && "no-"+o.Long == name })
	if i < 0 {
		return nil, fmt.Errorf("unknown option %q", "--"+name)
	}
	o := options[i]
	switch {
	case hasValue:
	case o.Long != name:
		value = "false"
	case o.Value == "":
		value = "true"
	case len(rest) == 0:
		return nil, fmt.Errorf("option --%s needs a value: %s", name, o.Value)
	default:
		value, rest = rest[0], rest[1:]
	}
	return rest, o.parse(given, value)
}

// parseShort reads "-n value", "-nvalue", or several letters as in "-Av", and returns the arguments left.
func parseShort(options []Option, given map[string]bool, arg string, rest []string) ([]string, error) {
	for letters := arg[1:]; letters != ""; {
		letter := letters[:1]
		letters = letters[1:]
		i := slices.IndexFunc(options, func(o Option) bool { return o.Short == letter })
		if i < 0 {
			return nil, fmt.Errorf("unknown option %q", "-"+letter)
		}
		o, value := options[i], "true"
		switch {
		case o.Value == "":
		case letters != "":
			value, letters = strings.TrimPrefix(letters, "="), ""
		case len(rest) == 0:
			return nil, fmt.Errorf("option -%s needs a value: %s", letter, o.Value)
		default:
			value, rest = rest[0], rest[1:]
		}
		if err := o.parse(given, value); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// parse stores the value of an option on the command line.
func (o *Option) parse(given map[string]bool, value string) error {
	given[o.Long] = true
	if err := o.set(value); err != nil {
		return fmt.Errorf("option --%s=%q: %w", o.Long, value, err)
	}
	return nil
}

// ParseVariables stores the values of environment variables for the options whose long names are not given. The prefix is that of the variables, such
// as "APP_RUN_", and env returns the value of a variable, as [os.Getenv] does. An empty variable counts as one that is not set.
func ParseVariables(options []Option, given map[string]bool, prefix string, env func(name string) string) error {
	for _, o := range options {
		if given[o.Long] {
			continue
		}
		for name := range strings.FieldsSeq(o.Variables) {
			text := env(prefix + name)
			if text == "" {
				continue
			}
			values := []string{text}
			if o.Repeated {
				values = strings.Fields(text)
			}
			for _, value := range values {
				if err := o.set(value); err != nil {
					return fmt.Errorf("variable %s=%q: %w", prefix+name, value, err)
				}
			}
			break
		}
	}
	return nil
}

// set stores a value in the target.
func (o *Option) set(value string) (err error) {
	switch target := o.Target.(type) {
	case *bool:
		*target, err = ParseBool(value)
	case *int:
		n, bad := strconv.Atoi(value)
		if bad != nil {
			return errors.New("expected a whole number")
		}
		*target = n
	case *string:
		*target = value
	case *[]string:
		if value == "" {
			return errors.New("expected a text that is not empty")
		}
		*target = append(*target, value)
	case encoding.TextUnmarshaler:
		err = target.UnmarshalText([]byte(value))
	case func(string) error:
		err = target(value)
	default:
		panic(fmt.Sprintf("cliflag: option --%s has a target of type %T", o.Long, o.Target))
	}
	return err
}

// ParseBool reads what people write for true and false, in upper or lower case.
func ParseBool(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "1", "t", "true", "y", "yes", "on":
		return true, nil
	case "0", "f", "false", "n", "no", "off":
		return false, nil
	}
	return false, errors.New("expected true or false")
}

// CommandHelp returns the help of a command: what it does, its options, and from which variables they can come, which have a prefix.
func CommandHelp(program, command, purpose, prefix string, options []Option) string {
	prefix += strings.ToUpper(command) + "_"
	return fmt.Sprintf("Usage: %s %s [options]\n\n%s\n\nOptions:\n%s", program, command, purpose, Help(options)) + fmt.Sprintf(`
Every option can come from a variable too, such as %[1]sLOG_FORMAT for
--log-format; an option beats its variable. Several values in one variable, such as
%[1]sNAMESPACES, are separated by spaces.
`, prefix)
}

// Help returns a line for each option, or two if its names are long.
func Help(options []Option) string {
	var b strings.Builder
	for _, o := range options {
		if o.Hidden {
			continue
		}
		names := "    --" + o.Long
		if o.Short != "" {
			names = "-" + o.Short + ", --" + o.Long
		}
		if o.Value != "" {
			names += " " + o.Value
		}
		help := o.Help
		if o.Repeated {
			help += "; repeatable"
		}
		if len(names) < 30 {
			fmt.Fprintf(&b, "  %-30s%s\n", names, help)
		} else {
			fmt.Fprintf(&b, "  %s\n%32s%s\n", names, "", help)
		}
	}
	return b.String()
}
