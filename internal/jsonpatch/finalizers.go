package jsonpatch

import (
	"slices"
	"strconv"
)

// FinalizerOps returns the operations that add finalizers to those that an object has, and remove others, each guarded by what it depends on, so that
// nothing else that others change meanwhile is in their way.
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
	// Nothing can be added to an object that is being deleted, and nothing is to be there twice.
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
