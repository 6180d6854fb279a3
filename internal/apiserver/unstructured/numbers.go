package unstructured

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
)

// CanonicalNumbers writes all numbers in a decoded value as kube-apiserver does. kube-apiserver decodes numbers without a Go type to 64 bits: integers in
// range as integers, all others as floating point, so that 1.0 becomes 1. It returns the first number that is out of range, "" if there is none.
func CanonicalNumbers(v any) (outOfRange json.Number) {
	set := func(e any, store func(any)) {
		if n, ok := e.(json.Number); !ok {
			outOfRange = cmp.Or(outOfRange, CanonicalNumbers(e))
		} else if canonical := canonicalNumber(n); canonical == "" {
			outOfRange = cmp.Or(outOfRange, n)
		} else if canonical != n {
			store(canonical)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			set(e, func(canonical any) { v[key] = canonical })
		}
	case []any:
		for i, e := range v {
			set(e, func(canonical any) { v[i] = canonical })
		}
	}
	return outOfRange
}

// canonicalNumber returns a number in its canonical form, "" if it is out of range.
func canonicalNumber(n json.Number) json.Number {
	if i, err := n.Int64(); err == nil {
		return json.Number(strconv.FormatInt(i, 10))
	}
	f, err := n.Float64()
	if err != nil {
		return ""
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return json.Number(strconv.FormatInt(int64(f), 10)) // -0.0 becomes 0
	}
	text, err := json.Marshal(f)
	if err != nil {
		return ""
	}
	return json.Number(text)
}
