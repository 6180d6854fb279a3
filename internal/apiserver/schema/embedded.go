package schema

import (
	"fmt"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Embedded is an object in a field with x-kubernetes-embedded-resource.
type Embedded struct {
	Path   string
	Object map[string]any
}

// EmbeddedIn returns the embedded objects in a value at a path.
func (s *Schema) EmbeddedIn(value any, at string) (all []Embedded) {
	if s == nil {
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		if s.Embedded {
			all = append(all, Embedded{at, value})
		}
		for _, key := range rawjson.SortedKeys(value) {
			if child := s.Properties[key]; child != nil {
				all = append(all, child.EmbeddedIn(value[key], strings.TrimPrefix(at+"."+key, "."))...)
			} else {
				all = append(all, s.Additional.EmbeddedIn(value[key], at+"["+key+"]")...)
			}
		}
	case []any:
		for i, e := range value {
			all = append(all, s.Items.EmbeddedIn(e, fmt.Sprintf("%s[%d]", at, i))...)
		}
	}
	return all
}

// CheckType validates the API version and the kind of an embedded object.
func (e Embedded) CheckType() (faults []field.Error) {
	for _, key := range []string{"apiVersion", "kind"} {
		at := strings.TrimPrefix(e.Path+"."+key, ".")
		value, ok := e.Object[key]
		text, isText := value.(string)
		switch {
		case !ok:
			faults = append(faults, field.Required(at, ""))
		case !isText:
			faults = append(faults, field.Invalid(at, value, "must be a string"))
		case text == "":
			faults = append(faults, field.Invalid(at, text, "must not be empty"))
		case key == "apiVersion" && strings.Count(text, "/") > 1:
			faults = append(faults, field.Invalid(at, text, "unexpected GroupVersion string: "+text))
		}
	}
	return faults
}

func checkEmbedded(s *Schema, value any, at string) (faults []field.Error) {
	for _, e := range s.EmbeddedIn(value, at) {
		faults = append(faults, e.CheckType()...)
	}
	return faults
}
