// Package rights manages the permissions of an operator: which part of it needs which permission, the RBAC rules for them, and whether they allow a request.
package rights

import (
	"cmp"
	"slices"
	"strings"
)

// All stands for all groups, resources or verbs.
const All = "*"

// Scope is the scope of a permission.
type Scope int

const (
	// Cluster is the whole cluster, for cluster-scoped resources.
	Cluster Scope = iota
	// Served is the served namespaces.
	Served
	// Home is the namespace of the operator.
	Home
)

// Right is a permission that one part of an operator needs.
type Right struct {
	Group    string // "" for the core group
	Resource string // plural, with the subresource after a slash
	Name     string // of a single object; "" for all
	Verbs    []string
	Scope    Scope
	Reason   string // handler that needs it, or purpose in kopf
	Certain  bool   // a test of the operator is expected to need it
}

// Qualified returns the resource with its group, such as "deployments.apps/scale".
func (r *Right) Qualified() string { return qualified(r.Group, r.Resource) }

// Declared is the reason of permissions declared verb by verb.
const Declared = "Needs"

// Parts splits the permission into the parts that a test is expected to need: by verb if it was declared, or as a whole.
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

// verbOrder is the order of verbs in rules. Other verbs follow.
var verbOrder = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// SortVerbs returns the distinct verbs in the usual order.
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

// Merge combines the permissions of some scopes into as few rules as possible, without granting more. Its result is deterministic.
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

// sorted returns the permissions in the order of their rules.
func sorted(all []Right) []Right {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Right) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason),
			slices.Compare(SortVerbs(a.Verbs), SortVerbs(b.Verbs)))
	})
	return all
}

// join adds a line to the reasons, if missing.
func join(reasons, reason string) string {
	if slices.Contains(strings.Split(reasons, "\n"), reason) {
		return reasons
	}
	return reasons + "\n" + reason
}

// withoutCovered removes the verbs that another permission grants for more objects.
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

// covers reports whether the permission includes all objects of another, different one.
func (r *Right) covers(other *Right) bool {
	return (r.Group == other.Group || r.Group == All) && (r.Resource == other.Resource || r.Resource == All) && (r.Name == other.Name || r.Name == "")
}

// combine merges permissions that differ only in the name, the resource or the group.
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

// merge combines rules that differ in only one of their lists, where may returns true.
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
