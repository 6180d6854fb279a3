package discovery

import (
	"maps"
	"slices"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Definitions tracks the resource definitions shown by a watch stream, and the deleted ones.
type Definitions struct {
	relisted     bool              // there was a list before
	known, found map[string]bool   // names of all definitions, and of those in the newest list
	states       map[string]string // the last states by name; "" after a deletion
}

// BeginListing records the start of a list.
func (d *Definitions) BeginListing() { d.found = make(map[string]bool) }

// Note records a definition from a list or a change, after [Definitions.BeginListing]. The state identifies its schema, and is "" for a deletion. Note reports
// whether the definition was known with another state.
func (d *Definitions) Note(name, state string) (changed bool) {
	if d.states == nil {
		d.states = make(map[string]string)
	}
	if d.known == nil {
		d.known = make(map[string]bool)
	}
	if state == "" {
		delete(d.known, name)
		delete(d.found, name)
	} else {
		d.known[name], d.found[name] = true, true
	}
	before, known := d.states[name]
	d.states[name] = state
	return known && before != state
}

// EndListing records the end of a list: definitions missing in it were deleted. It reports whether there was a list before.
func (d *Definitions) EndListing() (again bool) {
	d.known = d.found
	again, d.relisted = d.relisted, true
	return again
}

// Deleted reports whether the definition with a name was deleted, and not recreated since.
func (d *Definitions) Deleted(name string) bool {
	_, seen := d.states[name]
	return seen && !d.known[name]
}

// Forget forgets the deleted definitions that are not needed any more.
func (d *Definitions) Forget(needed func(name string) bool) {
	maps.DeleteFunc(d.states, func(name, _ string) bool { return !d.known[name] && !needed(name) })
}

// Defines reports whether the newest list or a later change has shown the definition of a resource.
func (d *Definitions) Defines(plural, group string) bool { return d.known[plural+"."+group] }

// Outdated reports whether the found resources of a definition are not those of its served versions.
func Outdated(definition []byte, found []Resource) bool {
	group, plural := rawjson.StringAt(definition, "spec", "group"), rawjson.StringAt(definition, "spec", "names", "plural")
	served := servedVersions(definition)
	for _, r := range found {
		if r.Group != group || r.Plural != plural {
			continue
		}
		i := slices.Index(served, r.Version)
		if i < 0 {
			return true
		}
		served = slices.Delete(served, i, i+1)
	}
	return len(served) > 0
}

// servedVersions returns the names of the versions that the API server serves for a definition. It
// serves none before the definition is established, for example because another one has its names.
func servedVersions(definition []byte) (served []string) {
	established := false
	conditions, _ := rawjson.Find(definition, "status", "conditions")
	_ = rawjson.EachItem(conditions, func(condition []byte) bool { // a new definition has no conditions
		if rawjson.StringAt(condition, "type") == "Established" {
			established = rawjson.StringAt(condition, "status") == "True"
		}
		return true
	})
	if !established {
		return nil
	}
	versions, _ := rawjson.Find(definition, "spec", "versions")
	_ = rawjson.EachItem(versions, func(version []byte) bool { // a definition without versions has no resources
		if rawjson.ScalarAt(version, "served") == "true" {
			served = append(served, rawjson.StringAt(version, "name"))
		}
		return true
	})
	return served
}
