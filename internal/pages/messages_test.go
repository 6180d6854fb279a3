package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// knownMessages begin the messages of Kopf for Python, which people search for and have alerts on: they keep their words, their full stops, and their
// variable parts. All others are constant texts.
var knownMessages = []string{
	"Activity '", "Handler '", "Daemon", "Timer", "Indexer '", "Webhook '", " '", // the names of handlers follow
	"Operator has failed: ", "Initial authentication", "Re-authentication", " has ", " is in progress.", "Request attempt #", "Signal ", "Not enough RBAC permissions", "Reconfiguring the ",
	"Cleaning up the ", "Listening for webhooks at ", "Accessing the webhooks at ", "Serving health status at ", "Keep-alive in ",
	"Pausing operations in favour of ", "Possibly conflicting operators", "Pausing all operators", "Resuming operations after the pause.",
	"Pausing the watch-stream", "Resuming the watch-stream", "Deleted, really deleted, and we are notified.", "Adding the finalizer, ", "Removing the finalizer, ",
	"Patching.", "Unresolved resources", "Namespace %q termination is pending", "%s is superseded by ", "%s is processed: ", " is signalled to exit ",
	" did not exit in time.", " succeeded.", " was cancelled", " failed ", " was interrupted", " waits for ", "%s has exited ",
}

// unwanted are words that messages do not use.
var unwanted = regexp.MustCompile(`(?i)\b(floods?|beside|nobody|somebody|everybody|whoever|is told|is said|for good|shall|wish(es)?|ours|theirs|left behind|asked for|fight|held back)\b`)

// levels are the methods of loggers, with the place of the message among the arguments.
var levels = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "warn": 0, "DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2,
}

// A message is a call of a logger in the sources of the framework.
type message struct {
	position string // "file:line"
	level    string // the name of the method, such as "Warn"
	text     string // the first text in the message
	constant bool   // whether that is all of it
	help     string // the code of the attribute "help", "" without one
}

// messages returns the calls of loggers in the sources of the framework.
func messages(t *testing.T) (all []message) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if slices.Contains([]string{"e2e", "bench", "examples", "internal/contract", "docs", ".git"}, filepath.ToSlash(rel)) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !isLogger(method.X) && !(method.Sel.Name == "warn" && helpCode(call) != "") {
				return true
			}
			if at, ok := levels[method.Sel.Name]; ok && at < len(call.Args) {
				m := message{position: filepath.ToSlash(rel) + ":" + strconv.Itoa(files.Position(call.Pos()).Line), level: method.Sel.Name, help: helpCode(call)}
				m.text, m.constant = firstText(call.Args[at])
				all = append(all, m)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// isLogger reports whether an expression looks like a logger, by its last name.
func isLogger(x ast.Expr) bool {
	name := ""
	switch x := x.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	case *ast.CallExpr:
		return isLogger(x.Fun)
	}
	return slices.Contains([]string{"log", "Log", "logger", "Logger", "slog", "objectLogger"}, name)
}

// firstText returns the first text of an expression, and whether that is all that there is to it.
func firstText(x ast.Expr) (text string, constant bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		text, _ = strconv.Unquote(x.Value)
		return text, true
	case *ast.BinaryExpr:
		left, all := firstText(x.X)
		right, rest := firstText(x.Y)
		if left == "" {
			left = right
		}
		return left, all && rest
	case *ast.CallExpr: // fmt.Sprintf
		if len(x.Args) > 0 {
			text, _ = firstText(x.Args[0])
		}
	}
	return text, false
}

// TestMessageWords holds the messages of the log to plain words: fragments that begin with a capital and have no full stop, and constant texts, whose variable parts are
// attributes.
func TestMessageWords(t *testing.T) {
	checked := 0
	for _, m := range messages(t) {
		position, text, constant := m.position, m.text, m.constant
		if text == "" || strings.HasPrefix(position, "internal/apiserver/") {
			continue
		}
		checked++
		if unwanted.MatchString(text) {
			t.Errorf("%s: the message %q has the word %q", position, text, unwanted.FindString(text))
		}
		if slices.ContainsFunc(knownMessages, func(known string) bool { return strings.HasPrefix(text, known) }) {
			continue
		}
		switch first := []rune(text)[0]; {
		case !constant:
			t.Errorf("%s: the message %q is not constant: give its variable parts as attributes", position, text)
		case !unicode.IsUpper(first):
			t.Errorf("%s: the message %q does not begin with a capital", position, text)
		case strings.HasSuffix(text, "."):
			t.Errorf("%s: the message %q ends with a full stop", position, text)
		}
	}
	if checked < 80 {
		t.Errorf("only %d messages", checked)
	}
}
