// Package namespaces matches namespaces with patterns: lists of globs, some of them negated.
package namespaces

import (
	"fmt"
	"path"
	"strings"
)

// Match reports whether a pattern matches a namespace. A pattern is a list of globs. The first one decides. A later negated glob excludes the name, and a later
// plain one includes it again, if the first one matched.
func Match(pattern, name string) bool {
	globs := strings.Split(pattern, ",")
	for i, g := range globs {
		globs[i] = strings.TrimSpace(g)
	}
	if strings.HasPrefix(globs[0], "!") {
		globs = append([]string{"*"}, globs...)
	}
	first := matchGlob(globs[0], name)
	matches := first
	for _, g := range globs[1:] {
		if negated, ok := strings.CutPrefix(g, "!"); ok {
			matches = matches && !matchGlob(negated, name)
		} else if matchGlob(g, name) {
			matches = first
		}
	}
	return matches
}

// matchGlob is path.Match with the shell syntax for negated classes.
func matchGlob(glob, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(glob, "[!", "[^"), name)
	return err == nil && ok
}

// Check returns an error for invalid namespace patterns, and warnings about patterns that are probably mistakes.
func Check(patterns []string) (warnings []string, err error) {
	for _, pattern := range patterns {
		excludes := false // whether a part before excludes namespaces, which a later part can include again
		for i, g := range strings.Split(pattern, ",") {
			g = strings.TrimSpace(g)
			negated := strings.HasPrefix(g, "!")
			if _, err := path.Match(strings.ReplaceAll(strings.TrimPrefix(g, "!"), "[!", "[^"), ""); err != nil || g == "" || g == "!" {
				return nil, fmt.Errorf("invalid part %q of the namespace pattern %q: want a name, or a glob such as \"team-*\"", g, pattern)
			}
			if name := strings.TrimPrefix(g, "!"); strings.Trim(name, nameSigns+globSigns) != "" || !strings.ContainsAny(name, "*?[") && !IsName(name) {
				return nil, fmt.Errorf("invalid namespace %q: want a name of at most 63 lower-case letters, digits and \"-\", or a glob such as \"team-*\"", name)
			}
			first := strings.TrimSpace(strings.Split(pattern, ",")[0])
			never := !strings.ContainsAny(first, "*?[!") && !matchGlob(g, first)
			excludes = excludes || negated
			if i > 0 && !negated && (never || !excludes) {
				warnings = append(warnings, fmt.Sprintf("In the namespace pattern %q, the part %q has no effect: the first part selects the namespaces. To serve several namespaces, give several patterns.", pattern, g))
			}
		}
	}
	return warnings, nil
}

// IsName reports whether a name is a valid namespace name: a label (RFC 1123).
func IsName(name string) bool {
	return name != "" && len(name) <= 63 && strings.Trim(name, nameSigns) == "" && name[0] != '-' && name[len(name)-1] != '-'
}

// The characters of names, and the additional ones of globs.
const (
	nameSigns = "abcdefghijklmnopqrstuvwxyz0123456789-"
	globSigns = `*?[]!^\`
)

// IsPattern reports whether a text is not just the name of one namespace.
func IsPattern(text string) bool { return strings.ContainsAny(text, "!*?[,") }

// ExactNames returns the patterns if all of them are names, else nil.
func ExactNames(patterns []string) []any {
	var names []any
	for _, pattern := range patterns {
		if IsPattern(pattern) {
			return nil
		}
		names = append(names, strings.TrimSpace(pattern))
	}
	return names
}
