package rights

import (
	"maps"
	"slices"
	"strings"
)

// Comparison compares the requests of operators with their permissions. Its zero value is ready to use.
type Comparison struct {
	needed  map[string]bool     // by description of a permission: whether it was needed
	reasons map[string][]string // by description
	refused map[string]bool     // by permission and remedy: whether the message was returned
}

// Add adds the requests of an operator, and returns a message for each that its permissions do not allow. It does not repeat the
// messages for an earlier operator.
func (c *Comparison) Add(set *Set, requests []Request) (refused []string) {
	if c.needed == nil {
		c.needed, c.reasons, c.refused = make(map[string]bool), make(map[string][]string), make(map[string]bool)
	}
	for _, right := range set.Rights {
		if !right.Certain {
			continue
		}
		for _, part := range right.Parts() {
			what := strings.TrimSpace(strings.Join(part.Verbs, ", ") + " " + part.Qualified() + " " + part.Name)
			if !slices.Contains(c.reasons[what], part.Reason) {
				c.reasons[what] = append(c.reasons[what], part.Reason)
			}
			c.needed[what] = c.needed[what] || set.Needed(&part, requests)
		}
	}
	return set.refused(requests, c.refused)
}

// Unneeded returns the permissions that no operator has needed.
func (c *Comparison) Unneeded() (messages []string) {
	for _, what := range slices.Sorted(maps.Keys(c.needed)) {
		if !c.needed[what] {
			messages = append(messages, "no test has needed the permission to "+what+", for "+strings.Join(c.reasons[what], ", "))
		}
	}
	return messages
}
