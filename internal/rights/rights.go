// Package rights knows what an operator may do: which part of it needs which right, what rules of RBAC that makes, and whether they allow a request.
package rights

import (
	"cmp"
	"slices"
	"strings"
)

// All stands for all groups, resources or verbs.
const All = "*"

// Scope is where a right is needed.
type Scope int

const (
	// Cluster is everywhere, for resources without namespaces.
	Cluster Scope = iota
	// Served is in the namespaces that the operator serves.
	Served
	// Home is in the namespace of the operator itself.
	Home
)

// Right is what one part of an operator needs to do with a resource.
type Right struct {
	Group    string // "" for the core group
	Resource string // the plural, with the subresource after a slash
	Name     string // of the only object; "" for all
	Verbs    []string
	Scope    Scope
	Reason   string // which handler needs it, or what the framework does with it
	Certain  bool   // whether a test of the operator can be expected to need it
}

// Qualified returns the resource with its group, as in "deployments.apps/scale".
func (r *Right) Qualified() string { return qualified(r.Group, r.Resource) }

// Declared is the reason of rights that were declared verb by verb.
const Declared = "Needs"

// Parts returns the right as parts each of which a test can be expected to need: the verbs of one that was declared, or the whole one.
func (r *Right) Parts() (parts []Right) {
	if r.Reason != Declared {
		return []Right{*r}
	}
	for _, verb := range r.Verbs {
		part := *r
		part.Verbs = []string{verb}
		parts = append(parts, part)
	}
	return parts
}

// Rule is a rule of a role.
type Rule struct {
	Groups, Resources, Names, Verbs []string
	Reasons                         []string
}

// verbOrder is the order of the verbs in rules. All others follow.
var verbOrder = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// SortVerbs returns each verb once, in the usual order.
func SortVerbs(verbs []string) []string {
	rank := func(verb string) int {
		if i := slices.Index(verbOrder, verb); i >= 0 {
			return i
		}
		return len(verbOrder)
	}
	sorted := slices.Clone(verbs)
	slices.SortFunc(sorted, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	return slices.Compact(sorted)
}

// Merge returns the rights of some scopes as rules, as few as there can be without giving more. Its result depends on nothing but the set of rights.
func Merge(all []Right, scopes ...Scope) []Rule {
	var merged []Right
	for _, r := range sorted(all) {
		if !slices.Contains(scopes, r.Scope) {
			continue
		}
		i := slices.IndexFunc(merged, func(m Right) bool { return m.Group == r.Group && m.Resource == r.Resource && m.Name == r.Name })
		if i < 0 {
			merged = append(merged, Right{Group: r.Group, Resource: r.Resource, Name: r.Name, Verbs: SortVerbs(r.Verbs), Reason: r.Reason})
			continue
		}
		m := &merged[i]
		m.Verbs = SortVerbs(slices.Concat(m.Verbs, r.Verbs))
		m.Reason = join(m.Reason, r.Reason)
	}
	return combine(withoutCovered(merged))
}

// sorted returns the rights in the order of their rules.
func sorted(all []Right) []Right {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Right) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason),
			slices.Compare(SortVerbs(a.Verbs), SortVerbs(b.Verbs)))
	})
	return all
}

// join adds a line to the reasons, unless it is there.
func join(reasons, reason string) string {
	if slices.Contains(strings.Split(reasons, "\n"), reason) {
		return reasons
	}
	return reasons + "\n" + reason
}

// withoutCovered drops the verbs that a right for more objects gives as well.
func withoutCovered(merged []Right) []Right {
	var left []Right
	for i, r := range merged {
		for j, other := range merged {
			if i != j && other.covers(&r) {
				r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(verb string) bool { return slices.Contains(other.Verbs, verb) || slices.Contains(other.Verbs, All) })
			}
		}
		if len(r.Verbs) > 0 {
			left = append(left, r)
		}
	}
	return left
}

// covers reports whether all objects of another right are among those of the right. The two differ.
func (r *Right) covers(other *Right) bool {
	return (r.Group == other.Group || r.Group == All) && (r.Resource == other.Resource || r.Resource == All) && (r.Name == other.Name || r.Name == "")
}

// combine makes one rule of what differs in nothing but the name, the resource or the group.
func combine(merged []Right) []Rule {
	var rules []Rule
	for _, r := range merged {
		rule := Rule{Groups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: r.Verbs, Reasons: strings.Split(r.Reason, "\n")}
		if r.Name != "" {
			rule.Names = []string{r.Name}
		}
		rules = append(rules, rule)
	}
	rules = merge(rules, func(r *Rule) *[]string { return &r.Names }, func(r *Rule) bool { return r.Names != nil })
	rules = merge(rules, func(r *Rule) *[]string { return &r.Resources }, func(*Rule) bool { return true })
	return merge(rules, func(r *Rule) *[]string { return &r.Groups }, func(*Rule) bool { return true })
}

// merge unites the rules that differ in one of their lists only, if they may be united.
func merge(rules []Rule, list func(*Rule) *[]string, may func(*Rule) bool) (united []Rule) {
	for _, r := range rules {
		own := *list(&r)
		same := func(other Rule) bool {
			before := *list(&other)
			*list(&other) = own
			return may(&r) && before != nil && other.equals(&r)
		}
		i := slices.IndexFunc(united, same)
		if i < 0 {
			united = append(united, r)
			continue
		}
		u := &united[i]
		values := slices.Concat(*list(u), own)
		slices.Sort(values)
		*list(u) = slices.Compact(values)
		for _, reason := range r.Reasons {
			if !slices.Contains(u.Reasons, reason) {
				u.Reasons = append(u.Reasons, reason)
			}
		}
		slices.Sort(u.Reasons)
	}
	return united
}

func (r *Rule) equals(other *Rule) bool {
	return slices.Equal(r.Groups, other.Groups) && slices.Equal(r.Resources, other.Resources) && slices.Equal(r.Names, other.Names) && slices.Equal(r.Verbs, other.Verbs)
}
