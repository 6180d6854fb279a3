package namespaces

import "github.com/kopf-go/kopf/internal/rawjson"

// Condition is a status condition of a namespace that is being deleted.
type Condition struct{ Status, Reason, Message string }

// Conditions reads the conditions of a namespace. Malformed input is treated as absent.
func Conditions(raw []byte) (all []Condition) {
	_ = rawjson.EachItem(raw, func(item []byte) bool {
		all = append(all, Condition{rawjson.StringAt(item, "status"), rawjson.StringAt(item, "reason"), rawjson.StringAt(item, "message")})
		return true
	})
	return all
}
