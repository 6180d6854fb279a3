package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// The library that parses the manifests of kubectl is the reference for kopf's YAML parser: for all manifests in the source of Kubernetes, for generated
// documents, and for random snippets of syntax.

func TestYAML(t *testing.T) {
	t.Run("manifests of Kubernetes", func(t *testing.T) {
		seen := 0
		for _, path := range manifests(t) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if judgeYAML(t, path, data) {
				seen++
			}
		}
		t.Logf("%d manifests agree", seen)
		if seen < 100 {
			t.Errorf("only %d manifests were found to compare", seen)
		}
	})
	t.Run("generated documents", func(t *testing.T) {
		for seed := range uint64(proof.Rounds(500, 20_000)) {
			random := rand.New(rand.NewPCG(seed, 1))
			data, err := yaml.Marshal(map[string]any{"kind": "Any", "spec": randomValue(random, 4)})
			if err != nil {
				t.Fatal(err)
			}
			judgeYAML(t, fmt.Sprintf("seed %d", seed), data)
		}
	})
	t.Run("snippets of syntax", func(t *testing.T) {
		accepted := 0
		for seed := range uint64(proof.Rounds(10_000, 200_000)) {
			random := rand.New(rand.NewPCG(seed, 2))
			text := "spec:" + randomSyntax(random) + []string{"\n", ""}[random.IntN(2)]
			if !oddMarker.MatchString(text) && judgeYAML(t, fmt.Sprintf("seed %d", seed), []byte(text)) {
				accepted++
			}
		}
		t.Logf("%d snippets are YAML", accepted)
	})
}

// oddMarker matches starts and ends of documents that kubectl does not recognize: it reads up to there and silently drops the rest.
var oddMarker = regexp.MustCompile("(?m)(^|[\u0085\u2028\u2029])(\\.\\.\\.|---[ \t]*[^ \t\n]|%)|[\u0085\u2028\u2029]---|---[\u0085\u2028\u2029]")

// oddColon matches a colon on the line after its key, at the end of a list or map in brackets. YAML does not allow it. The library
// reads it as a part of the key.
var oddColon = regexp.MustCompile("(?m)(^|[\u0085\u2028\u2029]) *:[\\]},]")

// manifests returns the YAML files of the Kubernetes module.
func manifests(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	cmd.Dir = "controlplane"
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var paths []string
	err = filepath.WalkDir(strings.TrimSpace(string(out)), func(path string, entry fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err == nil && entry.Type().IsRegular() && (ext == ".yaml" || ext == ".yml") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// judgeYAML reports whether both parsers accept the documents. The test fails if only one does, or if their values differ.
func judgeYAML(t *testing.T, name string, data []byte) bool {
	t.Helper()
	if oddColon.Match(data) {
		return false
	}
	want, wantErr := libraryManifests(data)
	got, gotErr := kopf.ParseManifests(data)
	switch {
	case wantErr != nil && gotErr != nil:
		return false
	case wantErr != nil:
		t.Errorf("%s: we read what the library refuses (%v):\n%s\n%v", name, wantErr, clip(data), got)
	case gotErr != nil:
		t.Errorf("%s: we refuse (%v) what the library reads:\n%s\n%v", name, gotErr, clip(data), want)
	default:
		if diff := cmp.Diff(want, got, sameNumbers); diff != "" {
			t.Errorf("%s: the values differ (-library +ours):\n%s\n%s", name, clip(data), diff)
		}
		return true
	}
	return false
}

func clip(data []byte) []byte { return data[:min(len(data), 400)] }

// sameNumbers compares numbers by value: the library writes 1.0 as 1.
var sameNumbers = cmp.Comparer(func(a, b json.Number) bool {
	x, _, errX := big.ParseFloat(a.String(), 10, 200, big.ToNearestEven)
	y, _, errY := big.ParseFloat(b.String(), 10, 200, big.ToNearestEven)
	if errX != nil || errY != nil {
		return a == b
	}
	if x.Cmp(y) == 0 {
		return true
	}
	fx, _ := x.Float64() // the library rounds numbers that are not integers
	fy, _ := y.Float64()
	return fx == fy
})

// libraryManifests is [kopf.ParseManifests] by the libraries of Kubernetes.
func libraryManifests(data []byte) ([]map[string]any, error) {
	reader := k8syaml.NewYAMLReader(newReader(data))
	var all []map[string]any
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if written := bytes.TrimSuffix(doc, []byte("\n")); bytes.HasSuffix(data, written) {
			doc = written // the reader has added a line end
		}
		text, err := yaml.YAMLToJSONStrict(doc)
		if err != nil {
			return nil, err
		}
		var value any
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		if value == nil {
			continue
		}
		object, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%T is not an object", value)
		}
		if items, ok := object["items"].([]any); ok && strings.HasSuffix(fmt.Sprint(object["kind"]), "List") {
			for _, item := range items {
				all = append(all, item.(map[string]any))
			}
			continue
		}
		all = append(all, object)
	}
}
