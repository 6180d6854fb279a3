package installation

import (
	"os"
	"path/filepath"
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
	present, err := filesIn(folder)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for name, data := range present {
		all[name] = string(data)
	}
	return all
}

func TestFolder(t *testing.T) {
	header := (&Model{Name: "web"}).header()
	files := Files{"a.yaml": header + "a: 1\n", "templates/b.yaml": header + "b: 1\n", "values.schema.json": "{\n  \"$comment\": \"" + strings.TrimPrefix(strings.TrimSpace(header), "# ") + "\"\n}\n"}
	t.Run("TD-46 a folder that is not there is made, and is as it should be then", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "x", "y")
		diff, err := files.Diff(folder)
		want := "--- /dev/null\n+++ b/a.yaml\n@@ -0,0 +1,2 @@\n+" + strings.TrimSpace(header) + "\n+a: 1\n"
		if err != nil || !strings.HasPrefix(diff, strings.ReplaceAll(want, "/dev/null", os.DevNull)) {
			t.Errorf("got %v and\n%s, want\n%s", err, diff, want)
		}
		if _, err := os.Stat(folder); !os.IsNotExist(err) {
			t.Errorf("the folder was made by the comparison (%v)", err)
		}
		if err := files.Write(folder); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string(files), contents(t, folder)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if diff, err := files.Diff(folder); diff != "" || err != nil {
			t.Errorf("got %v and\n%s", err, diff)
		}
	})
	t.Run("TD-46 what differs, is missing, or is not made any more", func(t *testing.T) {
		folder := t.TempDir()
		if err := files.Write(folder); err != nil {
			t.Fatal(err)
		}
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
		diff, err := files.Diff(folder)
		if diff := cmp.Diff(want, diff); diff != "" || err != nil {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
		if err := files.Write(folder); err != nil {
			t.Fatal(err)
		}
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
		err := files.Write(folder)
		if err == nil || !strings.Contains(err.Error(), filepath.Join("templates", "b.yaml")+" was not made by this command") {
			t.Errorf("got %v", err)
		}
		if all := contents(t, folder); len(all) != 1 || all["templates/b.yaml"] != "own: 1\n" {
			t.Errorf("got %q", all)
		}
		if diff, err := files.Diff(folder); err != nil || !strings.Contains(diff, "-own: 1\n") {
			t.Errorf("got %v and\n%s", err, diff)
		}
	})
}

func TestDiff(t *testing.T) {
	for _, tt := range []struct{ before, after, want string }{
		{"a\nb\nc\nd\ne\nf\ng\nh\ni", "a\nb\nc\nd\nX\nf\ng\nh\ni", "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n"},
		{"a\nb\nc", "b\nx\nc\ny", "@@ -1,3 +1,4 @@\n-a\n b\n+x\n c\n+y\n"},
		{"", "a", "@@ -0,0 +1,1 @@\n+a\n"},
		{"a", "", "@@ -1,1 +0,0 @@\n-a\n"},
		{"a\na\na", "a\na", "@@ -1,3 +1,2 @@\n a\n a\n-a\n"},
	} {
		if diff := cmp.Diff(tt.want, diff(lines(tt.before), lines(tt.after))); diff != "" {
			t.Errorf("%q, %q (-want +got)\n%s", tt.before, tt.after, diff)
		}
	}
}
