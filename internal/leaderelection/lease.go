package leaderelection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// microTime is the format of times in a Lease. The API server requires six fractional digits.
const microTime = "2006-01-02T15:04:05.000000Z"

// lease is a Lease as stored, including the fields of other clients.
type lease struct {
	object map[string]any
	spec   []byte // by which a renewal differs from other changes; no JSON if the Lease is missing
	record
}

// record is the election data in a Lease.
type record struct {
	holder      string        // "" if the Lease was released or never held
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
	spec, _ := rawjson.Find(raw, "spec") // a Lease without a spec is free
	l.spec = bytes.Clone(spec)
	fields, _ := object["spec"].(map[string]any)
	l.holder, _ = fields["holderIdentity"].(string)
	l.acquireTime, _ = fields["acquireTime"].(string)
	l.renewTime, _ = fields["renewTime"].(string)
	l.duration = time.Duration(whole(fields["leaseDurationSeconds"])) * time.Second
	l.transitions = whole(fields["leaseTransitions"])
	return l, nil
}

// releasedDuration is in a released Lease, also by client-go.
const releasedDuration = time.Second

// whole returns an integer, or 0 for another value.
func whole(value any) int64 {
	number, _ := value.(json.Number)
	n, _ := number.Int64() // the API server accepts only integers there
	return n
}

// metadata returns a string of the metadata, or "".
func (l *lease) metadata(name string) string {
	metadata, _ := l.object["metadata"].(map[string]any)
	text, _ := metadata[name].(string)
	return text
}

// with returns the Lease as JSON, with another record and renewal time. It keeps the fields of other clients.
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

// newLease returns a Lease that does not exist.
func newLease(namespace, name string) *lease {
	return &lease{spec: []byte("missing"), object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"namespace": namespace, "name": name},
	}}
}

// missing reports whether the Lease does not exist.
func (l *lease) missing() bool { return l.metadata("resourceVersion") == "" }
