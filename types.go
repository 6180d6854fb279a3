package kopf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/kopf-go/kopf/internal/structschema"
)

// This file has the types that structs of kinds are made of, where those of the language do not say what Kubernetes needs.

// Meta is what all objects have, to be embedded in the struct of a kind: see [Define]. Handlers read it; what they change in it is not sent.
type Meta struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	ObjectMeta `json:"metadata,omitzero"`
}

// ObjectMeta is the metadata of an object.
type ObjectMeta struct {
	Name              string            `json:"name,omitempty"`
	GenerateName      string            `json:"generateName,omitempty"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	Generation        int64             `json:"generation,omitempty"`
	CreationTimestamp time.Time         `json:"creationTimestamp,omitzero"`
	DeletionTimestamp time.Time         `json:"deletionTimestamp,omitzero"` // zero if the object is not being deleted
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	Finalizers        []string          `json:"finalizers,omitempty"`
	OwnerReferences   []OwnerReference  `json:"ownerReferences,omitempty"`
}

// OwnerReference is a reference to an object that another one belongs to, as metav1.OwnerReference.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         bool   `json:"controller,omitempty"`         // whether it is the one that manages the object
	BlockOwnerDeletion bool   `json:"blockOwnerDeletion,omitempty"` // whether a deletion of the owner in the foreground waits for the object
}

// Schema is the schema of a type that describes itself, in the form of a CustomResourceDefinition.
type Schema map[string]any

// Schemer is a type that describes itself, for [Define]. The method is called on a zero value.
type Schemer interface{ Schema() Schema }

// Rule is a rule in CEL, which the API server checks. The method Rules() []Rule of a struct returns those of it.
// See https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
type Rule struct {
	Rule              string // the expression, such as "self.min <= self.max"
	Message           string // what is wrong. Defaults to the expression
	MessageExpression string // an expression for the message
	Reason            string // such as "FieldValueForbidden". Defaults to "FieldValueInvalid"
	FieldPath         string // the field to be named in the error, such as ".min"
	OptionalOldSelf   bool   // whether the rule is checked for new objects, too, although it names oldSelf
}

// AnyJSON is a value of any type in JSON, which the API server keeps as it is. It holds the bytes of it; none are null.
type AnyJSON []byte

// Schema implements [Schemer].
func (AnyJSON) Schema() Schema {
	return Schema{"x-kubernetes-preserve-unknown-fields": true, "nullable": true}
}

// MarshalJSON returns the value. It fails if that is not JSON.
func (a AnyJSON) MarshalJSON() ([]byte, error) { return json.RawMessage(a).MarshalJSON() }

// UnmarshalJSON keeps a copy of the value. It fails only for a nil pointer.
func (a *AnyJSON) UnmarshalJSON(data []byte) error { return (*json.RawMessage)(a).UnmarshalJSON(data) }

// EmbeddedObject is a whole Kubernetes object within another one, such as a template, in JSON. The API server checks its apiVersion, kind and metadata.
type EmbeddedObject []byte

// Schema implements [Schemer].
func (EmbeddedObject) Schema() Schema {
	return Schema{"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}
}

// MarshalJSON returns the object. It fails if that is not JSON.
func (o EmbeddedObject) MarshalJSON() ([]byte, error) { return json.RawMessage(o).MarshalJSON() }

// UnmarshalJSON keeps a copy of the object. It fails only for a nil pointer.
func (o *EmbeddedObject) UnmarshalJSON(data []byte) error {
	return (*json.RawMessage)(o).UnmarshalJSON(data)
}

// Duration is a duration that is a text in JSON, such as "5m0s".
type Duration struct{ time.Duration }

// Schema implements [Schemer].
func (Duration) Schema() Schema {
	return Schema{"type": "string", "pattern": structschema.DurationPattern}
}

// MarshalText returns the text. It never fails.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a text as [time.ParseDuration] does, with its errors.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = time.ParseDuration(string(text))
	return err
}

// Quantity is an amount with a unit, such as "500m", "2Gi" or "1.5". A number in JSON is read as its text.
type Quantity string

// Schema implements [Schemer].
func (Quantity) Schema() Schema {
	s := IntOrString{}.Schema()
	s["pattern"] = structschema.QuantityPattern
	return s
}

// UnmarshalJSON reads a text or a number. It fails for anything else.
func (q *Quantity) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, (*string)(q))
	}
	var n json.Number
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("invalid quantity %s: want a text such as \"500m\", or a number", data)
	}
	*q = Quantity(n)
	return nil
}

// IntOrString is a whole number or a text, such as a port or its name, or a number or a percentage.
type IntOrString struct {
	Int  int32  // the number, if there is no text
	Text string // "" for a number
}

// Schema implements [Schemer].
func (IntOrString) Schema() Schema {
	return Schema{"x-kubernetes-int-or-string": true, "anyOf": []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}}
}

// String returns the text, or the number as one.
func (v IntOrString) String() string {
	if v.Text != "" {
		return v.Text
	}
	return strconv.Itoa(int(v.Int))
}

// MarshalJSON returns the text or the number. It never fails.
func (v IntOrString) MarshalJSON() ([]byte, error) {
	if v.Text != "" {
		return json.Marshal(v.Text)
	}
	return json.Marshal(v.Int)
}

// UnmarshalJSON reads a text or a number. It fails for anything else, and for a number beyond 32 bits.
func (v *IntOrString) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	*v = IntOrString{}
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &v.Text)
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil || n < math.MinInt32 || n > math.MaxInt32 {
		return fmt.Errorf("invalid value %s: want a text, or a whole number of at most 32 bits", data)
	}
	v.Int = int32(n)
	return nil
}

// LabelSelector selects objects by their labels, as in the specs of built-in kinds: all of it must fit.
type LabelSelector struct {
	MatchLabels      map[string]string     `json:"matchLabels,omitempty"`
	MatchExpressions []SelectorRequirement `json:"matchExpressions,omitempty" listType:"atomic"`
}

// SelectorRequirement is a condition of a [LabelSelector].
type SelectorRequirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"` // In, NotIn, Exists or DoesNotExist
	Values   []string `json:"values,omitempty" listType:"atomic"`
}

// describeType returns what a type says of itself. It asserts types, so that the linker goes on dropping what is unused.
func describeType(pointer any) (d structschema.Description) {
	if s, ok := pointer.(Schemer); ok {
		d.Schema = s.Schema()
	}
	if r, ok := pointer.(interface{ Rules() []Rule }); ok {
		for _, rule := range r.Rules() {
			d.Rules = append(d.Rules, structschema.Rule(rule))
		}
	}
	switch pointer.(type) {
	case *Condition:
		d.Schema = structschema.ConditionSchema()
	case *LabelSelector, *ObjectReference:
		d.Atomic = true
	}
	return d
}
