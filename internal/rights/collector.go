package rights

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/discovery"
)

// Handler is a handler of objects, with the permissions that it needs.
type Handler struct {
	Name     string             // for people, such as "OnCreate greet"
	Selector discovery.Selector // of its objects
	Reads    bool               // it does not change them
	Follows  []Follow
}

// Follow is a resource that a handler owns or watches.
type Follow struct {
	Selector discovery.Selector
	Owns     bool
}

// Declaration is a declaration of permissions for the client calls of handlers.
type Declaration struct {
	Resource string // plural with its group, and the subresource after a slash
	Name     string // of a single object; "" for all
	Verbs    []string
	Where    string // place in the source
}

// Operator has everything that determines the permissions of an operator.
type Operator struct {
	Handlers  []Handler
	Declared  []Declaration
	Framework Framework            // without the parts that depend on handlers
	Found     []discovery.Resource // known kinds
}

// Needed has the permissions that an operator needs.
type Needed struct {
	Rights   []Right
	Warnings []string
	Problems []error
}

// Needed returns the permissions that the operator needs, for all its handlers and for kopf itself.
func (o *Operator) Needed() *Needed {
	c := &collector{Operator: o}
	framework := o.Framework
	framework.Objects = len(o.Handlers) > 0
	for _, h := range o.Handlers {
		c.handler(&h)
	}
	framework.Far = c.far
	for _, d := range o.Declared {
		c.declaration(&d)
	}
	c.Rights = append(c.Rights, framework.Rights()...)
	return &c.Needed
}

// Err returns the problems, or nil.
func (n *Needed) Err() error { return errors.Join(n.Problems...) }

// collector collects the permissions of an operator.
type collector struct {
	*Operator
	Needed
	far bool // there are handlers for cluster-scoped kinds
}

// add adds a permission for a resource, or a subresource, and for all objects or, with a name, for one object.
func (c *collector) add(r discovery.Resource, subresource, name, reason string, verbs ...string) {
	right := Right{Group: r.Group, Resource: r.Plural, Name: name, Verbs: verbs, Reason: reason, Certain: true}
	if subresource != "" {
		right.Resource += "/" + subresource
	}
	if r.Namespaced {
		right.Scope = Served
	}
	c.Rights = append(c.Rights, right)
}

// handler adds the permissions for a handler of objects.
func (c *collector) handler(h *Handler) {
	for _, r := range c.targets(h.Selector, h.Selector.Text, h.Name) {
		c.far = c.far || !r.Namespaced
		if h.Reads {
			c.add(r, "", "", h.Name, "list", "watch")
			continue
		}
		c.add(r, "", "", h.Name, "list", "watch", "patch")
		if slices.Contains(r.Subresources, "status") {
			c.add(r, "status", "", h.Name, "patch")
		}
	}
	for _, f := range h.Follows {
		for _, r := range c.targets(f.Selector, f.Selector.Text, h.Name) {
			if f.Owns {
				c.add(r, "", "", h.Name, "get", "list", "watch", "create", "patch", "delete")
			} else {
				c.add(r, "", "", h.Name, "list", "watch")
			}
		}
	}
}

// targets returns the resources of a selector. If they depend on the cluster, it returns all resources of the group, with a warning.
func (c *collector) targets(s discovery.Selector, text, who string) []discovery.Resource {
	if !s.Named() {
		group := All
		if s.HasGroup {
			group = s.Group
		}
		near := func(r discovery.Resource) bool { return r.Group == group && r.Namespaced }
		far := !slices.ContainsFunc(c.Found, near) || slices.ContainsFunc(c.Found, func(r discovery.Resource) bool { return r.Group == group && !near(r) })
		where := ""
		if far && c.Framework.Narrow {
			where = " in the whole cluster, as there may be some without namespaces"
		}
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s is for %s, which depends on the cluster: its rule is for all resources of %s%s", who, text, groupName(group), where))
		return []discovery.Resource{{Group: group, Plural: All, Namespaced: !far}}
	}
	s.Where = nil // a condition needs the resources of a cluster
	fit := s.Select(c.Found)
	plural := s.By == "" && strings.ToLower(s.Name) == s.Name
	switch {
	case len(fit) == 1:
		return fit
	case len(fit) > 1:
		c.Problems = append(c.Problems, fmt.Errorf("%s is for %q, which is any of %s: write the group as well", who, text, discovery.Names(fit)))
	case s.HasGroup && s.Group != "" && plural && !slices.ContainsFunc(c.Found, func(r discovery.Resource) bool { return r.Group == s.Group }):
		return []discovery.Resource{{Group: s.Group, Version: s.Version, Plural: s.Name, Namespaced: true, Subresources: []string{"status"}}} // the common case
	default:
		group := cmp.Or(s.Group, "example.com")
		c.Problems = append(c.Problems, fmt.Errorf("%s is for %q, a kind that is not known without a cluster.%s Write its plural and its group, as in %q, or name its definition by --definitions",
			who, text, s.Suggestion(c.Found), strings.ToLower(s.Name)+"."+group))
	}
	return nil
}

func groupName(group string) string {
	switch group {
	case All:
		return "all groups"
	case "":
		return "the core group"
	}
	return "the group " + group
}

// declaration adds the declared permissions.
func (c *collector) declaration(d *Declaration) {
	plural, subresource, _ := strings.Cut(d.Resource, "/")
	s, err := discovery.ParseSelector(plural, nil)
	if err != nil {
		c.Problems = append(c.Problems, err) // impossible, because it was parsed before
		return
	}
	who := fmt.Sprintf("Needs (%s)", d.Where)
	targets := []discovery.Resource{{Group: s.Group, Plural: s.Name}}
	if !IsVirtual(plural) {
		targets = c.targets(s, d.Resource, who)
	}
	for _, r := range targets {
		known := slices.ContainsFunc(c.Found, func(f discovery.Resource) bool { return f.Group == r.Group && f.Plural == r.Plural })
		if err := CheckSubresource(r.Group, r.Plural, subresource, r.Subresources); err != nil && known {
			c.Problems = append(c.Problems, fmt.Errorf("%s: %w", who, err))
		}
		c.add(r, subresource, d.Name, Declared, d.Verbs...)
	}
}
