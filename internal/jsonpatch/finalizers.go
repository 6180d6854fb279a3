package jsonpatch

import (
	"slices"
	"strconv"
)

// FinalizerOps returns the operations that add and remove finalizers of an object. Each one tests only the values that it depends on, so that other concurrent
// changes cause no conflicts.
func FinalizerOps(list, adds, removes []string) (ops []Operation) {
	const path = "/metadata/finalizers"
	for i, f := range slices.Backward(list) {
		if slices.Contains(removes, f) {
			item := path + "/" + strconv.Itoa(i)
			ops = append(ops, Operation{Op: "test", Path: item, Value: f}, Operation{Op: "remove", Path: item})
		}
	}
	added := slices.DeleteFunc(slices.Clone(adds), func(f string) bool { return slices.Contains(list, f) })
	if len(added) == 0 {
		return ops
	}
	// The API server rejects new finalizers on an object that is being deleted. The tests also prevent duplicates.
	ops = append(ops, Operation{Op: "test", Path: "/metadata/deletionTimestamp"})
	if len(list) == 0 {
		return append(ops, Operation{Op: "test", Path: path}, Operation{Op: "add", Path: path, Value: added})
	}
	ops = append(ops, Operation{Op: "test", Path: path, Value: list})
	for _, f := range added {
		ops = append(ops, Operation{Op: "add", Path: path + "/-", Value: f})
	}
	return ops
}
