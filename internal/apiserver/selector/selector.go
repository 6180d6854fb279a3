// Package selector parses label selectors and field selectors, and matches them.
package selector

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Requirement is one requirement of a selector.
type Requirement struct {
	Key    string
	op     string // =, !=, in, notin, exists, !exists, >, <
	values []string
}

// Matches reports whether a value meets the requirement. The value of a missing key is not present.
func (r Requirement) Matches(value string, present bool) bool {
	switch r.op {
	case "=":
		return present && value == r.values[0]
	case "!=":
		return !present || value != r.values[0]
	case "in":
		return present && slices.Contains(r.values, value)
	case "notin":
		return !present || !slices.Contains(r.values, value)
	case "exists":
		return present
	case "!exists":
		return !present
	}
	a, err := strconv.ParseInt(value, 10, 64)
	if err != nil || !present {
		return false
	}
	b, _ := strconv.ParseInt(r.values[0], 10, 64) // ParseLabels has checked it
	return r.op == ">" && a > b || r.op == "<" && a < b
}

// ParseLabels parses a label selector such as "a=b,c!=d,e in (f,g),h,!i". Errors are an
// [apierrors.StatusError].
func ParseLabels(text string) ([]Requirement, error) {
	var all []Requirement
	p := &selectorParser{rest: strings.TrimSpace(text)}
	for p.rest != "" {
		r, err := p.requirement()
		if err != nil {
			return nil, err
		}
		all = append(all, *r)
		if p.rest == "" {
			break
		}
		if !p.take(",") {
			return nil, badSelector(text, "',' or the end is expected at "+strconv.Quote(p.rest))
		}
		if p.rest == "" {
			return nil, badSelector(text, "a key is expected after the last ','")
		}
	}
	return all, nil
}

func badSelector(text, why string) error {
	return apierrors.New(400, "BadRequest", "unable to parse requirement: "+why+" in "+strconv.Quote(text), nil)
}

type selectorParser struct{ rest string }

func (p *selectorParser) take(token string) bool {
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok {
		p.rest = strings.TrimSpace(rest)
	}
	return ok
}

func (p *selectorParser) word() string {
	end := strings.IndexAny(p.rest, " ,=!<>()")
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	p.rest = strings.TrimSpace(p.rest[end:])
	return word
}

func (p *selectorParser) requirement() (*Requirement, error) {
	text := p.rest
	absent := p.take("!")
	r := &Requirement{Key: p.word(), op: "exists"}
	if r.Key == "" {
		return nil, badSelector(text, "a key is expected")
	}
	if absent {
		r.op = "!exists"
		return r, nil
	}
	for _, op := range []struct{ token, op string }{{"==", "="}, {"!=", "!="}, {"=", "="}, {">", ">"}, {"<", "<"}} {
		if p.take(op.token) {
			r.op, r.values = op.op, []string{p.word()}
			if _, err := strconv.ParseInt(r.values[0], 10, 64); err != nil && (r.op == ">" || r.op == "<") {
				return nil, badSelector(text, "a whole number is expected")
			}
			return r, nil
		}
	}
	if op := p.peekWord(); op == "in" || op == "notin" {
		p.word()
		if r.op = op; !p.take("(") {
			return nil, badSelector(text, "'(' is expected")
		}
		for {
			r.values = append(r.values, p.word())
			if p.take(")") {
				return r, nil
			}
			if !p.take(",") {
				return nil, badSelector(text, "',' or ')' is expected")
			}
		}
	}
	return r, nil
}

func (p *selectorParser) peekWord() string {
	q := *p
	return q.word()
}

// ParseFields parses a field selector such as "metadata.name=a,status.phase!=b". Errors are an
// [apierrors.StatusError].
func ParseFields(text string) ([]Requirement, error) {
	var all []Requirement
	for _, part := range strings.Split(text, ",") {
		if part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		r := Requirement{Key: key, op: "=", values: []string{strings.TrimPrefix(value, "=")}}
		if k, negated := strings.CutSuffix(key, "!"); negated {
			r.Key, r.op = k, "!="
		}
		if !ok {
			return nil, apierrors.New(400, "BadRequest", fmt.Sprintf("invalid selector: '%s'; can't understand '%s'", text, part), nil)
		}
		all = append(all, r)
	}
	return all, nil
}

// MatchesLabels reports whether the labels of an object match a selector with matchLabels and
// matchExpressions. An unknown operator matches no labels.
func MatchesLabels(selector, object map[string]any) bool {
	labels := rawjson.AsMap(rawjson.AsMap(object["metadata"])["labels"])
	for key, want := range rawjson.AsMap(selector["matchLabels"]) {
		if v, ok := labels[key]; !ok || v != want {
			return false
		}
	}
	expressions, _ := selector["matchExpressions"].([]any)
	for _, e := range expressions {
		m := rawjson.AsMap(e)
		operator := unstructured.Text(m, "operator")
		r := Requirement{values: unstructured.Texts(m["values"])}
		r.Key = unstructured.Text(m, "key")
		switch operator {
		case "In", "NotIn", "Exists":
			r.op = strings.ToLower(operator)
		case "DoesNotExist":
			r.op = "!exists"
		default:
			return false
		}
		if value, ok := labels[r.Key].(string); !r.Matches(value, ok) {
			return false
		}
	}
	return true
}
