// Package cliflag implements command lines with commands and options: it parses options from arguments and environment variables, writes the help, suggests
// similar words for unknown ones, and completes words in a shell. Package flag of the standard library supports neither combined letters, as in -Av, nor
// environment variables.
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

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/suggest"
)

// Option is an option of commands.
type Option struct {
	Group     string // its heading in the help
	Commands  string // commands with the option, separated by spaces; all by default
	Short     string // one letter, such as "n" for -n; optional
	Long      string // such as "namespace" for --namespace
	Variables string // environment variables without their prefix, separated by spaces; the first one set wins
	Value     string // placeholder of the value in the help; "" for a boolean option
	Repeated  bool   // each occurrence adds a value, and so does each word of an environment variable
	Negatable bool   // --no-namespace is --namespace=false
	Hidden    bool   // works, but is neither in the help nor completed
	Help      string // begins with a verb, without a full stop
	Default   string // default value, for the help

	// Values returns the values for shell completion, or nil. With Files, the shell completes file names instead.
	Values func() []Candidate
	Files  bool

	// Target receives the value: a *bool, *int, *string, *[]string, *[time.Duration], an [encoding.TextUnmarshaler], or a func(string) error.
	Target any
}

// Name returns the option as it is written, such as "-n, --namespace".
func (o *Option) Name() string {
	if o.Short == "" {
		return "--" + o.Long
	}
	return "-" + o.Short + ", --" + o.Long
}

// Of returns the options of a command, in order.
func Of(options []Option, command string) (some []Option) {
	for i := range options {
		if o := &options[i]; o.Commands == "" || slices.Contains(strings.Fields(o.Commands), command) {
			some = append(some, *o)
		}
	}
	return some
}

// Parse stores the values of the options in the arguments, up to the first argument that is not an option. It returns the long names of the options, the
// remaining arguments, and whether the last option was -h or --help, which all commands have. An error names the option.
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

// findLong returns the option with a long name, or nil, and whether the name is its negation.
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

// findShort returns the option with a letter, or nil.
func findShort(options []Option, letter string) *Option {
	for i := range options {
		if options[i].Short == letter {
			return &options[i]
		}
	}
	return nil
}

// parseLong parses "--name", "--no-name", "--name=value", or "--name" with its value in the next argument, and returns the remaining arguments.
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

// next takes the value of an option from the next argument, and returns the remaining arguments. An option is not a value: then the user probably took this one
// for a boolean option.
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

// isOption reports whether an argument is an option, with or without a value after "=".
func isOption(options []Option, arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	if long, ok := strings.CutPrefix(name, "--"); ok {
		o, _ := findLong(options, long)
		return o != nil || long == "help"
	}
	letter, ok := strings.CutPrefix(name, "-")
	return ok && len(letter) == 1 && (findShort(options, letter) != nil || letter == "h")
}

// parseShort parses "-n value", "-nvalue", "-n=value", or several letters as in "-Av", and returns the remaining arguments.
func parseShort(options []Option, given map[string]bool, arg string, rest []string) ([]string, error) {
	if name, _, _ := strings.Cut(arg[1:], "="); len(name) > 1 { // as in package flag: hardly a value for the first letter
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

// Invalid returns the error about an invalid value of an option or an environment variable, or nil without an error.
func Invalid(value, name string, err error) error {
	if err == nil {
		return nil
	}
	if strings.Contains(value, "://") || strings.Contains(value, "@") { // perhaps with a password
		value = apirequest.RedactURL(value)
	}
	return fmt.Errorf("invalid value %q for %s: %w", value, name, err)
}

// ParseVariables stores the values of environment variables for the options that are not given. The prefix is that of the environment variables, such as
// "APP_RUN_", and env returns the value of one, as [os.Getenv] does. An empty value counts as unset. The names of the stored options are added to those given. An error names the environment variable.
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
			given[o.Long] = true
			break
		}
	}
	return nil
}

// Misspelled returns the environment variables with the prefix that belong to no option and are
// similar to the variable of one, which is the value. Dissimilar ones may be of other programs, such as
// the links to a Service. The environment is that of [os.Environ].
func Misspelled(options []Option, prefix string, environ []string) map[string]string {
	var known []string
	for _, o := range options {
		known = append(known, strings.Fields(o.Variables)...)
	}
	near := make(map[string]string)
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		word, ours := strings.CutPrefix(name, prefix)
		if !ours || value == "" || slices.Contains(known, word) {
			continue
		}
		if other := suggest.Nearest(word, known); other != "" {
			near[name] = prefix + other
		}
	}
	return near
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

// ParseBool parses the usual words for true and false, in any case.
func ParseBool(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "1", "t", "true", "y", "yes", "on":
		return true, nil
	case "0", "f", "false", "n", "no", "off":
		return false, nil
	}
	return false, errors.New("want true or false")
}

// ParseDuration parses a Go duration, or a number of whole seconds.
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
