package discovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/suggest"
	"github.com/kopf-go/kopf/internal/validation"
)

// This file selects resources, and suggests resources for misspelled names.

// everything is the selector of all resources.
const everything = "*"

// Selector selects resources. See kopf.Selector for its syntax.
type Selector struct {
	By             string // meaning of the name: "kind", "category", "*" for everything, "" for any name
	Name           string
	Version, Group string
	HasGroup       bool                // the group is given; the core group is ""
	Text           string              // for messages
	Where          func(Resource) bool // additional condition; nil for none
}

// ParseSelector parses a selector, which may be empty if there is a condition.
func ParseSelector(written string, where func(Resource) bool) (Selector, error) {
	s, text := Selector{Where: where, Text: written}, written
	if where != nil {
		s.Text = strings.TrimSpace(written + " (with a Where option)")
	}
	if text == "" && where != nil {
		text = everything
	}
	for _, by := range []string{"kind", "category"} {
		if rest, ok := strings.CutPrefix(text, by+":"); ok {
			s.By, text = by, rest
		}
	}
	s.Name = text
	dots := false
	if strings.Contains(text, "/") {
		s.readSlashes(text)
	} else if s.Name, text, dots = strings.Cut(text, "."); dots {
		s.readDots(text)
	}
	if s.By == "" && s.Name == everything {
		s.By, s.Name = "*", ""
	}
	if !s.wellFormed(dots) {
		return s, fmt.Errorf("invalid selector %q: want \"plural\", \"plural.group\", \"plural.version.group\" or \"group/version/plural\"", written)
	}
	return s, nil
}

// wellFormed reports whether all parts could be names in Kubernetes. The group may be empty for the core group, but not in the form with dots.
func (s *Selector) wellFormed(dots bool) bool {
	return (s.By == "*" || validation.IsName(s.Name, "-")) &&
		(s.Version == "" || validation.IsName(s.Version, "-")) &&
		(s.Group == "" && !(dots && s.HasGroup) || validation.IsName(s.Group, "-."))
}

// readSlashes parses group/version/name, group/name, and v1/name.
func (s *Selector) readSlashes(text string) {
	s.HasGroup = true
	parts := strings.Split(text, "/")
	s.Name = parts[len(parts)-1]
	switch {
	case len(parts) == 3 && parts[1] != "":
		s.Group, s.Version = parts[0], parts[1]
	case len(parts) == 2 && parts[0] == "v1":
		s.Version = parts[0]
	case len(parts) == 2:
		s.Group = parts[0]
	default:
		s.Name = ""
	}
}

// readDots parses the text after the name: version.group, version, or group.
func (s *Selector) readDots(rest string) {
	first, group, more := strings.Cut(rest, ".")
	if !validation.IsVersion(first) {
		s.Group, s.HasGroup = rest, true
		return
	}
	s.Version = first
	if more {
		s.Group, s.HasGroup = group, true
	}
}

// Named reports whether the selector names a resource, for which the core group takes precedence.
func (s Selector) Named() bool { return s.By == "" || s.By == "kind" }

// Specific reports whether the selector means one resource, however many it matches.
func (s Selector) Specific() bool { return s.Where == nil && s.Named() }

// Matches reports whether the selector matches a resource.
func (s Selector) Matches(r Resource) bool {
	return s.inVersion(r) && (s.Where == nil || s.Where(r)) && s.byName(r)
}

// Select returns the matching resources, sorted. If a name matches in the core group, the other groups are ignored.
func (s Selector) Select(found []Resource) (fit []Resource) {
	fit = keep(found, s.Matches)
	core := func(r Resource) bool { return r.Group == "" }
	if s.Named() && slices.ContainsFunc(fit, core) {
		fit = keep(fit, core)
	}
	sortByName(fit)
	return fit
}

