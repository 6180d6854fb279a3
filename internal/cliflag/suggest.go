package cliflag

import (
	"fmt"
	"strings"

	"github.com/kopf-go/kopf/internal/suggest"
)

// suggestions is the maximum number of suggestions.
const suggestions = 3

// Suggest returns the names that a word probably means: those that begin with it, else the most similar ones. It ignores case.
func Suggest(word string, names []string) (near []string) {
	if word == "" {
		return nil
	}
	word = strings.ToLower(word)
	least := max(1, (len(word)+1)/4)
	for _, name := range names {
		lower := strings.ToLower(name)
		d := suggest.Distance(word, lower, least+1)
		if strings.HasPrefix(lower, word) {
			d = -1
		}
		if d < least {
			near, least = nil, d
		}
		if d == least {
			near = append(near, name)
		}
	}
	return near[:min(len(near), suggestions)]
}

// didYouMean returns the end of an error message about an unknown word: the similar names, with a prefix, or "".
func didYouMean(prefix, word string, names []string) string {
	near := Suggest(word, names)
	if len(near) == 0 {
		return ""
	}
	for i, name := range near {
		near[i] = fmt.Sprintf("%q", prefix+name)
	}
	return ": did you mean " + Or(near) + "?"
}

// otherCase is didYouMean for letters, such as -a and -A.
func otherCase(options []Option, letter string) string {
	for _, o := range options {
		if o.Short != "" && strings.EqualFold(o.Short, letter) && !o.Hidden {
			return fmt.Sprintf(": did you mean %q?", "-"+o.Short)
		}
	}
	return ""
}

// longNames returns the long names of the visible options, and of their negations.
func longNames(options []Option) (names []string) {
	for _, o := range options {
		if o.Hidden {
			continue
		}
		names = append(names, o.Long)
		if o.Negatable {
			names = append(names, "no-"+o.Long)
		}
	}
	return append(names, "help")
}

// Or joins words, as in "a, b or c".
func Or(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
