package protobuf

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// message encodes fields as Protocol Buffers: a number and its value.
func message(fields ...any) []byte {
	var b []byte
	put := func(v uint64) {
		for ; v >= 0x80; v >>= 7 {
			b = append(b, byte(v)|0x80)
		}
		b = append(b, byte(v))
	}
	for i := 0; i < len(fields); i += 2 {
		n := uint64(fields[i].(int)) << 3
		switch v := fields[i+1].(type) {
		case int:
			put(n)
			put(uint64(v))
		case string:
			put(n | 2)
			put(uint64(len(v)))
			b = append(b, v...)
		case []byte:
			put(n | 2)
			put(uint64(len(v)))
			b = append(b, v...)
		}
	}
	return b
}

func envelope(apiVersion, kind string, raw []byte) []byte {
	return append([]byte(magic), message(1, message(1, apiVersion, 2, kind), 2, raw)...)
}

func TestProtobuf(t *testing.T) {
	meta := message(1, "a", 2, "", 3, "default", 7, 0, 8, message(), 11, message(1, "k", 2, "v"), 14, "example.com/x",
		13, message(1, "Pod", 3, "p", 4, "u", 5, "v1", 6, 0))
	for _, test := range []struct {
		name string
		data []byte
		want map[string]any
	}{
		{"a config map", envelope("v1", "ConfigMap", message(1, meta, 2, message(1, "x", 2, "y"), 3, message(1, "b", 2, []byte{1, 2}))), map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"x": "y"}, "binaryData": map[string]any{"b": "AQI="},
			"metadata": map[string]any{
				"name": "a", "namespace": "default", "labels": map[string]any{"k": "v"}, "finalizers": []any{"example.com/x"},
				"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": false}},
			},
		}},
		{"a lease", envelope("coordination.k8s.io/v1", "Lease", message(2, message(1, "me", 4, message(1, 1700000000, 2, 5000)))), map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"spec": map[string]any{"holderIdentity": "me", "renewTime": "2023-11-14T22:13:20.000005Z"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Decode(test.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzProtobuf(f *testing.F) {
	f.Add(envelope("v1", "ConfigMap", message(1, message(1, "a"))))
	f.Add(envelope("apps/v1", "Deployment", message(2, message(1, 3, 3, message(2, message(2, message(1, "c", 8, message(1, message(1, "cpu", 2, message(1, "1"))))))))))
	f.Fuzz(func(t *testing.T, data []byte) {
		object, err := Decode(data)
		if err == nil && object["kind"] == nil {
			t.Errorf("an object without a kind: %v", object)
		}
	})
}
