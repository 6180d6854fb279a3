package ownership

import "github.com/kopf-go/kopf/internal/rawjson"

// Controller is the reference to the controller of an object. The parts are JSON, and nil if they are missing.
type Controller struct{ APIVersion, Kind, Name, UID []byte }

// ControllerOf returns the reference to the controller among owner references, and reports whether there is one.
func ControllerOf(references []byte) (controller Controller, found bool) {
	_ = rawjson.EachItem(references, func(ref []byte) bool { // what is no list has none
		controller = Controller{}
		_ = rawjson.EachMember(ref, func(quoted, value []byte) bool { // nor is what is no object one
			switch string(rawjson.PlainText(quoted)) {
			case "apiVersion":
				controller.APIVersion = value
			case "kind":
				controller.Kind = value
			case "name":
				controller.Name = value
			case "uid":
				controller.UID = value
			case "controller":
				found = string(value) == "true"
			}
			return true
		})
		return !found
	})
	if !found {
		return Controller{}, false
	}
	return controller, true
}
