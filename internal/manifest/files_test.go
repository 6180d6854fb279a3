package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a.yml", "c.json", "d.txt", "e.YAML", "f/g.yaml", "h.yaml/i.yaml", "none/x.txt", "none/below/x.yaml"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, paths string // paths relative to the folder, separated by spaces
		stdin       string
		want        string // contents of the files
		err         string // with DIR for the folder
	}{
		{name: "nothing"},
		{name: "files", paths: "b.yaml d.txt b.yaml", want: "b.yaml d.txt b.yaml"},
		{name: "a folder", paths: ".", want: "a.yml b.yaml c.json"},
		{name: "folders and files", paths: "f b.yaml h.yaml", want: "f/g.yaml b.yaml h.yaml/i.yaml"},
		{name: "standard input", paths: "b.yaml - f", stdin: "typed", want: "b.yaml typed f/g.yaml"},
		{name: "empty standard input", paths: "-", stdin: " \n", err: "standard input: no manifests in it"},
		{name: "standard input twice", paths: "- b.yaml -", stdin: "typed", err: "standard input (-) can be read only once"},
		{name: "a folder without manifests", paths: "b.yaml none", err: "no manifests in the folder DIR" + string(filepath.Separator) + "none: want files that end in .yaml, .yml or .json"},
		{name: "a missing file", paths: "b.yaml x.yaml", err: "x.yaml: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var paths []string
			for path := range strings.FieldsSeq(tt.paths) {
				if path != "-" {
					path = filepath.Join(dir, path)
				}
				paths = append(paths, path)
			}
			files, err := ReadFiles(t.Context(), paths, strings.NewReader(tt.stdin))
			if want := strings.ReplaceAll(tt.err, "DIR", dir); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got the error %v, want %q", err, want)
			}
			var got []string
			for _, file := range files {
				got = append(got, string(file.Data))
				if file.Path != "standard input" && filepath.Base(file.Path) != filepath.Base(string(file.Data)) {
					t.Errorf("%s is named %s", file.Data, file.Path)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("symbolic links, as in volumes of config maps", func(t *testing.T) {
		volume := t.TempDir()
		for link, target := range map[string]string{"..data": "f", "g.yaml": "f/g.yaml", "folder.yaml": "f"} {
			if err := os.Symlink(filepath.Join(dir, target), filepath.Join(volume, link)); err != nil {
				t.Skip(err)
			}
		}
		files, err := ReadFiles(t.Context(), []string{volume}, nil)
		if err != nil || len(files) != 1 || string(files[0].Data) != "f/g.yaml" {
			t.Errorf("got %q, %v", files, err)
		}
	})
}
