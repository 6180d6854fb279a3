package kopf

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// DiffOperation is the kind of one difference.
type DiffOperation string

// The kinds of differences.
const (
	DiffAdd    DiffOperation = "add"    // there was nothing; Old is nil
	DiffChange DiffOperation = "change" // there was another value
	DiffRemove DiffOperation = "remove" // there is nothing any more; New is nil
)

// DiffItem is one difference between two values: at Path, relative to the compared values, Old became New. The absent side is nil.
type DiffItem struct {
	Operation DiffOperation
	Path      []string // the keys; none if the values as a whole differ
	Old, New  any      // decoded, with numbers as json.Number
}

// String returns the item as a readable line.
func (i DiffItem) String() string {
	return fmt.Sprintf("%s %s: %v -> %v", i.Operation, strings.Join(i.Path, "."), i.Old, i.New)
}

// Diff is the list of the differences between two values. It compares objects key by key, and lists and scalars as a whole. Null equals an absent value.
type Diff []DiffItem

// diffJSON compares two decoded values. The items come in the order of their paths.
func diffJSON(before, after any) (d Diff) {
	rawjson.Differences(before, after, d.note)
	return d
}

// diffRaw is [diffJSON] for two values in JSON.
func diffRaw(before, after []byte) (d Diff) {
	rawjson.DifferencesIn(before, after, d.note)
	return d
}

// note adds a difference.
func (d *Diff) note(path []string, before, after any) {
	operation := DiffChange
	switch {
	case before == nil:
		operation = DiffAdd
	case after == nil:
		operation = DiffRemove
	}
	*d = append(*d, DiffItem{operation, slices.Clone(path), before, after})
}

// Reduce returns the differences at and below a path, with relative paths. It reduces a difference above the path to the value at the path.
func (d Diff) Reduce(path FieldPath) Diff { return d.reduce(path.Keys()) }

func (d Diff) reduce(path []string) Diff {
	var reduced Diff
	for _, item := range d {
		switch n := len(item.Path); {
		case n >= len(path) && slices.Equal(item.Path[:len(path)], path):
			item.Path = item.Path[len(path):]
			reduced = append(reduced, item)
		case n < len(path) && slices.Equal(path[:n], item.Path):
			before, _ := rawjson.Lookup(item.Old, path[n:]...)
			after, _ := rawjson.Lookup(item.New, path[n:]...)
			reduced = append(reduced, diffJSON(before, after)...)
		}
	}
	return reduced
}

// lazyDiff is a diff that is computed only if it is logged.
type lazyDiff func() Diff

// LogValue returns the differences as texts.
func (d lazyDiff) LogValue() slog.Value { return slog.AnyValue(d()) }
