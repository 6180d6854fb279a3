package rights

import (
	"fmt"
	"slices"
	"strings"
)

// Explain returns a text about the parts of the operator that need each permission.
func (s *Set) Explain() string {
	var b strings.Builder
	for _, scope := range []Scope{Cluster, Served, Home} {
		var lines []Right
		for _, r := range sorted(s.Rights) {
			if r.Scope == scope {
				lines = append(lines, r)
			}
		}
		if len(lines) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s.where(scope) + ":\n")
		for i, r := range lines {
			what := r.Qualified()
			if r.Name != "" {
				what += " " + r.Name
			}
			if i == 0 || lines[i-1].Qualified() != r.Qualified() || lines[i-1].Name != r.Name {
				fmt.Fprintf(&b, "  %s\n", what)
			}
			fmt.Fprintf(&b, "    %-40s %s\n", strings.Join(SortVerbs(r.Verbs), ", "), r.Reason)
		}
	}
	return b.String()
}

// where returns the namespaces of a scope as text.
func (s *Set) where(scope Scope) string {
	switch {
	case scope == Cluster:
		return "In the cluster"
	case scope == Home:
		return "In the namespace of the operator, " + s.Home
	case s.Namespaces == nil:
		return "In all namespaces"
	case len(s.Namespaces) == 1:
		return "In the namespace " + s.Namespaces[0]
	}
	names := slices.Sorted(slices.Values(s.Namespaces))
	return "In each of the namespaces " + strings.Join(names, ", ")
}
