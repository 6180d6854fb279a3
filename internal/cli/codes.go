package cli

import (
	"fmt"
	"regexp"
	"strings"
)

// This file explains the codes of log messages, such as K305, from the page docs/troubleshooting.md.

// isCode matches a code, in any case.
var isCode = regexp.MustCompile(`^[Kk][0-9]{3,4}$`)

// The parts of a page that a terminal does not show: anchors, and the targets of links.
var (
	pageAnchors = regexp.MustCompile(`<a id="[^"]*"></a>`)
	pageLinks   = regexp.MustCompile(`\[([^\[\]]*)\]\(([^()]*)\)`)
)

// explainCode returns the sections of the page that explain a code, as text for a terminal.
func explainCode(page, code string) (string, error) {
	code = strings.ToUpper(code)
	var b strings.Builder
	for _, section := range strings.Split(page, "\n### ")[1:] {
		section, _, _ = strings.Cut(section, "\n## ")
		title, body, _ := strings.Cut(section, "\n")
		if !strings.Contains(body, "**"+code+"**") {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		body = pageLinks.ReplaceAllString(pageAnchors.ReplaceAllString(body, ""), "$1")
		body = strings.NewReplacer("**"+code+"**\n\n", "", "**", "", "`", "").Replace(body)
		fmt.Fprintf(&b, "%s: %s\n\n%s\n", code, strings.ReplaceAll(title, "`", ""), strings.TrimSpace(body))
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("unknown code %q: want the code of a message, such as K305", code)
	}
	return b.String(), nil
}
