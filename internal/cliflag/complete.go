package cliflag

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Candidate is a completion for a shell, with a description.
type Candidate struct{ Value, Help string }

// CompleteCommand is the hidden command that the scripts of [Program.Completion] call, with the words before the cursor.
const CompleteCommand = "__complete"

// WriteCandidates writes the completions of the last word. The words follow the program's name. Each candidate has a line, with a tab before its description.
// The last line is ":files" if file names are possible, too, and ":" otherwise. No output means a failure.
func (p *Program) WriteCandidates(w io.Writer, words []string) {
	candidates, files := p.Complete(words)
	for _, c := range candidates {
		if strings.ContainsAny(c.Value, "\t\r\n") { // a line cannot contain it
			continue
		}
		fmt.Fprintln(w, strings.TrimSuffix(c.Value+"\t"+strings.Join(strings.Fields(c.Help), " "), "\t"))
	}
	if files {
		fmt.Fprintln(w, ":files")
	} else {
		fmt.Fprintln(w, ":")
	}
}

// Complete returns the completions of the last word, and whether file names are possible. It stores the valid values of earlier options in their targets, so
// that [Option.Values] can use them.
func (p *Program) Complete(words []string) (candidates []Candidate, files bool) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	all, files := p.offers(words[:len(words)-1], last)
	for _, c := range all {
		if strings.HasPrefix(c.Value, last) {
			candidates = append(candidates, c)
		}
	}
	return candidates, files
}

// offers returns the completions of the last word, and whether file names are possible. It examines the last word no more than necessary.
func (p *Program) offers(before []string, last string) (all []Candidate, files bool) {
	if len(before) == 0 && !strings.HasPrefix(last, "-") {
		for _, c := range p.Commands {
			all = append(all, Candidate{c.Name, c.Short})
		}
		return all, false
	}
	name, before := p.Split(before)
	c, err := p.Command(name)
	if err != nil {
		return nil, false
	}
	given, open, ended := c.skip(before)
	key, _, hasValue := strings.Cut(last, "=")
	switch {
	case open != nil:
		return open.values(""), open.Files && !open.Hidden
	case ended:
		return nil, false
	case hasValue && strings.HasPrefix(key, "--"):
		if o, negated := findLong(c.Options, key[2:]); o != nil && !negated {
			return o.values(key + "="), o.Files && !o.Hidden
		}
		return nil, false
	case !strings.HasPrefix(last, "-") && len(c.Words) > 0:
		return c.Words, false
	}
	return c.optionCandidates(given), false
}

// skip parses the words before the last one. It returns the given options, the option whose value the last word is, or nil, and whether no option may follow.
func (c *Command) skip(words []string) (given map[string]bool, open *Option, ended bool) {
	given = make(map[string]bool)
	for _, word := range words {
		if open != nil {
			_ = open.set(word) // the command itself reports invalid values
			open = nil
			continue
		}
		switch {
		case word == "--":
			return given, nil, true
		case strings.HasPrefix(word, "--"):
			name, _, hasValue := strings.Cut(word[2:], "=")
			if o, negated := findLong(c.Options, name); o != nil && o.Value != "" && !hasValue && !negated {
				given[o.Long], open = true, o
				continue
			}
			_, _ = parseLong(c.Options, given, word, nil)
		case strings.HasPrefix(word, "-"):
			if open = openShort(c.Options, word[1:]); open != nil {
				given[open.Long] = true
				word = word[:len(word)-1]
			}
			if len(word) > 1 {
				_, _ = parseShort(c.Options, given, word, nil)
			}
		default:
			ended = ended || !c.hasWord(word)
		}
	}
	return given, open, ended
}

// openShort returns the last option in the letters if the next word is its value, else nil.
func openShort(options []Option, letters string) *Option {
	for letters != "" {
		o := findShort(options, letters[:1])
		letters = letters[1:]
		switch {
		case o == nil || o.Value != "" && letters != "" || strings.HasPrefix(letters, "="):
			return nil
		case o.Value != "":
			return o
		}
	}
	return nil
}

// hasWord reports whether a word is a valid argument of the command.
func (c *Command) hasWord(word string) bool {
	return slices.ContainsFunc(c.Words, func(w Candidate) bool { return w.Value == word })
}

// values returns the values of the option that begin with a prefix.
func (o *Option) values(prefix string) (all []Candidate) {
	if o.Hidden || o.Values == nil {
		return nil
	}
	for _, c := range o.Values() {
		all = append(all, Candidate{prefix + c.Value, c.Help})
	}
	return all
}

// optionCandidates returns the options that may be given, or given again.
func (c *Command) optionCandidates(given map[string]bool) (all []Candidate) {
	for _, o := range c.Options {
		if o.Hidden || given[o.Long] && !o.Repeated {
			continue
		}
		all = append(all, Candidate{"--" + o.Long, o.Help})
		if o.Negatable {
			all = append(all, Candidate{"--no-" + o.Long, "The opposite of --" + o.Long})
		}
	}
	return append(all, Candidate{"--help", "Print the help of the command"})
}
