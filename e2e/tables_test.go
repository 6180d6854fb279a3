package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The tables of built-in kinds. The real server prints the expected file of the in-memory server's unit tests. Both servers have the same columns.

const cellsFile = "../internal/apiserver/table/testdata/cells.txt"

var updateCells = flag.Bool("cells.update", false, "write the cells that the real server prints")

const asTable = "application/json;as=Table;g=meta.k8s.io;v=v1"

// columnDefinition has the compared fields of a column, without its description.
type columnDefinition struct {
	Name, Type, Format string
	Priority           int
}

type tableAnswer struct {
	Kind, Message     string
	ColumnDefinitions []columnDefinition
	Rows              []struct{ Cells []any }
}

func TestTables(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(cellsFile)
	if err != nil {
		t.Fatal(err)
	}
	real, ours := judge(t, ownCluster(t, nil)), embedded(t)
	blocks := strings.Split(strings.TrimSpace(string(data)), "\n\n")
	for i, block := range blocks {
		if strings.HasPrefix(block, "#") {
			continue
		}
		lines := strings.Split(block, "\n")
		t.Run(fmt.Sprintf("%d %s", i, lines[0]), func(t *testing.T) {
			got := real.table(t, createForTable(t, real, lines[0], lines[1]))
			cells := printedCells(t, got)
			if *updateCells {
				blocks[i] = strings.Join([]string{lines[0], lines[1], cells}, "\n")
			} else if len(lines) != 3 || cells != lines[2] {
				t.Errorf("%s has other cells than the real server prints:\n%s\n%s", cellsFile, lines[1], cells)
			}
			empty := ours.table(t, lines[0])
			if empty.Kind == "Status" {
				t.Skipf("not served in memory: %s", empty.Message)
			}
			if diff := cmp.Diff(got.ColumnDefinitions, empty.ColumnDefinitions); diff != "" {
				t.Errorf("columns (-real +in memory):\n%s", diff)
			}
		})
	}
	if *updateCells {
		if err := os.WriteFile(cellsFile, []byte(strings.Join(blocks, "\n\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// createForTable creates an object with its status, and returns its path.
func createForTable(t *testing.T, e *endpoint, collection, object string) string {
	t.Helper()
	var parsed struct {
		Metadata struct{ Name string }
		Status   json.RawMessage
	}
	if err := json.Unmarshal([]byte(object), &parsed); err != nil {
		t.Fatal(err)
	}
	path := collection + "/" + parsed.Metadata.Name
	e.mustSend(t, &request{method: http.MethodPost, path: collection, contentType: asJSON, body: object})
	if parsed.Status != nil {
		e.mustSend(t, &request{method: http.MethodPatch, path: path + "/status", contentType: asMerge, body: `{"status": ` + string(parsed.Status) + `}`})
	}
	return path
}

func (e *endpoint) table(t *testing.T, path string) *tableAnswer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", asTable)
	resp, err := e.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		return &tableAnswer{Kind: "Status", Message: string(data)}
	}
	answer := &tableAnswer{}
	if err := json.Unmarshal(data, answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

var cellAge = regexp.MustCompile(`\b\d+[smhdy](\d+[smhd])?\b|\d{4}-\d\d-\d\dT[\d:]+Z`)

// printedCells returns the cells of the only row, with ages that are the same at any time.
func printedCells(t *testing.T, answer *tableAnswer) string {
	t.Helper()
	if len(answer.Rows) != 1 {
		t.Fatalf("got %d rows: %s", len(answer.Rows), answer.Message)
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(answer.Rows[0].Cells); err != nil {
		t.Fatal(err)
	}
	return cellAge.ReplaceAllString(strings.TrimSpace(text.String()), "(age)")
}
