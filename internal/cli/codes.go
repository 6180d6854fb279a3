package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/cliflag"
)

// This file explains the codes of log messages, such as K305, from the page docs/troubleshooting.md.

// isCode matches a code, in any case and also without its letter, or what should be one.
var isCode = regexp.MustCompile(`^[Kk]?[0-9]+$`)

// pageCodes matches the codes that a page explains.
var pageCodes = regexp.MustCompile(`\*\*(K[0-9]{3,4})\*\*`)

// The parts of a page that a terminal does not show: anchors, and the targets of links.
var (
	pageAnchors = regexp.MustCompile(`<a id="[^"]*"></a>`)
	pageLinks   = regexp.MustCompile(`\[([^\[\]]*)\]\(([^()]*)\)`)
)

// explainCode returns the sections of the page that explain a code, as text for a terminal.
func explainCode(page, code string) (string, error) {
	code = "K" + strings.TrimPrefix(strings.ToUpper(code), "K")
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
		var longer []string
		for _, found := range pageCodes.FindAllStringSubmatch(page, -1) {
			if known := found[1]; strings.HasPrefix(known, code) && !slices.Contains(longer, known) {
				longer = append(longer, known)
			}
		}
		if len(longer) > 0 {
			return "", fmt.Errorf("unknown code %q: did you mean %s?", code, cliflag.Or(longer[:min(len(longer), 3)]))
		}
		return "", fmt.Errorf("unknown code %q: want the code of a message, such as K305", code)
	}
	return b.String(), nil
}
