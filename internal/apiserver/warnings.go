package apiserver

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/cut"
)

// The limits of the warnings in a response, as in kube-apiserver, in characters. If all of them
// together are longer, each is cut, and those beyond the limit are dropped.
const (
	maxWarnings   = 4096
	maxCutWarning = 256
)

// warn adds the warnings to the header.
func (a *apiRequest) warn(w http.ResponseWriter) {
	for _, text := range deliverable(a.warnings) {
		addWarning(w, text)
	}
	a.warnings = nil
}

// addWarning adds a warning to the header.
func addWarning(w http.ResponseWriter, text string) {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)
	w.Header().Add("Warning", `299 - "`+quoted+`"`)
}

// deliverable returns the warnings that kube-apiserver sends. It drops repeated ones, and those that
// a header can't contain.
func deliverable(warnings []string) (sent []string) {
	var texts []string
	seen, whole := make(map[string]bool), 0
	for _, text := range warnings {
		if !seen[text] && text != "" && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) {
			texts = append(texts, text)
			whole += utf8.RuneCountInString(text)
		}
		seen[text] = true
	}
	if whole <= maxWarnings {
		return texts
	}
	before, length := 0, 0
	for _, text := range texts {
		if before > maxWarnings && length >= maxWarnings {
			break
		}
		before += utf8.RuneCountInString(text)
		text = cut.Runes(text, maxCutWarning)
		length += utf8.RuneCountInString(text)
		sent = append(sent, text)
	}
	return sent
}
