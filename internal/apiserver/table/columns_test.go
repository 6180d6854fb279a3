package table

import (
	"encoding/json"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
)

var ages = regexp.MustCompile(`\b\d+[smhdy](\d+[smhd])?\b|2020-01-02T03:04:05Z`)

// TestColumns prints the objects of testdata/cells.txt as kube-apiserver does.
func TestColumns(t *testing.T) {
	data, err := os.ReadFile("testdata/cells.txt")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for block := range strings.SplitSeq(string(data), "\n\n") {
		if strings.HasPrefix(block, "#") {
			continue
		}
		lines := strings.Split(strings.TrimSpace(block), "\n")
		if len(lines) != 3 {
			t.Fatalf("%s: want a path, an object, and its cells", block)
		}
		object, err := rawjson.DecodeObject([]byte(lines[1]))
		if err != nil {
			t.Fatalf("%s: %v", lines[1], err)
		}
		plural := path.Base(lines[0])
		meta := rawjson.AsMap(object["metadata"])
		tested[plural] = true
		t.Run(plural+" "+meta["name"].(string), func(t *testing.T) {
			var want any
			if err := json.Unmarshal([]byte(lines[2]), &want); err != nil {
				t.Fatal(err)
			}
			meta["creationTimestamp"] = "2020-01-02T03:04:05Z"
			printed := New(Columns(plural, false, nil), []map[string]any{object}, "None", time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC))
			encoded, err := json.Marshal(printed["rows"].([]any)[0].(map[string]any)["cells"])
			if err != nil {
				t.Fatal(err)
			}
			var got any
			if err := json.Unmarshal(ages.ReplaceAll(encoded, []byte("(age)")), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("cells (-want +got):\n%s", diff)
			}
		})
	}
	for plural := range builtinColumns() {
		if subresource := plural == "scale"; plural != "" && !subresource && !tested[plural] {
			t.Errorf("testdata/cells.txt has no %s", plural)
		}
	}
}
