package pages

import (
	"go/ast"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	formatVerbs = regexp.MustCompile(`%[sdvq]`)
	helpCodes   = regexp.MustCompile(`^K\d{3,4}$`)
	explanation = regexp.MustCompile("(?m)^### `(.+)`\n\n(?:(?:<a id=\"(k\\d+)\"></a>)?\\*\\*(K\\d+)\\*\\*\n)?")
)

// helpCode returns the code among the arguments of a call of a logger, "" without one.
func helpCode(call *ast.CallExpr) (code string) {
	for _, argument := range call.Args {
		ast.Inspect(argument, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok {
				if text, err := strconv.Unquote(literal.Value); err == nil && helpCodes.MatchString(text) {
					code = text
				}
			}
			return true
		})
	}
	return code
}

// TestHelpCodes holds that each warning and error of the log has a code, by which docs/troubleshooting.md explains it.
func TestHelpCodes(t *testing.T) {
	explained, anchored := make(map[string][]string), make(map[string]int) // the messages, and how many of them have an anchor, by their codes
	for _, m := range explanation.FindAllStringSubmatch(read(t, "docs/troubleshooting.md"), -1) {
		text, anchor, code := m[1], m[2], m[3]
		if anchor != "" {
			anchored[code]++
			if !strings.EqualFold(anchor, code) {
				t.Errorf("the anchor of %q is %q, want that of %s", text, anchor, code)
			}
		}
		explained[code] = append(explained[code], text)
	}
	delete(explained, "")
	for code, texts := range explained {
		if anchored[code] != 1 {
			t.Errorf("%d of the messages %q have an anchor, want 1", anchored[code], texts)
		}
	}
	used := make(map[string]bool)
	for _, m := range messages(t) {
		used[m.help] = true
		grave := strings.HasPrefix(m.level, "Warn") || strings.HasPrefix(m.level, "Error")
		switch texts := explained[m.help]; {
		case m.help == "" && grave && !strings.HasPrefix(m.position, "internal/apiserver/") && !(m.level == "Warn" && m.text == "" && m.position[:9] == "observer."):
			t.Errorf("%s: the message %q has no code: add an attribute \"help\", and a heading to docs/troubleshooting.md", m.position, m.text)
		case m.help == "" && m.level == "Log" && !slices.Contains(chosenLevels, m.text):
			t.Errorf("%s: the message %q has no code, although its level can be that of a warning", m.position, m.text)
		case m.help != "" && len(texts) == 0:
			t.Errorf("%s: docs/troubleshooting.md does not explain the code %s of %q", m.position, m.help, m.text)
		case m.help != "" && strings.HasPrefix(m.level, "Debug"):
			t.Errorf("%s: the message %q is for debugging, but has the code %s", m.position, m.text, m.help)
		case m.help != "" && m.constant && !slices.Contains(texts, m.text), m.help != "" && !m.constant && !slices.ContainsFunc(texts, func(heading string) bool { return strings.Contains(heading, fixedPart(m.text)) }):
			t.Errorf("%s: docs/troubleshooting.md explains the code %s for %q, not for %q", m.position, m.help, texts, m.text)
		}
	}
	for code, texts := range explained {
		if !used[code] && !slices.Contains(chosenCodes, code) {
			t.Errorf("no message has the code %s of %q", code, texts)
		}
	}
}

// fixedPart returns the longest part of a format without its verbs, and without the punctuation around it.
func fixedPart(format string) (longest string) {
	for _, part := range formatVerbs.Split(format, -1) {
		if part = strings.Trim(part, " :'."); len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// chosenCodes are given to messages by more than one line of code, such as only to those of some levels.
var chosenCodes = []string{"K301", "K303", "K304", "K607"}

// chosenLevels are the messages whose level is not constant, without a code at this level or without one at all.
var chosenLevels = []string{
	"", // of patch_sender.go, with the code of its caller
	" '", " failed with an exception and ", "%s is processed: %d succeeded; %d failed.", "The object has changed meanwhile; making the patch again for its newest state",
}
