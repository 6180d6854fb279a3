package selector

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/rules"
)

// ParseLabels parses a label selector such as "a=b,c!=d,e in (f,g),h,!i". Errors are an [apierrors.StatusError] with the messages of kube-apiserver.
func ParseLabels(text string) ([]Requirement, error) {
	var all []Requirement
	p := &labelParser{rest: text}
	for first := true; ; first = false {
		switch next := p.peek(); {
		case first && next == "":
			return nil, nil
		case first && next != "!" && !isWord(next):
			return nil, apierrors.BadRequest("found '%s', expected: !, identifier, or 'end of string'", next)
		case next != "!" && !isWord(next):
			return nil, apierrors.BadRequest("found '%s', expected: identifier after ','", next)
		}
		r, err := p.requirement()
		if err == nil {
			err = r.check()
		}
		if err != nil {
			return nil, apierrors.BadRequest("unable to parse requirement: %v", err)
		}
		all = append(all, *r)
		switch next := p.next(); next {
		case "":
			return all, nil
		case ",":
		default:
			return nil, apierrors.BadRequest("found '%s', expected: ',' or 'end of string'", next)
		}
	}
}

// labelParser parses a selector token by token. The last token is empty.
type labelParser struct{ rest string }

const (
	spaces  = " \t\r\n"
	symbols = "=!(),<>"
)

// isWord reports whether a token is neither a symbol nor the end.
func isWord(token string) bool { return token != "" && !strings.Contains(symbols, token[:1]) }

func (p *labelParser) next() string {
	p.rest = strings.TrimLeft(p.rest, spaces)
	end := strings.IndexAny(p.rest, spaces+symbols)
	switch {
	case strings.HasPrefix(p.rest, "==") || strings.HasPrefix(p.rest, "!="):
		end = 2
	case end == 0:
		end = 1
	case end < 0:
		end = len(p.rest)
	}
	token := p.rest[:end]
	p.rest = p.rest[end:]
	return token
}

func (p *labelParser) peek() string {
	q := *p
	return q.next()
}

func (p *labelParser) requirement() (*Requirement, error) {
	r := &Requirement{op: "exists"}
	r.Key = p.next()
	absent := r.Key == "!"
	if absent {
		r.op, r.Key = "!exists", p.next()
	}
	if !isWord(r.Key) {
		return nil, fmt.Errorf("found '%s', expected: identifier", r.Key)
	}
	if err := wrong("<nil>", r.Key, rules.QualifiedName); err != nil {
		return nil, err
	}
	if next := p.peek(); absent || next == "" || next == "," {
		return r, nil
	}
	var err error
	switch r.op = p.next(); r.op {
	case "in", "notin":
		r.values, err = p.list()
	case "=", "==", "!=", "<", ">":
		r.op = strings.Replace(r.op, "==", "=", 1)
		r.values, err = p.value()
	default:
		err = fmt.Errorf("found '%s', expected: in, notin, =, ==, !=, gt, lt", r.op)
	}
	return r, err
}

// value parses the value after an operator, which may be empty.
func (p *labelParser) value() ([]string, error) {
	next := p.peek()
	if next == "" || next == "," {
		return []string{""}, nil
	}
	if p.next(); !isWord(next) {
		return nil, fmt.Errorf("found '%s', expected: identifier", next)
	}
	return []string{next}, nil
}

// list parses values in parentheses. Values between commas may be empty.
func (p *labelParser) list() ([]string, error) {
	if next := p.next(); next != "(" {
		return nil, fmt.Errorf("found '%s' expected: '('", next)
	}
	if next := p.peek(); next != ")" && next != "," && !isWord(next) {
		return nil, fmt.Errorf("found '%s', expected: ',', ')' or identifier", next)
	}
	var values []string
	for {
		value := ""
		if isWord(p.peek()) {
			value = p.next()
		}
		values = append(values, value)
		switch next := p.next(); next {
		case ")":
			slices.Sort(values)
			return slices.Compact(values), nil
		case ",":
		default:
			return nil, fmt.Errorf("found '%s', expected: ',' or ')'", next)
		}
	}
}

// check validates the values.
func (r *Requirement) check() error {
	var faults []string
	for i, value := range r.values {
		at := fmt.Sprintf("values[%d]", i)
		if r.op == "<" || r.op == ">" {
			if _, err := strconv.ParseInt(value, 10, 64); err != nil {
				faults = append(faults, field.Invalid(at, value, "for 'Gt', 'Lt' operators, the value must be an integer").Message())
			}
		}
		if err := wrong(at+"["+r.Key+"]", value, rules.LabelValue); err != nil {
			faults = append(faults, err.Error())
		}
	}
	switch len(faults) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s", faults[0])
	}
	return fmt.Errorf("[%s]", strings.Join(faults, ", "))
}

func wrong(at, text string, format func(string) []string) error {
	if details := format(text); details != nil {
		return fmt.Errorf("%s", field.Invalid(at, text, strings.Join(details, "; ")).Message())
	}
	return nil
}
