package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDeployment holds that the folders of docs/deployment are what the commands on the page make.
func TestDeployment(t *testing.T) {
	var made []string
	for _, b := range blocks(t, "sh") {
		if filepath.Base(b.File) != "deployment.md" {
			continue
		}
		for _, line := range b.Commands() {
			words := strings.Fields(line)
			if len(words) < 4 || words[0] != "go" || words[3] != "manifests" {
				continue
			}
			cmd := exec.Command("go", append(words[1:], "--check")...)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			made = append(made, filepath.Base(words[len(words)-1]))
		}
	}
	folders, err := os.ReadDir(filepath.Join(root, "docs", "deployment"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if !strings.Contains(strings.Join(made, " "), f.Name()) {
			t.Errorf("no command of the page makes docs/deployment/%s", f.Name())
		}
	}
}
