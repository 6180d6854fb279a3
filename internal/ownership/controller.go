package ownership

import "github.com/kopf-go/kopf/internal/rawjson"

// ControllerOf returns the reference to the controller among owner references, nil if there is none.
func ControllerOf(references []byte) (controller []byte) {
	_ = rawjson.EachItem(references, func(ref []byte) bool { // what is no list has none
		if rawjson.ScalarAt(ref, "controller") == "true" {
			controller = ref
		}
		return controller == nil
	})
	return controller
}
