package rights

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/webhookconfig"
)

// Request is what an operator has done with a resource, as RBAC sees it.
type Request struct {
	Verb, Group, Resource string // the resource with the subresource after a slash
	Namespace, Name       string
}

// RequestOf returns what an HTTP request does. One that is not about a resource, such as a discovery, is allowed to all users, and ok is false.
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
		r.Name, _ = strings.CutPrefix(query.Get("fieldSelector"), "metadata.name=") // by which RBAC looks for names
		if strings.ContainsAny(r.Name, "=,") {
			r.Name = ""
		}
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

// verbOf returns the verb of a request for one object, "" if there is none.
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

// Qualified returns the resource with its group, as in "deployments.apps/scale".
func (r *Request) Qualified() string { return qualified(r.Group, r.Resource) }

// String returns the request as people say it.
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

// Set is all that an operator may do.
type Set struct {
	Rights     []Right
	Home       string   // the namespace of the operator; "" if it is not known, so that all count as it
	Namespaces []string // those that are served; nil for all
}

// Allows reports whether the rights allow a request.
func (s *Set) Allows(r Request) bool {
	return slices.ContainsFunc(s.Rights, func(right Right) bool { return s.allows(&right, r) })
}

// allows reports whether one of the rights allows a request.
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

// Refused returns what to say about the requests that the rights do not allow: what to add. It is said once of requests that differ in nothing but the object.
func (s *Set) Refused(requests []Request) (messages []string) {
	everywhere := &Set{Rights: s.Rights, Home: s.Home}
	said := make(map[string]bool)
	for _, r := range requests {
		if s.Allows(r) || r.Verb == "create" && r.Group == webhookconfig.Group { // these configurations are made by the manifests
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

// SomeLeftOut reports whether the arguments of a test binary leave some of its tests out.
func SomeLeftOut(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.HasPrefix(arg, "-") && value != "" && (name == "test.run" || name == "test.skip")
	})
}

// Needed reports whether one of the requests needs the right.
func (s *Set) Needed(right *Right, requests []Request) bool {
	return slices.ContainsFunc(requests, func(r Request) bool { return s.allows(right, r) })
}
