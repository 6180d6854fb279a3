// Package progressrecord encodes and decodes the handler progress in annotations.
package progressrecord

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kopf-go/kopf/internal/iso8601"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Member is a key with its value, nil if unset.
type Member struct {
	Key   string
	Value any
}

// Members are the members of a record, in order.
type Members []Member

// Decoded returns the members as decoded JSON.
func (r Members) Decoded() map[string]any {
	m := make(map[string]any, len(r))
	for _, one := range r {
		m[one.Key] = one.Value
	}
	return m
}

// Encoded returns the members as compact JSON in pure ASCII.
func (r Members) Encoded() []byte {
	b := []byte{'{'}
	for i, m := range r {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(rawjson.AppendString(b, m.Key), ':')
		switch v := m.Value.(type) {
		case nil:
			b = append(b, "null"...)
		case bool:
			b = strconv.AppendBool(b, v)
		case json.Number:
			b = append(b, v...)
		case string:
			b = rawjson.AppendString(b, v)
		case []any:
			b = append(b, '[')
			for j, item := range v {
				if j > 0 {
					b = append(b, ',')
				}
				b = rawjson.AppendString(b, item.(string))
			}
			b = append(b, ']')
		}
	}
	return append(b, '}')
}

func timestamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(iso8601.Layout)
}

func decodeAs[T any](value any, want string) (T, error) {
	v, ok := value.(T)
	if !ok {
		return v, fmt.Errorf("%s is expected, not %s", want, rawjson.KindOf(value))
	}
	return v, nil
}

// maxCount is larger than any real number of attempts. It prevents overflows.
const maxCount = 1 << 30

func decodeCount(value any) (int, error) {
	n, err := decodeAs[json.Number](value, "a number")
	if err != nil {
		return 0, err
	}
	count, err := strconv.Atoi(n.String())
	if err != nil || count < 0 {
		return 0, fmt.Errorf("a count is expected, not %q", n.String())
	}
	return min(count, maxCount), nil
}

// decodeTime parses a time that can be written again: its year in UTC has four digits.
func decodeTime(value any) (time.Time, error) {
	s, err := decodeAs[string](value, "a time")
	if err != nil {
		return time.Time{}, err
	}
	t, err := iso8601.Parse(s)
	if year := t.UTC().Year(); err == nil && (year < 1 || year > 9999) {
		err = fmt.Errorf("a time between the years 1 and 9999 is expected, not %q", s)
	}
	return t, err
}

func decode(value, into any) (err error) {
	switch into := into.(type) {
	case *time.Time:
		*into, err = decodeTime(value)
	case *int:
		*into, err = decodeCount(value)
	case *bool:
		*into, err = decodeAs[bool](value, "a boolean")
	case *string:
		*into, err = decodeAs[string](value, "a string")
	case **string:
		text, failed := decodeAs[string](value, "a string")
		*into, err = &text, failed
	case *[]string:
		list, failed := decodeAs[[]any](value, "a list")
		if failed != nil {
			return failed
		}
		for _, item := range list {
			text, failed := decodeAs[string](item, "a string")
			if failed != nil {
				return failed
			}
			*into = append(*into, text)
		}
	}
	return err
}

// Record is a progress record. The fields are those of kopf.ProgressRecord.
type Record struct {
	Started, Stopped, Delayed time.Time
	Purpose                   string
	Retries                   int
	Success, Failure          bool
	Message                   *string
	Subrefs                   []string
}

// Members returns the members of the record, in order, and on request also the unset ones.
func (r *Record) Members(unset bool) Members {
	all := Members{
		{Key: "started", Value: timestamp(r.Started)},
		{Key: "stopped", Value: timestamp(r.Stopped)},
		{Key: "delayed", Value: timestamp(r.Delayed)},
		{Key: "purpose", Value: nil},
		{Key: "retries", Value: json.Number(strconv.Itoa(min(r.Retries, maxCount)))},
		{Key: "success", Value: r.Success},
		{Key: "failure", Value: r.Failure},
		{Key: "message", Value: nil},
		{Key: "subrefs", Value: nil},
	}
	if r.Purpose != "" {
		all[3].Value = r.Purpose
	}
	if r.Message != nil {
		all[7].Value = *r.Message
	}
	if len(r.Subrefs) > 0 {
		refs := make([]any, len(r.Subrefs))
		for i, ref := range slices.Sorted(slices.Values(r.Subrefs)) {
			refs[i] = ref
		}
		all[8].Value = refs
	}
	if unset {
		return all
	}
	set := all[:0]
	for _, m := range all {
		if m.Value != nil {
			set = append(set, m)
		}
	}
	return set
}

// Parse parses a decoded record. It ignores null and unknown members.
func Parse(value any) (*Record, error) {
	members, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("an object is expected, not %s", rawjson.KindOf(value))
	}
	r := &Record{}
	pointers := map[string]any{
		"started": &r.Started, "stopped": &r.Stopped, "delayed": &r.Delayed, "purpose": &r.Purpose, "retries": &r.Retries,
		"success": &r.Success, "failure": &r.Failure, "message": &r.Message, "subrefs": &r.Subrefs,
	}
	for key, value := range members {
		if value == nil {
			continue
		}
		if err := decode(value, pointers[key]); err != nil {
			return nil, fmt.Errorf("%q of the record: %w", key, err)
		}
	}
	return r, nil
}
