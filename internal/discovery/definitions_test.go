package discovery

import (
	"bytes"
	"fmt"
	"testing"
)

// TestFirstDefinition notes the first definition after an empty list, as on a new cluster.
func TestFirstDefinition(t *testing.T) {
	var d Definitions
	d.BeginListing()
	d.EndListing()
	if d.Note("a", "1") || d.Deleted("a") {
		t.Error("the first definition counts as a changed or a deleted one")
	}
	if !d.Note("a", "") || !d.Deleted("a") {
		t.Error("the deletion is not noted")
	}
}

func TestDefinitions(t *testing.T) {
	var d Definitions
	changed := func(name, state string, want bool) {
		t.Helper()
		if got := d.Note(name, state); got != want {
			t.Errorf("the state %q of %s: got that it has changed %t, want %t", state, name, got, want)
		}
	}
	deleted := func(name string, want bool) {
		t.Helper()
		if got := d.Deleted(name); got != want {
			t.Errorf("%s: got that it is deleted %t, want %t", name, got, want)
		}
	}
	deleted("a", false)
	d.BeginListing()
	changed("a", "1", false)
	changed("b", "1", false)
	changed("c", "1", false)
	if d.EndListing() {
		t.Error("there was a listing before the first one")
	}
	changed("a", "2", true)
	changed("a", "2", false)
	changed("b", "", true)
	deleted("a", false)
	deleted("b", true)
	changed("b", "3", true)
	deleted("b", false)
	d.BeginListing() // the stream was disconnected meanwhile
	changed("a", "2", false)
	if !d.EndListing() {
		t.Error("there was no listing before the second one")
	}
	for name, want := range map[string]bool{"a": false, "b": true, "c": true} {
		deleted(name, want)
	}
}

func TestForget(t *testing.T) {
	t.Run("DF-49 a deleted definition leaves nothing, once its resource is not served any more", func(t *testing.T) {
		var d Definitions
		d.BeginListing()
		d.EndListing()
		for i := range 1000 {
			name := fmt.Sprintf("things%d.example.com", i)
			d.Note(name, "1")
			if i%10 > 0 {
				d.Note(name, "")
			}
			d.Forget(func(served string) bool { return served == name })
			if i%10 > 0 && !d.Deleted(name) {
				t.Fatalf("%s is forgotten while it is served", name)
			}
		}
		d.Forget(func(string) bool { return false })
		if n := len(d.states); n != 100 {
			t.Errorf("got %d states, want those of the 100 definitions that exist", n)
		}
	})
}

func TestOutdated(t *testing.T) {
	definition := func(versions string) []byte {
		return []byte(`{"spec":{"group":"example.com","names":{"plural":"things"},"versions":[` + versions + `]},` +
			`"status":{"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}]}}`)
	}
	const v1, v2, former = `{"name":"v1","served":true}`, `{"name":"v2","served":true}`, `{"name":"v1","served":false}`
	found := []Resource{{Group: "other.com", Version: "v3", Plural: "things"}, {Group: "example.com", Version: "v1", Plural: "things"}}
	for versions, want := range map[string]bool{v1: false, v1 + "," + v2: true, v2: true, former: true, former + "," + v2: true, "": true} {
		if got := Outdated(definition(versions), found); got != want {
			t.Errorf("%s: got %t, want %t", versions, got, want)
		}
	}
	if Outdated([]byte(`{"metadata":{"name":"a"}}`), found) {
		t.Error("a definition without a specification is outdated")
	}
	if !Outdated(definition(v1), nil) {
		t.Error("a new definition is not noticed")
	}
	refused := bytes.ReplaceAll(definition(v1), []byte(`"status":"True"`), []byte(`"status":"False"`))
	if Outdated(refused, nil) {
		t.Error("a definition is outdated that is not established")
	}
	if !Outdated(refused, found) {
		t.Error("a definition that was made again, and is not established yet, is not noticed")
	}
}
