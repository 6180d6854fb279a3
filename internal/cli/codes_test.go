package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page and the sources of kopf.
const (
	codesPage = "../../docs/troubleshooting.md"
	sources   = "../.."
)

// TestCodes checks that "help CODE" explains each code of a log message, by the entry of that message.
func TestCodes(t *testing.T) {
	page, err := os.ReadFile(codesPage)
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`"(K\d{3,4})"`)
	logged := regexp.MustCompile(`(?s)\.(?:Debug|Info|Warn|Error)\("([^"]{12,}?)[^a-zA-Z"]*"[^\n]*(?:,\n[^\n]*)?"help", "(K\d{3,4})"`)
	checked := 0
	err = filepath.WalkDir(sources, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && entry.Name() == "testdata" || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "contract") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range codes.FindAllStringSubmatch(string(data), -1) {
			if _, err := explainCode(string(page), m[1]); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		for _, m := range logged.FindAllStringSubmatch(string(data), -1) {
			checked++
			if text, _ := explainCode(string(page), m[2]); !strings.Contains(text, m[1]) {
				t.Errorf("%s: %q has the code %s, which is explained as %s", path, m[1], m[2], text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 50 {
		t.Errorf("only %d messages with a code were found", checked)
	}
}

func TestHelpOfCodes(t *testing.T) {
	page := "# Page\n\n## Group\n\n### `Some … text`\n\n<a id=\"k101\"></a>**K101**\n\n- **Meaning.** See [`a page`](a.md#b).\n- **Fix.** None.\n\n" +
		"### `Other`\n\n**K101**\n\n- **Meaning.** Another one.\n\n## Next\n\n### `No code`\n\n- **Meaning.** None.\n"
	for args, want := range map[string]string{
		"K101": "K101: Some … text\n\n- Meaning. See a page.\n- Fix. None.\n\nK101: Other\n\n- Meaning. Another one.\n",
		"k101": "K101: Some … text\n\n- Meaning. See a page.\n- Fix. None.\n\nK101: Other\n\n- Meaning. Another one.\n",
		"101":  "K101: Some … text\n\n- Meaning. See a page.\n- Fix. None.\n\nK101: Other\n\n- Meaning. Another one.\n",
	} {
		line := &Line{Program: "myoperator", Codes: page, Getenv: func(string) string { return "" }}
		call, err := line.Parse(t.Context(), []string{"help", args})
		if err != nil || call.Text != want {
			t.Errorf("%s: got %v, %v, want %q", args, call, err, want)
		}
	}
	line := &Line{Program: "myoperator", Codes: page}
	for code, want := range map[string]string{
		"K102": `unknown code "K102": want the code of a message, such as K305`,
		"102":  `unknown code "K102": want the code of a message, such as K305`,
		"k10":  `unknown code "K10": did you mean K101?`,
	} {
		if _, err := line.Parse(t.Context(), []string{"help", code}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", code, err, want)
		}
	}
}
