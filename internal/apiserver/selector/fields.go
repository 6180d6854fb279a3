package selector

import (
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
)

// ParseFields parses a field selector such as "metadata.name=a,status.phase!=b". In values, a backslash escapes commas, equals signs and backslashes.
// Errors are an [apierrors.StatusError] with the messages of kube-apiserver.
func ParseFields(text string) ([]Requirement, error) {
	var all []Requirement
	terms := splitTerms(text)
	slices.Sort(terms)
	for _, term := range terms {
		if term == "" {
			continue
		}
		key, value, ok := strings.Cut(term, "=")
		if !ok {
			return nil, apierrors.BadRequest("invalid selector: '%s'; can't understand '%s'", text, term)
		}
		r := Requirement{op: "="}
		if k, negated := strings.CutSuffix(key, "!"); negated {
			key, r.op = k, "!="
		} else {
			value = strings.TrimPrefix(value, "=")
		}
		value, err := unescape(value)
		if err != nil {
			return nil, err
		}
		if key == "" && value == "" {
			continue
		}
		r.Key, r.values = key, []string{value}
		all = append(all, r)
	}
	return all, nil
}

// splitTerms splits a selector at unescaped commas.
func splitTerms(text string) (terms []string) {
	start, escaped := 0, false
	for i, c := range []byte(text) {
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == ',':
			terms = append(terms, text[start:i])
			start = i + 1
		}
	}
	return append(terms, text[start:])
}

// unescape returns the unescaped value.
func unescape(value string) (string, error) {
	var b strings.Builder
	escaped := false
	for _, c := range value {
		switch {
		case escaped && !strings.ContainsRune(`\,=`, c):
			return "", apierrors.BadRequest(`invalid field selector: invalid escape sequence: \%c`, c)
		case !escaped && c == '\\':
			escaped = true
			continue
		case !escaped && (c == ',' || c == '='):
			return "", apierrors.BadRequest("invalid field selector: unescaped character in value: %d", c)
		}
		b.WriteRune(c)
		escaped = false
	}
	if escaped {
		return "", apierrors.BadRequest(`invalid field selector: invalid escape sequence: \`)
	}
	return b.String(), nil
}