// keep filters resources.
func keep(all []Resource, wanted func(Resource) bool) (kept []Resource) {
	for _, r := range all {
		if wanted(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// sortByName sorts resources by name, in a stable order.
func sortByName(all []Resource) {
	named := make(map[string][]Resource, len(all))
	for _, r := range all {
		named[r.Name()] = append(named[r.Name()], r)
	}
	at := 0
	for _, name := range rawjson.SortedKeys(named) {
		at += copy(all[at:], named[name])
	}
}

// inVersion reports whether the resource has the selected group and version.
func (s Selector) inVersion(r Resource) bool {
	if s.HasGroup && s.Group != r.Group || s.Version != "" && s.Version != r.Version {
		return false
	}
	return s.Version != "" || r.Preferred || s.Where != nil && s.By == "*"
}

// byName reports whether the name matches the resource.
func (s Selector) byName(r Resource) bool {
	switch s.By {
	case "*":
		return r.Plural != "events" || r.Group != "" && r.Group != "events.k8s.io"
	case "kind":
		return r.Kind == s.Name
	case "category":
		return slices.Contains(r.Categories, s.Name)
	}
	return s.Name == r.Kind || s.Name == r.Plural || s.Name == r.Singular || slices.Contains(r.ShortNames, s.Name)
}

// Servable returns the resources among the matching ones for which the handler with the ID can be called, and warnings about the others. Handlers that store
// something must be able to patch the objects.
func (s Selector) Servable(fit, found []Resource, patches bool, id string) (able []Resource, warnings []string) {
	if len(fit) == 0 {
		return nil, []string{fmt.Sprintf("Unresolved resources cannot be served (try creating their CRDs): %s.%s", s.Text, s.Suggestion(found))}
	}
	if s.Specific() && len(fit) > 1 {
		return nil, []string{fmt.Sprintf("Ambiguous resources will not be served (try specifying API groups): %s is any of %s.", s.Text, Names(fit))}
	}
	var bad, mute []Resource
	for _, r := range fit {
		list := &able
		switch {
		case !r.watchable():
			list = &bad
		case patches && !slices.Contains(r.Verbs, "patch"):
			list = &mute
		}
		*list = append(*list, r)
	}
	if len(bad) > 0 {
		warnings = append(warnings, fmt.Sprintf("Non-watchable resources will not be served: %s.", Names(bad)))
	}
	if len(mute) > 0 {
		warnings = append(warnings, fmt.Sprintf("Non-patchable resources will not be served by %q: %s.", id, Names(mute)))
	}
	return able, warnings
}

// Followable returns the matching resource, or a warning why the handler with the ID cannot watch it.
func (s Selector) Followable(found []Resource, id string) (r Resource, warning string) {
	switch fit := s.Select(found); {
	case len(fit) == 0:
		return r, fmt.Sprintf("Unresolved resources cannot be followed by %q (try creating their CRDs): %s.%s", id, s.Text, s.Suggestion(found))
	case len(fit) > 1:
		return r, fmt.Sprintf("Ambiguous resources will not be followed by %q (try specifying API groups): %s is any of %s.", id, s.Text, Names(fit))
	case !fit[0].watchable():
		return r, fmt.Sprintf("Non-watchable resources will not be followed by %q: %s.", id, fit[0].Name())
	default:
		return fit[0], ""
	}
}

func (r *Resource) watchable() bool {
	return slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}

// Suggestion returns the end of a message about a selector without matches: the resource that was probably meant. It is "" for a selector of many resources.
func (s Selector) Suggestion(found []Resource) string {
	if !s.Specific() {
		return ""
	}
	found = slices.Clone(found)
	sortByName(found) // so that the result is deterministic
	var fit []Resource
	for _, r := range found {
		if (!s.HasGroup || s.Group == r.Group) && (s.Version != "" || r.Preferred) {
			fit = append(fit, r)
		}
	}
	r := nearest(s.Name, fit, s.By == "kind")
	if r == nil {
		return ""
	}
	name := r.Plural
	if s.By == "kind" {
		name = r.Kind
	}
	if s.Version != "" {
		name += "." + r.Version
	}
	return " Did you mean " + strings.TrimSuffix(name+"."+r.Group, ".") + "?"
}

// UnknownKind returns the error about an unknown kind, with the kind that was probably meant.
func UnknownKind(apiVersion, kind string, found []Resource) error {
	var fit []Resource
	for _, r := range found {
		if r.apiVersion() == apiVersion {
			fit = append(fit, r)
		}
	}
	text := fmt.Sprintf("there is no kind %q in %s", kind, apiVersion)
	switch r := nearest(kind, fit, false); {
	case r == nil:
		return errors.New(text)
	case slices.ContainsFunc(r.names(), func(name string) bool { return strings.EqualFold(name, kind) }):
		return fmt.Errorf("%s: its kind is %s", text, r.Kind)
	default:
		return fmt.Errorf("%s: did you mean %s?", text, r.Kind)
	}
}

// nearest returns the first of the resources with the most similar name, or kind, or nil if none is similar.
func nearest(word string, found []Resource, kinds bool) *Resource {
	var words []string
	owners := make(map[string]*Resource)
	for i := range found {
		names := found[i].names()
		if kinds {
			names = []string{found[i].Kind}
		}
		for _, name := range names {
			if owners[name] == nil && name != "" {
				words, owners[name] = append(words, name), &found[i]
			}
		}
	}
	return owners[suggest.Nearest(word, words)]
}

// names returns all names of the resource.
func (r *Resource) names() []string {
	return append([]string{r.Plural, r.Kind, r.Singular}, r.ShortNames...)
}

// Name returns "plural.version.group", which is unique.
func (r *Resource) Name() string {
	return strings.TrimSuffix(strings.Join([]string{r.Plural, r.Version, r.Group}, "."), ".")
}

// Names joins the names of resources with commas.
func Names(all []Resource) string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name()
	}
	return strings.Join(names, ", ")
}

// apiVersion returns "group/version", or the version in the core group.
func (r *Resource) apiVersion() string {
	return strings.TrimPrefix(r.Group+"/"+r.Version, "/")
}
