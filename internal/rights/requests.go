package rights

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apirequest"
)

// Request is a request of an operator, as RBAC sees it.
type Request struct {
	Verb, Group, Resource string // the resource with the subresource after a slash
	Namespace, Name       string
	OrList                bool // whether kopf lists the object instead if it may not get it
}

// RequestOf returns the request for an HTTP request. It reports false for requests without a resource, such as discovery, which all users may send.
func RequestOf(method, path string, query url.Values) (r Request, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		r.Group, parts = parts[1], parts[3:]
	default:
		return r, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		r.Namespace, parts = parts[1], parts[2:]
	}
	r.Resource = parts[0]
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	if len(parts) > 2 {
		r.Resource += "/" + parts[2]
	}
	r.Verb = verbOf(method)
	if r.Name == "" {
		r.Name = apirequest.SelectedName(query.Get("fieldSelector")) // RBAC uses it for names
		switch {
		case method == http.MethodDelete:
			r.Verb = "deletecollection"
		case method == http.MethodGet && query.Get("watch") != "" && query.Get("watch") != "false" && query.Get("watch") != "0":
			r.Verb = "watch"
		case method == http.MethodGet:
			r.Verb = "list"
		}
	} else if r.Namespace == "" && r.Group == "" && parts[0] == "namespaces" {
		r.Namespace = r.Name
	}
	return r, r.Verb != ""
}

// verbOf returns the verb of a request for one object, or "".
func verbOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch, http.MethodDelete:
		return strings.ToLower(method)
	}
	return ""
}

// Qualified returns the resource with its group, such as "deployments.apps/scale".
func (r *Request) Qualified() string { return qualified(r.Group, r.Resource) }

// String returns the request as text.
func (r *Request) String() string {
	text := r.Verb + " " + r.Qualified()
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in the namespace " + r.Namespace
	}
	return text
}

// Set is the set of an operator's permissions.
type Set struct {
	Rights     []Right
	Home       string   // namespace of the operator; "" if unknown, so that each one counts as it
	Namespaces []string // served namespaces; nil for all
}

// Allows reports whether the permissions allow a request.
func (s *Set) Allows(r Request) bool {
	if r.OrList {
		list := r
		list.Verb, list.OrList = "list", false
		if s.Allows(list) {
			return true
		}
	}
	return slices.ContainsFunc(s.Rights, func(right Right) bool { return s.allows(&right, r) })
}

// allows reports whether a permission allows a request.
func (s *Set) allows(right *Right, r Request) bool {
	is := func(own, asked string) bool { return own == asked || own == All }
	if !is(right.Group, r.Group) || !is(right.Resource, r.Resource) || !slices.ContainsFunc(right.Verbs, func(v string) bool { return is(v, r.Verb) }) {
		return false
	}
	if right.Name != "" && right.Name != r.Name {
		return false
	}
	switch right.Scope {
	case Home:
		return s.Home == "" && r.Namespace != "" || s.Home == r.Namespace
	case Served:
		return s.Namespaces == nil || slices.Contains(s.Namespaces, r.Namespace)
	}
	return true
}

// Refused returns a message with the remedy for each request that the permissions do not allow. Requests that differ only in the object share a message.
func (s *Set) Refused(requests []Request) (messages []string) {
	return s.refused(requests, make(map[string]bool))
}

// refused is Refused without the messages that are in said, and adds its own.
func (s *Set) refused(requests []Request, said map[string]bool) (messages []string) {
	everywhere := &Set{Rights: s.Rights, Home: s.Home}
	for _, r := range requests {
		if s.Allows(r) {
			continue
		}
		remedy := fmt.Sprintf("add kopf.Needs(%q, %q)", r.Qualified(), r.Verb)
		if everywhere.Allows(r) {
			remedy = fmt.Sprintf("its permissions are for the namespaces that it serves, which are %s, so bind a role of your own in the other one", strings.Join(s.Namespaces, ", "))
		}
		if key := r.Verb + " " + r.Qualified() + ": " + remedy; !said[key] {
			said[key] = true
			messages = append(messages, fmt.Sprintf("the operator has no permission (RBAC) to %s: %s", &r, remedy))
		}
	}
	return messages
}

// SomeLeftOut reports whether the arguments of a test binary skip some of its tests.
func SomeLeftOut(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.HasPrefix(arg, "-") && value != "" && (name == "test.run" || name == "test.skip")
	})
}

// Needed reports whether one of the requests needs the permission.
func (s *Set) Needed(right *Right, requests []Request) bool {
	return slices.ContainsFunc(requests, func(r Request) bool { return s.allows(right, r) })
}
