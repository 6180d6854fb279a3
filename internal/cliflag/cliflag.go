// Package cliflag is a command line of commands and options: it reads options from arguments and from environment variables, writes the help, suggests
// what was meant by unknown words, and completes words in a shell. Package flag of the standard library has neither letters that go together, as in
// -Av, nor variables.
package cliflag

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Option is an option of commands.
type Option struct {
	Group     string // the heading that it is under in the help
	Commands  string // the commands that have it, separated by spaces; all by default
	Short     string // one letter, such as "n" for -n; optional
	Long      string // such as "namespace" for --namespace
	Variables string // environment variables without their prefix, separated by spaces; the first one that is set counts
	Value     string // what its value is, in the help; empty for an option that is true if given
	Repeated  bool   // each occurrence adds a value, and so does each word of a variable
	Negatable bool   // --no-namespace is --namespace=false
	Hidden    bool   // it can be given, but is neither in the help nor completed
	Help      string // begins with a verb, and has no full stop
	Default   string // the default value, for the help

	// Values returns the values that a shell offers, nil for none. Files has it offer the names of files instead.
	Values func() []Candidate
	Files  bool

	// Target is where the value goes: a *bool, *int, *string, *[]string, *[time.Duration], an [encoding.TextUnmarshaler], or a func(string) error.
	Target any
}

// Name returns the option as it is written, such as "-n, --namespace".
func (o *Option) Name() string {
	if o.Short == "" {
		return "--" + o.Long
	}
	return "-" + o.Short + ", --" + o.Long
}

// Of returns the options that a command has, in their order.
func Of(options []Option, command string) (some []Option) {
	for i := range options {
		if o := &options[i]; o.Commands == "" || slices.Contains(strings.Fields(o.Commands), command) {
			some = append(some, *o)
		}
	}
	return some
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

// findLong returns the option of a long name, nil if there is none, and whether the name is that of its negation.
func findLong(options []Option, name string) (o *Option, negated bool) {
	positive, negated := strings.CutPrefix(name, "no-")
	for i := range options {
		switch o := &options[i]; {
		case o.Long == name:
			return o, false
		case negated && o.Negatable && o.Long == positive:
			return o, true
		}
	}
	return nil, false
}

// findShort returns the option of a letter, nil if there is none.
func findShort(options []Option, letter string) *Option {
	for i := range options {
		if options[i].Short == letter {
			return &options[i]
		}
	}
	return nil
}

// parseLong reads "--name", "--no-name", "--name=value", or "--name" with its value in the next argument, and returns the arguments left.
func parseLong(options []Option, given map[string]bool, arg string, rest []string) ([]string, error) {
	name, value, hasValue := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
	o, negated := findLong(options, name)
	switch {
	case o == nil:
		return nil, fmt.Errorf("unknown flag %q%s", "--"+name, didYouMean("--", name, longNames(options)))
	case negated && hasValue:
		return nil, fmt.Errorf("flag --%s takes no value", name)
	case hasValue:
	case negated:
		value = "false"
	case o.Value == "":
		value = "true"
	default:
		var err error
		if value, rest, err = o.next(options, "--"+name, rest); err != nil {
			return nil, err
		}
	}
	return rest, o.parse(given, value)
}

// next takes the value of an option, as it was written, from the next argument, and returns the arguments left. Another option is no value: then
// this one was probably taken for one that is true if given.
func (o *Option) next(options []Option, written string, rest []string) (value string, left []string, err error) {
	missing := fmt.Sprintf("flag %s needs a value: %s", written, o.Value)
	switch {
	case len(rest) == 0:
		return "", nil, errors.New(missing)
	case isOption(options, rest[0]):
		return "", nil, fmt.Errorf("%s; %q is another flag, unless you write %s=%s", missing, rest[0], written, rest[0])
	}
	return rest[0], rest[1:], nil
}

// isOption reports whether an argument is one of the options, with or without a value after an equals sign.
func isOption(options []Option, arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	if long, ok := strings.CutPrefix(name, "--"); ok {
		o, _ := findLong(options, long)
		return o != nil || long == "help"
	}
	letter, ok := strings.CutPrefix(name, "-")
	return ok && len(letter) == 1 && (findShort(options, letter) != nil || letter == "h")
}

// parseShort reads "-n value", "-nvalue", "-n=value", or several letters as in "-Av", and returns the arguments left.
func parseShort(options []Option, given map[string]bool, arg string, rest []string) ([]string, error) {
	if name, _, _ := strings.Cut(arg[1:], "="); len(name) > 1 { // as package flag has it: hardly a value that was meant for the first letter
		if o, _ := findLong(options, name); o != nil && !o.Hidden {
			return nil, fmt.Errorf("unknown flag %q: did you mean %q?", "-"+name, "--"+name)
		}
	}
	for letters := arg[1:]; letters != ""; {
		letter := letters[:1]
		letters = letters[1:]
		o, value := findShort(options, letter), "true"
		switch {
		case o == nil:
			return nil, fmt.Errorf("unknown flag %q%s", "-"+letter, otherCase(options, letter))
		case o.Value == "" && strings.HasPrefix(letters, "="), o.Value != "" && letters != "":
			value, letters = strings.TrimPrefix(letters, "="), ""
		case o.Value == "":
		default:
			var err error
			if value, rest, err = o.next(options, "-"+letter, rest); err != nil {
				return nil, err
			}
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
	return Invalid(value, o.Name(), o.set(value))
}

// Invalid returns the error of a value of an option or a variable, which says what is wrong with it; nil if nothing is.
func Invalid(value, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("invalid value %q for %s: %w", value, name, err)
}

// ParseVariables stores the values of environment variables for the options whose long names are not given. The prefix is that of the variables, such
// as "APP_RUN_", and env returns the value of a variable, as [os.Getenv] does. An empty variable counts as one that is not set. An error names the variable.
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
					return Invalid(value, "the environment variable "+prefix+name, err)
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
			return errors.New("want a whole number")
		}
		*target = n
	case *time.Duration:
		*target, err = ParseDuration(value)
	case *string:
		*target = value
	case *[]string:
		if value == "" {
			return errors.New("want a text that is not empty")
		}
		*target = append(*target, value)
	case encoding.TextUnmarshaler:
		err = target.UnmarshalText([]byte(value))
	case func(string) error:
		err = target(value)
	default:
		panic(fmt.Sprintf("cliflag: flag --%s has a target of type %T", o.Long, o.Target))
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
	return false, errors.New("want true or false")
}

// ParseDuration reads a duration as Go writes it, or a number of whole seconds.
func ParseDuration(value string) (time.Duration, error) {
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		if limit := int64(math.MaxInt64 / time.Second); seconds > limit || seconds < -limit {
			return 0, errors.New("want less than 292 years")
		}
		return time.Duration(seconds) * time.Second, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, errors.New("want a duration such as 90s, 10m or 1h30m, or a number of seconds")
	}
	return d, nil
}
