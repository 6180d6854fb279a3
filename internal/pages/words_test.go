package pages

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The test in this file holds the English of the pages: no words of a private dialect, and sentences that are read once.

// sentenceLimit is the number of words of the longest sentence.
const sentenceLimit = 30

// dialect is a list of words that pages and comments must not have, each with a replacement.
var dialect = []struct{ pattern, better string }{
	{`beside`, "next to, in addition to, or compared with"},
	{`(no|some|every)body|whoever`, "the user, another client, or the API server"},
	{`floods?|flooding`, "rate limit, or throttle"},
	{`(is|are|was|were|be) (told|said|asked for|let in|let go)`, "the active voice: report, log, return, document, or request"},
	{`tells? (what|how|whether|which|why|where|when|that|to)`, "describes, reports, or returns"},
	{`for good`, "permanently"},
	{`shall|wish(es|ed)?`, "must, should, or desired"},
	{`the original|ours|theirs`, "Kopf for Python, kopf, or controller-runtime"},
	{`what (is|has|becomes|comes|was|it|they|there) `, "a noun"},
	{`who(ever)? (is|has|uses|runs|reads|writes|wants|comes)`, "you, or a role"},
	{`at rest`, "idle, or without pending changes"},
	{`essence|glance|rivals?`, "last-handled configuration, or another replica"},
	{`anew`, "again"},
}

// dialectWords are the patterns of the dialect, in the same order.
var dialectWords = func() (all []*regexp.Regexp) {
	for _, d := range dialect {
		all = append(all, regexp.MustCompile(`(?i)\b(`+d.pattern+`)\b`))
	}
	return all
}()

var (
	comments  = regexp.MustCompile(`(?s)<!--.*?-->`)
	linkText  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	tableRule = regexp.MustCompile(`^\|[-:| ]+\|$`)
	listItem  = regexp.MustCompile(`^(?:[-*]|\d+\.) (?:\[[ x]\] )?`)
	ending    = regexp.MustCompile(`[.!?:]["”)*_]*(?:\s+|$)`)
	abbreviat = strings.NewReplacer("e.g. ", "for example ", "i.e. ", "that is ", "etc. ", "and so on ", "vs. ", "against ")
)

// prose returns the paragraphs, items, headings and cells of a page in Markdown, without code and markup.
func prose(text string) []string {
	text = comments.ReplaceAllString(fences.ReplaceAllString(text, ""), "")
	text = linkText.ReplaceAllString(quoted.ReplaceAllString(text, "x"), "$1")
	var all []string
	var open strings.Builder
	flush := func() {
		if open.Len() > 0 {
			all = append(all, open.String())
			open.Reset()
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "> "))
		switch {
		case line == "" || tableRule.MatchString(line):
			flush()
		case strings.HasPrefix(line, "|"):
			flush()
			all = append(all, strings.Split(strings.Trim(line, "|"), "|")...)
		case strings.HasPrefix(line, "#"):
			flush()
			all = append(all, strings.TrimLeft(line, "# "))
		case listItem.MatchString(line):
			flush()
			open.WriteString(listItem.ReplaceAllString(line, ""))
		default:
			if open.Len() > 0 {
				open.WriteByte(' ')
			}
			open.WriteString(line)
		}
	}
	flush()
	return all
}

// flaws returns the flaws in the English of a page.
func flaws(text string) []string {
	var all []string
	for _, paragraph := range prose(text) {
		all = append(all, flawsOf(paragraph)...)
		for _, sentence := range ending.Split(abbreviat.Replace(paragraph), -1) {
			if strings.Contains(sentence, ";") {
				all = append(all, "a semicolon joins two sentences: "+sentence)
			}
		}
	}
	return all
}

// flawsOf returns the words of the dialect and the long sentences in a paragraph.
func flawsOf(paragraph string) (all []string) {
	for i, word := range dialectWords {
		if found := word.FindString(paragraph + " "); found != "" {
			all = append(all, `"`+found+`" is not said here; write `+dialect[i].better+": "+paragraph)
		}
	}
	for _, sentence := range ending.Split(abbreviat.Replace(paragraph), -1) {
		if len(strings.Fields(sentence)) > sentenceLimit {
			all = append(all, "a sentence is longer than 30 words: "+sentence)
		}
	}
	return all
}

// identifiers are names in the code that have a word of the dialect.
var identifiers = strings.NewReplacer("Essence", "x", "Package essence", "x")

// commentFlaws returns the flaws in the English of a comment, which may have semicolons.
func commentFlaws(text string) (all []string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if !strings.HasPrefix(paragraph, "\t") { // code
			all = append(all, flawsOf(strings.Join(strings.Fields(identifiers.Replace(paragraph)), " "))...)
		}
	}
	return all
}

// TestComments checks that the comments of all Go files are in plain English.
func TestComments(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, comment := range file.Comments {
			checked++
			for _, flaw := range commentFlaws(comment.Text()) {
				t.Errorf("%s: %s", files.Position(comment.Pos()), flaw)
			}
		}
		return nil
	})
	if err != nil || checked < 10_000 {
		t.Errorf("%d comments were checked: %v", checked, err)
	}
}

// TestEnglish holds that pages are in plain English.
func TestEnglish(t *testing.T) {
	for _, page := range markdown(t) {
		name, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, flaw := range flaws(string(data)) {
			t.Errorf("%s: %s", filepath.ToSlash(name), flaw)
		}
	}
}

// TestFlaws holds that what TestEnglish looks for is found, wherever it stands.
func TestFlaws(t *testing.T) {
	long := strings.Repeat("word ", sentenceLimit)
	for text, want := range map[string]int{
		"You write a handler. kopf calls it.":             0,
		"Nobody is told.":                                 2,
		"| a | what is stored |\n|---|---|":               1,
		"- an item beside\n  it":                          1,
		"## What becomes of it":                           1,
		"`beside` and\n\n```go\n// beside\n```":           0,
		"<!-- beside -->":                                 0,
		"One; two.":                                       1,
		long + "more.":                                    1,
		long + ".\n" + "It ends e.g. here. " + long + ".": 0,
		"[beside](x.md)":                                  1,
	} {
		if got := flaws(text); len(got) != want {
			t.Errorf("%q: got %d flaws, want %d: %q", text, len(got), want, got)
		}
	}
}

// TestCommentFlaws checks that TestComments finds flaws, but not in code.
func TestCommentFlaws(t *testing.T) {
	for text, want := range map[string]int{
		"Nobody knows.":                             1,
		"guarded by mu; nil before Run":             0,
		"An example:\n\n\tbeside := 1\n\nIt is new": 0,
		"one line\nbeside another":                  1,
		"Package essence compares an Essence":       0,
	} {
		if got := commentFlaws(text); len(got) != want {
			t.Errorf("%q: got %d flaws, want %d: %q", text, len(got), want, got)
		}
	}
}
