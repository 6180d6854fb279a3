package unstructured

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// JSONPath returns the values at a path in the subset of JSONPath that CRDs use: .a.b, ['a'], [0], [*], and [?(@.a=="b")]. A malformed path has no values.
func JSONPath(v any, path string) []any {
	now := []any{v}
	path = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(path, "{"), "$"), "}")
	for path != "" && len(now) > 0 {
		var step string
		if path[0] == '[' {
			end := strings.IndexByte(path, ']')
			if end < 0 {
				return nil
			}
			step, path = path[1:end], path[end+1:]
			now = pathStep(now, step)
			continue
		}
		path = strings.TrimPrefix(path, ".")
		end := 0
		for end < len(path) && path[end] != '[' && path[end] != '.' {
			if path[end] == '\\' && end+1 < len(path) {
				end++
			}
			end++
		}
		step, path = strings.ReplaceAll(path[:end], `\`, ""), path[end:]
		if step != "" {
			now = pathKey(now, step)
		}
	}
	return now
}

// pathKey follows a key. A star follows all keys and items.
func pathKey(now []any, key string) []any {
	var next []any
	for _, v := range now {
		if key == "*" {
			next = append(next, pathStep([]any{v}, "*")...)
		} else if e, ok := rawjson.AsMap(v)[key]; ok {
			next = append(next, e)
		}
	}
	return next
}

// pathStep follows a step in brackets.
func pathStep(now []any, step string) []any {
	if quoted := strings.Trim(step, `'"`); quoted != step && !strings.HasPrefix(step, "?") {
		return pathKey(now, quoted)
	}
	var next []any
	for _, v := range now {
		list, _ := v.([]any)
		switch i, err := strconv.Atoi(step); {
		case step == "*":
			for _, k := range rawjson.UnionKeys(rawjson.AsMap(v), nil) {
				next = append(next, rawjson.AsMap(v)[k])
			}
			next = append(next, list...)
		case err == nil && i < 0 && i >= -len(list):
			next = append(next, list[len(list)+i])
		case err == nil && i >= 0 && i < len(list):
			next = append(next, list[i])
		case strings.HasPrefix(step, "?"):
			next = append(next, slices.DeleteFunc(slices.Clone(list), func(e any) bool { return !pathFilter(e, step) })...)
		}
	}
	return next
}

// pathFilter reports whether an item matches a filter such as ?(@.type=="Ready").
func pathFilter(v any, filter string) bool {
	inner := strings.TrimSuffix(strings.TrimPrefix(filter, "?("), ")")
	path, want, equal := strings.Cut(inner, "==")
	negated := false
	if !equal {
		path, want, negated = strings.Cut(inner, "!=")
	}
	found := JSONPath(v, strings.TrimPrefix(strings.TrimSpace(path), "@"))
	if !equal && !negated {
		return len(found) > 0
	}
	want = strings.Trim(strings.TrimSpace(want), `'"`)
	same := len(found) > 0 && Cell(found[0]) == want
	return same != negated
}

// Cell formats a value for a table cell.
func Cell(v any) any {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	data, _ := rawjson.Encode(v) // it was JSON
	return string(data)
}
