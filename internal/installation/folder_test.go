package installation

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func put(t *testing.T, folder, name, text string) {
	t.Helper()
	path := filepath.Join(folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	present, _, err := (&Folder{Path: folder}).read()
	if err != nil {
		t.Fatal(err)
	}
	return present
}

// mustWrite writes files to a folder, and returns the removed ones.
func mustWrite(t *testing.T, folder string, files Files) []string {
	t.Helper()
	removed, err := (&Folder{Path: folder}).Write(files)
	if err != nil {
		t.Fatal(err)
	}
	return removed
}

func TestFolder(t *testing.T) {
	header := (&Model{Name: "web"}).header()
	files := Files{"a.yaml": header + "a: 1\n", "templates/b.yaml": header + "b: 1\n", "values.schema.json": "{\n  \"$comment\": \"" + strings.TrimPrefix(strings.TrimSpace(header), "# ") + "\"\n}\n"}
	t.Run("TD-46 a folder that is not there is made, and is as it should be then", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "x", "y")
		diff, err := (&Folder{Path: folder}).Diff(files)
		want := "--- /dev/null\n+++ b/a.yaml\n@@ -0,0 +1,2 @@\n+" + strings.TrimSpace(header) + "\n+a: 1\n"
		if err != nil || !strings.HasPrefix(diff, strings.ReplaceAll(want, "/dev/null", os.DevNull)) {
			t.Errorf("got %v and\n%s, want\n%s", err, diff, want)
		}
		if _, err := os.Stat(folder); !os.IsNotExist(err) {
			t.Errorf("the folder was made by the comparison (%v)", err)
		}
		mustWrite(t, folder, files)
		if diff := cmp.Diff(map[string]string(files), contents(t, folder)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if diff, err := (&Folder{Path: folder}).Diff(files); diff != "" || err != nil {
			t.Errorf("got %v and\n%s", err, diff)
		}
	})
	t.Run("TD-46 what differs, is missing, or is not made any more", func(t *testing.T) {
		folder := t.TempDir()
		mustWrite(t, folder, files)
		put(t, folder, "a.yaml", header+"a: 2\n")
		put(t, folder, "templates/c.yaml", header+"c: 1\n")
		put(t, folder, "own.yaml", "own: 1\n")
		if err := os.Remove(filepath.Join(folder, "templates", "b.yaml")); err != nil {
			t.Fatal(err)
		}
		first := strings.TrimSpace(header)
		want := "--- a/a.yaml\n+++ b/a.yaml\n@@ -1,2 +1,2 @@\n " + first + "\n-a: 2\n+a: 1\n" +
			"--- " + os.DevNull + "\n+++ b/templates/b.yaml\n@@ -0,0 +1,2 @@\n+" + first + "\n+b: 1\n" +
			"--- a/templates/c.yaml\n+++ " + os.DevNull + "\n@@ -1,2 +0,0 @@\n-" + first + "\n-c: 1\n"
		diff, err := (&Folder{Path: folder}).Diff(files)
		if diff := cmp.Diff(want, diff); diff != "" || err != nil {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
		mustWrite(t, folder, files)
		all := contents(t, folder)
		if all["own.yaml"] != "own: 1\n" {
			t.Errorf("the file of another origin is %q", all["own.yaml"])
		}
		delete(all, "own.yaml")
		if diff := cmp.Diff(map[string]string(files), all); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("TD-46 a file of another origin is in the way", func(t *testing.T) {
		folder := t.TempDir()
		put(t, folder, "templates/b.yaml", "own: 1\n")
		_, err := (&Folder{Path: folder}).Write(files)
		if err == nil || !strings.Contains(err.Error(), filepath.Join("templates", "b.yaml")+" was not made by this command") {
			t.Errorf("got %v", err)
		}
		if all := contents(t, folder); len(all) != 1 || all["templates/b.yaml"] != "own: 1\n" {
			t.Errorf("got %q", all)
		}
		if diff, err := (&Folder{Path: folder}).Diff(files); err != nil || !strings.Contains(diff, "-own: 1\n") {
			t.Errorf("got %v and\n%s", err, diff)
		}
	})
}

// TestFolderInTheWay checks that nothing is written or removed if a foreign file is in the way.
func TestFolderInTheWay(t *testing.T) {
	made := func(name string) Files {
		header := (&Model{Name: name}).header()
		return Files{"rbac.yaml": header + "a: 1\n", "service.yaml": header + "b: 1\n", "templates/x.yaml": header + "c: 1\n"}
	}
	files := made("web")
	for _, tt := range []struct {
		name string
		make func(t *testing.T, folder, outside string) error
		want string
	}{
		{"TD-46 a symbolic link to a file", func(t *testing.T, folder, outside string) error {
			put(t, outside, "own.yaml", files["rbac.yaml"])
			return os.Symlink(filepath.Join(outside, "own.yaml"), filepath.Join(folder, "service.yaml"))
		}, "service.yaml cannot be written: there is a symbolic link in its place, so remove that"},
		{"TD-46 a symbolic link to a folder", func(t *testing.T, folder, outside string) error {
			return os.Symlink(outside, filepath.Join(folder, "templates"))
		}, "x.yaml cannot be written: there is a symbolic link in its place"},
		{"TD-46 a folder", func(t *testing.T, folder, _ string) error {
			return os.Mkdir(filepath.Join(folder, "service.yaml"), 0o755)
		}, "service.yaml cannot be written: there is a folder in its place"},
		{"TD-46 a file instead of a folder", func(t *testing.T, folder, _ string) error {
			put(t, folder, "templates", "own: 1\n")
			return nil
		}, "x.yaml cannot be written: there is a file in its place"},
		{"TD-46 the files of another operator", func(t *testing.T, folder, _ string) error {
			mustWrite(t, folder, Files{"webhooks.yaml": (&Model{Name: "mail"}).header()})
			return nil
		}, ` has files of the operator "mail", such as webhooks.yaml, and these are of "web": name another folder, or remove it if the operator was renamed`},
		{"TD-46 the chart of another operator", func(t *testing.T, folder, _ string) error {
			put(t, folder, "values.schema.json", (&Model{Name: "mail", Image: "x"}).valuesSchema())
			return nil
		}, `the operator "mail", such as values.schema.json`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder, outside := t.TempDir(), t.TempDir()
			if err := tt.make(t, folder, outside); err != nil {
				t.Skip(err)
			}
			before, elsewhere := contents(t, folder), contents(t, outside)
			d := &Folder{Path: folder}
			if _, err := d.Write(files); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if diff, err := d.Diff(files); err == nil || diff != "" {
				t.Errorf("the comparison: got %v and\n%s", err, diff)
			}
			if diff := cmp.Diff(before, contents(t, folder)); diff != "" {
				t.Errorf("the folder has changed (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(elsewhere, contents(t, outside)); diff != "" {
				t.Errorf("what is elsewhere has changed (-want +got)\n%s", diff)
			}
		})
	}
}

func TestFolderLeftovers(t *testing.T) {
	m := &Model{Name: "web", Image: "web", Home: "default", Replicas: 1}
	chart, files := m.ChartFiles(), m.YAMLFiles(m.Objects())
	t.Run("TD-46 what was made before and is not any more is removed, and told", func(t *testing.T) {
		folder := t.TempDir()
		mustWrite(t, folder, chart)
		put(t, folder, "README.md", "own\n")
		removed := mustWrite(t, folder, files)
		var want []string
		for _, name := range chart.Names() {
			want = append(want, filepath.Join(folder, filepath.FromSlash(name)))
		}
		if diff := cmp.Diff(want, removed); diff != "" || contents(t, folder)["README.md"] != "own\n" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("TD-46 some files are made, and the others stay", func(t *testing.T) {
		folder := t.TempDir()
		mustWrite(t, folder, files)
		d := &Folder{Path: folder, Keep: true}
		some := Files{"rbac.yaml": files["rbac.yaml"]}
		if diff, err := d.Diff(some); diff != "" || err != nil {
			t.Errorf("got %v and\n%s", err, diff)
		}
		if removed, err := d.Write(some); len(removed) > 0 || err != nil {
			t.Errorf("got %q, %v", removed, err)
		}
		if diff := cmp.Diff(map[string]string(files), contents(t, folder)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("TD-46 a file that was not written to its end is replaced", func(t *testing.T) {
		for _, left := range []int{0, 10, len(mark) + 2, len(mark) + 4, len(m.header()), len(files["rbac.yaml"]) - 1} {
			folder := t.TempDir()
			put(t, folder, "rbac.yaml", files["rbac.yaml"][:left])
			mustWrite(t, folder, files)
			if diff := cmp.Diff(map[string]string(files), contents(t, folder)); diff != "" {
				t.Errorf("%d bytes are left: (-want +got)\n%s", left, diff)
			}
		}
	})
	t.Run("TD-46 the line ends of Windows are no difference", func(t *testing.T) {
		folder := t.TempDir()
		for name, text := range chart {
			put(t, folder, name, strings.ReplaceAll(text, "\n", "\r\n"))
		}
		if diff, err := (&Folder{Path: folder}).Diff(chart); diff != "" || err != nil {
			t.Errorf("got %v and\n%s", err, diff)
		}
		put(t, folder, "service.yaml", strings.ReplaceAll(files["deployment.yaml"], "\n", "\r\n"))
		if removed := mustWrite(t, folder, chart); len(removed) != 1 {
			t.Errorf("got %q", removed)
		}
	})
}

func TestDiff(t *testing.T) {
	for _, tt := range []struct{ before, after, want string }{
		{"a\nb\nc\nd\ne\nf\ng\nh\ni\n", "a\nb\nc\nd\nX\nf\ng\nh\ni\n", "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n"},
		{"a\nb\nc\n", "b\nx\nc\ny\n", "@@ -1,3 +1,4 @@\n-a\n b\n+x\n c\n+y\n"},
		{"", "a\n", "@@ -0,0 +1,1 @@\n+a\n"},
		{"a\n", "", "@@ -1,1 +0,0 @@\n-a\n"},
		{"a\na\na\n", "a\na\n", "@@ -1,3 +1,2 @@\n a\n a\n-a\n"},
		{"a\nb\n", "a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n"},
		{"a", "a\nb\n", "@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n"},
	} {
		if diff := cmp.Diff(tt.want, diff(lines(tt.before), lines(tt.after))); diff != "" {
			t.Errorf("%q, %q (-want +got)\n%s", tt.before, tt.after, diff)
		}
	}
}

// TestDiffOfLongFiles checks that comparing two long files, such as definitions, needs limited memory.
func TestDiffOfLongFiles(t *testing.T) {
	const n = 8000
	before := []string{"old\n"}
	for i := range n {
		before = append(before, strings.Repeat("x", i%7)+"\n")
	}
	before = append(before, "old\n")
	after := slices.Clone(before)
	after[0], after[n+1] = "new\n", "new\n"
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	text := diff(before, after)
	runtime.ReadMemStats(&m1)
	if mb := (m1.TotalAlloc - m0.TotalAlloc) >> 20; mb > 64 {
		t.Errorf("it took %d MB", mb)
	}
	if !strings.HasPrefix(text, "@@ -1,8002 +1,8002 @@\n-old\n") || !strings.HasSuffix(text, "\n+new\n") || strings.Count(text, "\n") != 2*(n+2)+1 {
		t.Errorf("got %d lines", strings.Count(text, "\n"))
	}
}
