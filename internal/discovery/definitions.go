package discovery

// Definitions notes which resource definitions there are, as a stream shows them, and which were seen to be deleted.
type Definitions struct {
	relisted     bool              // whether there was a listing before
	known, found map[string]bool   // the names of all, and of those in the newest listing
	states       map[string]string // of those that were seen, by their names, "" of deleted ones
	deleted      map[string]bool   // the names of those that were seen to be deleted
}

// BeginListing notes that a listing begins.
func (d *Definitions) BeginListing() { d.found = make(map[string]bool) }

// Note notes a definition, as an item of a listing or a change shows it after [Definitions.BeginListing]. The state is another one if its schema is, and "" if it was deleted. It reports whether the
// definition was known in another state.
func (d *Definitions) Note(name, state string) (changed bool) {
	if d.known == nil {
		d.known, d.states, d.deleted = make(map[string]bool), make(map[string]string), make(map[string]bool)
	}
	if state == "" {
		d.deleted[name] = true
		delete(d.known, name)
		delete(d.found, name)
	} else {
		delete(d.deleted, name)
		d.known[name], d.found[name] = true, true
	}
	before, known := d.states[name]
	d.states[name] = state
	return known && before != state
}

// EndListing notes that a listing is complete: what was known and is not in it was deleted. It reports whether there was one before.
func (d *Definitions) EndListing() (again bool) {
	for name := range d.known {
		if !d.found[name] {
			d.deleted[name] = true
		}
	}
	d.known = d.found
	again, d.relisted = d.relisted, true
	return again
}

// Deleted reports whether the definition with a name was seen to be deleted, and was not seen since.
func (d *Definitions) Deleted(name string) bool { return d.deleted[name] }
