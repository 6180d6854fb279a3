package webhookca

import (
	"encoding/json"
	"errors"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// ParseSecret reads a Secret.
func ParseSecret(version string, raw []byte) (Secret, error) {
	var read struct{ Data Data }
	if err := json.Unmarshal(raw, &read); err != nil {
		return Secret{}, errors.New("its data cannot be read") // the error may show a part of the data
	}
	return Secret{Version: version, Data: read.Data}, nil
}

// Secret returns a new Secret with the data.
func (d Data) Secret(namespace, name string) ([]byte, error) {
	return rawjson.Encode(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": map[string][]byte(d),
		"metadata": map[string]any{"name": name, "namespace": namespace},
	})
}

// Patch returns a merge patch for one resource version of the Secret. It replaces the keys of an authority, and removes those missing in the data.
func (d Data) Patch(version string) ([]byte, error) {
	values := make(map[string]any)
	for _, key := range Keys() {
		if values[key] = d[key]; d[key] == nil {
			values[key] = nil
		}
	}
	return rawjson.Encode(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "data": values})
}
