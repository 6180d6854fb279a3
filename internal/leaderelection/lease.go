package leaderelection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// microTime is the format of the times in a Lease. The API server refuses them without six digits of the fraction.
const microTime = "2006-01-02T15:04:05.000000Z"

// lease is a Lease as the API server has it, with all that others keep in it.
type lease struct {
	object map[string]any
	spec   []byte // of the object, by which a renewal is told from a change of something else
	record
}

// record is what a Lease tells of its holder.
type record struct {
	holder      string        // "" if the Lease was released, or never held
	duration    time.Duration // 0 if it has none
	acquireTime string
	renewTime   string
	transitions int64
}

// parseLease reads a Lease.
func parseLease(raw []byte) (*lease, error) {
	object, err := rawjson.DecodeObject(raw)
	if err != nil {
		return nil, fmt.Errorf("the Lease cannot be read: %w", err)
	}
	l := &lease{object: object}
	spec, _ := rawjson.Find(raw, "spec") // without one, it is nobody's
	l.spec = bytes.Clone(spec)
	fields, _ := object["spec"].(map[string]any)
	l.holder, _ = fields["holderIdentity"].(string)
	l.acquireTime, _ = fields["acquireTime"].(string)
	l.renewTime, _ = fields["renewTime"].(string)
	l.duration = time.Duration(whole(fields["leaseDurationSeconds"])) * time.Second
	l.transitions = whole(fields["leaseTransitions"])
	return l, nil
}

// whole returns a whole number, 0 for anything else.
func whole(value any) int64 {
	number, _ := value.(json.Number)
	n, _ := number.Int64() // the API server takes no other numbers there
	return n
}

// metadata returns a text of the metadata, "" if there is none.
func (l *lease) metadata(name string) string {
	metadata, _ := l.object["metadata"].(map[string]any)
	text, _ := metadata[name].(string)
	return text
}

// with returns the Lease as JSON, with another record and the time of its renewal. What others keep in it stays.
func (l *lease) with(r record, renewed time.Time) ([]byte, error) {
	spec, _ := l.object["spec"].(map[string]any)
	if spec == nil {
		spec = make(map[string]any)
		l.object["spec"] = spec
	}
	spec["holderIdentity"], spec["leaseTransitions"] = r.holder, r.transitions
	spec["leaseDurationSeconds"] = int64((r.duration + time.Second - 1) / time.Second)
	spec["acquireTime"], spec["renewTime"] = r.acquireTime, renewed.UTC().Format(microTime)
	return rawjson.Encode(l.object)
}

// newLease returns a Lease that does not exist yet.
func newLease(namespace, name string) *lease {
	return &lease{object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"namespace": namespace, "name": name},
	}}
}
