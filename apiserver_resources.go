package kopf

import "fmt"

// This file knows the kinds that the in-memory API server serves: the built-in ones, and those of resource definitions.

// kindInfo is one kind in one version.
type kindInfo struct {
	resource  Resource
	listKind  string
	crd       map[string]any  // the definition it comes from, nil for built-in kinds
	schema    *schema         // of the whole object, nil if nothing is known of it
	columns   []printerColumn // that tables show besides the name; nil for the default
	hasStatus bool            // whether the status is a subresource
	scale     map[string]any  // the paths of the scale subresource in the definition, nil if there is none
}

// statusError is a refusal, as the real API server words it.
type statusError struct {
	code    int
	reason  string
	message string
	details map[string]any
}

func (e *statusError) Error() string { return fmt.Sprintf("%d %s: %s", e.code, e.reason, e.message) }
