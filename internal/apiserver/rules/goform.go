package rules

import (
	"encoding/json"
	"strings"
	"unicode"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// goForm returns an object as errors of kube-apiserver contain it: with all fields of the Go struct. The fields are separated by spaces. After = is
// the zero value, if it is not null. The fields of nested structs are in parentheses.
func goForm(v any, fields string) json.RawMessage {
	if v == nil {
		return json.RawMessage("null")
	}
	var b strings.Builder
	b.WriteByte('{')
	for fields != "" {
		var name, inner string
		name, inner, fields = nextField(fields)
		name, zero, _ := strings.Cut(name, "=")
		value := rawjson.AsMap(v)[jsonName(name)]
		var text []byte
		switch {
		case inner != "":
			text = goForm(value, inner)
		case value == nil && zero != "":
			text = []byte(zero)
		default:
			text, _ = rawjson.Encode(value)
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + name + `":`)
		b.Write(text)
	}
	b.WriteByte('}')
	return json.RawMessage(b.String())
}

// nextField cuts off the first field.
func nextField(fields string) (name, inner, rest string) {
	end := strings.IndexAny(fields, " (")
	if end < 0 {
		return fields, "", ""
	}
	name, rest = fields[:end], fields[end+1:]
	if fields[end] == '(' {
		depth := 1
		for i, c := range rest {
			switch c {
			case '(':
				depth++
			case ')':
				depth--
			}
			if depth == 0 {
				inner, rest = rest[:i], strings.TrimPrefix(rest[i+1:], " ")
				break
			}
		}
	}
	return name, inner, rest
}

// jsonName returns the JSON name of a Go field.
func jsonName(name string) string {
	letters := []rune(name)
	for i := range letters {
		last := i+1 == len(letters) || !unicode.IsUpper(letters[i+1])
		if !unicode.IsUpper(letters[i]) || i > 0 && last {
			break
		}
		letters[i] = unicode.ToLower(letters[i])
	}
	return string(letters)
}
