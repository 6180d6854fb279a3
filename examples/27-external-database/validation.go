package main

import (
	"context"
	"fmt"

	"github.com/kopf-go/kopf"
)

// quota is how much storage the databases of a namespace may have together, in GiB.
const quota = 100

// usage is what one database contributes to the index.
type usage struct {
	name string
	gib  int64
}

// byNamespace fills the index.
func byNamespace(ctx context.Context, i *kopf.Indexing, db *Database) (map[string]usage, error) {
	return map[string]usage{db.Namespace: {db.Name, db.Spec.Storage}}, nil
}

// validate denies changes that the service would refuse.
func (h *handlers) validate(ctx context.Context, a *kopf.Admission, db *Database) error {
	old := a.Old.Int("spec.storage") // 0 for a new object
	switch {
	case db.Spec.Storage == old:
		return nil // never block other changes, such as that of a finalizer
	case db.Spec.Storage < old:
		return deny(fmt.Sprintf("the storage cannot shrink from %d GiB to %d GiB", old, db.Spec.Storage))
	}
	total := db.Spec.Storage
	for _, other := range h.usage.Get(a, a.Namespace()) {
		if other.name != db.Name {
			total += other.gib
		}
	}
	if total > quota {
		return deny(fmt.Sprintf("the databases of the namespace would have %d GiB, and the quota is %d GiB", total, quota))
	}
	return nil
}

func deny(message string) error {
	return kopf.Deny(message, 422, kopf.ErrorCause{Reason: "FieldValueInvalid", Field: "spec.storage", Message: message})
}
