package pages

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf"
)

// read returns a file of the module.
func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// source returns the source of the framework, without its tests.
func source(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"/*.go", "/internal/*/*.go", "/internal/*/*/*.go"} {
		files, err := filepath.Glob(root + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, root+"/internal/contract") || strings.HasPrefix(file, root+"/internal/pages") {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(data)
		}
	}
	return all.String()
}

// TestMessages holds that the messages that pages explain, in the first column of a table or as a heading, are those of the framework.
func TestMessages(t *testing.T) {
	// Texts of the log are concatenated from parts of the source; what stands for an object, a name or a number ends a part.
	text := strings.NewReplacer(`" + "`, "", "\\\"", `"`).Replace(regexp.MustCompile(`" \+\n\s*"`).ReplaceAllString(source(t), ""))
	parts := regexp.MustCompile(`…|'[^']*'|\b\d\S*|exception and`) // the consequence of an exception is another text
	checked := 0
	for _, page := range []string{"docs/troubleshooting.md", "docs/peering.md", "docs/high-availability.md"} {
		for line := range strings.Lines(read(t, page)) {
			named := ""
			switch {
			case strings.HasPrefix(line, "|"):
				named = strings.Split(line, "|")[1]
			case strings.HasPrefix(line, "### "):
				named = line
			}
			for _, message := range quoted.FindAllString(named, -1) {
				message = strings.Trim(message, "`")
				if len(strings.Fields(message)) < 3 {
					continue
				}
				for _, part := range parts.Split(message, -1) {
					if part = strings.Trim(part, " :."); len(part) < 12 {
						continue
					}
					checked++
					if !strings.Contains(text, part) {
						t.Errorf("%s: nothing logs %q", page, part)
					}
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d messages", checked)
	}
}

// TestListOfMessages holds that the list at the top of docs/troubleshooting.md has each message that the page explains, in the same order.
func TestListOfMessages(t *testing.T) {
	page := read(t, "docs/troubleshooting.md")
	var listed, explained []string
	for _, m := range regexp.MustCompile("(?m)^  - \\[(`.+`)\\]\\(#").FindAllStringSubmatch(page, -1) {
		listed = append(listed, m[1])
	}
	for _, m := range regexp.MustCompile("(?m)^### (`.+`)$").FindAllStringSubmatch(page, -1) {
		explained = append(explained, m[1])
	}
	if !slices.Equal(listed, explained) {
		t.Errorf("docs/troubleshooting.md lists %d messages, and explains %d: %s", len(listed), len(explained), cmp.Diff(listed, explained))
	}
}

// TestMetrics holds that the pages name the metrics that there are, and docs/probes-and-metrics.md all of them.
func TestMetrics(t *testing.T) {
	name := regexp.MustCompile(`\bkopf_[a-z_]+[a-z]\b`)
	served := name.FindAllString(regexp.MustCompile(`_(bucket|sum|count)\b`).ReplaceAllString(read(t, "internal/metrics/tables.go"), ""), -1)
	page := read(t, "docs/probes-and-metrics.md")
	if len(served) < 10 {
		t.Fatalf("only %d metrics", len(served))
	}
	for _, metric := range served {
		if !strings.Contains(page, metric) {
			t.Errorf("docs/probes-and-metrics.md does not tell of %s", metric)
		}
	}
	for _, file := range markdown(t) {
		if strings.HasSuffix(file, "CHANGELOG.md") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range name.FindAllString(string(data), -1) {
			if !slices.Contains(served, metric) {
				t.Errorf("%s: there is no metric %s", file, metric)
			}
		}
	}
}

// TestOptions holds that the pages on commands have the options that there are.
func TestOptions(t *testing.T) {
	const manifests, inspection = "docs/manifests.md", "docs/status-and-explain.md"
	pages := map[string]string{"run": "", "freeze": "", "resume": "", "completion": "", "version": "", "manifests": manifests, "explain-rights": manifests, "status": inspection, "explain": inspection}
	option := regexp.MustCompile(`--[a-z][a-z-]+[a-z]`)
	there := map[string]bool{"--help": true} // of all commands
	for command, path := range pages {
		if path == "" {
			path = "docs/command-line.md"
		}
		page := read(t, path)
		var help, stderr bytes.Buffer
		if code := kopf.Command(t.Context(), []string{"help", command}, &help, &stderr); code != 0 {
			t.Fatal(stderr.String())
		}
		for _, name := range option.FindAllString(help.String(), -1) {
			there[name] = true
			if !regexp.MustCompile(name + `\b`).MatchString(page) {
				t.Errorf("%s does not tell of %s", path, name)
			}
		}
	}
	for _, path := range []string{"docs/command-line.md", manifests, inspection} {
		for _, name := range option.FindAllString(read(t, path), -1) {
			if !there[name] {
				t.Errorf("%s: there is no option %s", path, name)
			}
		}
	}
}
