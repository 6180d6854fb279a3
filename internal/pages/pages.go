// Package pages makes Go packages of the code in the documentation, so that a test can compile and run it.
//
// A block of Go in a page is a program, or a fragment of one: declarations, statements, or both, as in an operator. Packages of the
// standard library are imported by their use. "ctx" is a context, and "c" the argument of a change handler. Other names that a fragment
// needs are declared in a hidden comment before it:
//
//	<!-- given
//	func provision(ctx context.Context) error { return nil }
//	-->
//
// "<!-- with the code above -->" joins a block to the previous block of Go. "<!-- file: name -->" makes a block a file, which exists while the
// blocks of its page run. The objects of YAML files are on the API server then. The Go files in the pages of one folder are one program, see [Assemble].
//
// [Case] runs a fragment. "<!-- compiled only: it needs a cluster -->" says why a fragment is not run. The comment of a fragment that is not
// compiled begins with "not compiled".
package pages

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Block is a block of code in a page.
type Block struct {
	File     string // as it was opened
	Line     int    // of its first line of code, from 1
	Language string // what the fence says, such as "go"
	Text     string
	Given    string // Go that it takes for granted
	Note     string // of a comment before it, such as "compiled only: it needs a cluster"
	Above    string // the text of the page above it, without blocks and comments
}

// joined is the note of a block that goes on with the one before it.
const joined = "with the code above"

// Excuse is why the block is not run, empty if it is. A file of a program is run by the tests of the program.
func (b Block) Excuse() string {
	if filepath.Ext(b.Name()) == ".go" && !strings.HasSuffix(b.Name(), "_test.go") {
		return "a file of a program"
	}
	if strings.HasPrefix(b.Note, "compiled only") || strings.HasPrefix(b.Note, "not compiled") {
		return b.Note
	}
	return ""
}

// Name is that of the file that the block is, empty if it is none.
func (b Block) Name() string {
	name, _ := strings.CutPrefix(b.Note, "file: ")
	if name == b.Note {
		return ""
	}
	return name
}

// Read returns the blocks of a page in Markdown, in their order.
func Read(file string) ([]Block, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var blocks []Block
	var hidden, given, note, above, prose string
	var open *Block
	for i, line := range strings.Split(string(data), "\n") {
		text := strings.TrimSpace(line)
		switch {
		case open != nil && text == "```":
			if open.Note == joined {
				open.Given += above
			}
			if open.Language == "go" {
				above = open.Given + "\n" + open.Text
			}
			blocks = append(blocks, *open)
			open, given, note = nil, "", ""
		case open != nil:
			open.Text += line + "\n"
		case hidden != "" && text == "-->":
			given, hidden = strings.TrimPrefix(hidden, "<!-- given\n"), ""
		case hidden != "":
			hidden += line + "\n"
		case text == "<!-- given":
			hidden = text + "\n"
		case strings.HasPrefix(text, "<!--") && strings.HasSuffix(text, "-->"):
			note = strings.TrimSpace(text[4 : len(text)-3])
		case strings.HasPrefix(text, "```"):
			open = &Block{File: file, Line: i + 2, Language: text[3:], Given: given, Note: note, Above: prose}
		case text != "":
			given, note = "", "" // a comment is about the next block
			prose += line + "\n"
		}
	}
	if open != nil || hidden != "" {
		return nil, fmt.Errorf("%s: a block has no end", file)
	}
	return blocks, nil
}

// Assemble lets each block that is a file of Go be compiled with the other files of its program: all those of its page, and those that pages of the same folder have
// shown before. A file that is shown again replaces the former one. It returns the last state of each program, by the folder and the names of its files.
func Assemble(blocks []Block) map[string]map[string]string {
	programs := make(map[string]map[string]string)
	for i := range blocks {
		page := blocks[i].File
		if i > 0 && blocks[i-1].File == page {
			continue
		}
		folder := filepath.Dir(page)
		if programs[folder] == nil {
			programs[folder] = make(map[string]string)
		}
		last := i
		for ; last < len(blocks) && blocks[last].File == page; last++ {
			if b := blocks[last]; filepath.Ext(b.Name()) == ".go" {
				programs[folder][b.Name()] = b.Text
			}
		}
		for b := i; b < last; b++ {
			if filepath.Ext(blocks[b].Name()) == ".go" {
				blocks[b].Given += others(programs[folder], blocks[b].Name())
			}
		}
	}
	return programs
}

// PartOf reports whether the block is a file of Go, and another one of its page is among the blocks that follow: they are one package.
func (b Block) PartOf(next []Block) bool {
	return filepath.Ext(b.Name()) == ".go" && slices.ContainsFunc(next, func(n Block) bool { return n.File == b.File && filepath.Ext(n.Name()) == ".go" })
}

// others returns the files of a program but for one.
func others(program map[string]string, file string) string {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(program)) {
		if name != file {
			all.WriteString(program[name])
		}
	}
	return all.String()
}

// Commands returns the lines of a block of commands without prompts and comments, and joined where they go on.
func (b Block) Commands() []string {
	var all []string
	for line := range strings.Lines(strings.ReplaceAll(b.Text, "\\\n", " ")) {
		line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "$ "), " # ")
		if line = strings.TrimSpace(line); b.Language == "console" && !strings.Contains(b.Text, "$ "+line) || strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		all = append(all, line)
	}
	return all
}

// ReadPackage returns the code in the package comment of a Go file.
func ReadPackage(file string) ([]Block, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		return nil, err
	}
	var blocks []Block
	for _, part := range new(comment.Parser).Parse(parsed.Doc.Text()).Content {
		if code, ok := part.(*comment.Code); ok {
			blocks = append(blocks, Block{File: file, Line: fset.Position(parsed.Doc.Pos()).Line, Language: "go", Text: code.Text})
		}
	}
	return blocks, nil
}

// piece is a declaration or a statement of a block.
type piece struct {
	line int
	kind token.Token // IMPORT, FUNC and the like for declarations, ILLEGAL for statements
	text string
}

// split takes Go apart into what stands at its outermost level.
func split(source string, line int) ([]piece, error) {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(source))
	var s scanner.Scanner
	var mistakes scanner.ErrorList
	s.Init(file, []byte(source), mistakes.Add, 0)
	var all []piece
	first, depth, begin := token.ILLEGAL, 0, -1
	for {
		pos, tok, _ := s.Scan()
		at := file.Offset(pos)
		switch {
		case tok == token.EOF:
			return all, mistakes.Err()
		case tok == token.SEMICOLON && depth == 0:
			if begin >= 0 {
				p := piece{line: line + strings.Count(source[:begin], "\n"), text: source[begin:min(at, len(source))]}
				p.kind = kindOf(first, p.text)
				all = append(all, p)
			}
			begin = -1
			continue
		case tok == token.LPAREN || tok == token.LBRACK || tok == token.LBRACE:
			depth++
		case tok == token.RPAREN || tok == token.RBRACK || tok == token.RBRACE:
			depth--
		}
		if begin < 0 {
			begin, first = at, tok
		}
	}
}

var declaredFunc = regexp.MustCompile(`^func (\(\w+ \*?\w+\) )?\w+[\[(]`)

func kindOf(first token.Token, text string) token.Token {
	switch first {
	case token.PACKAGE, token.IMPORT, token.TYPE, token.VAR, token.CONST:
		return first
	case token.FUNC:
		if declaredFunc.MatchString(text) {
			return first
		}
	}
	return token.ILLEGAL
}

// parameters are what statements may use without declaring it.
const parameters = "ctx context_.Context, c *kopf_.Change, registry *kopf_.Registry, server *kopf_.APIServer"

// registry is there before the variables of a block, which may be registrations.
const registry = `var Registry_ = func() *kopf_.Registry {
	r := new(kopf_.Registry)
	kopf_.SetDefaultRegistry(r)
	return r
}()`

// imports are the packages that fragments use without importing them.
var imports = []string{
	"bytes", "context", "crypto/tls", "encoding/json", "errors", "fmt", "log", "log/slog", "net/http", "net/http/httptest", "net/http/pprof", "os", "os/signal", "slices", "strings",
	"sync", "syscall", "testing", "testing/synctest", "time", "github.com/kopf-go/kopf",
}

var importSpec = regexp.MustCompile(`(_ |\w+ )?"([^"]+)"`)

// Source is a block as a Go package.
type Source struct {
	Block
	Package string
	Code    []byte
	Tests   []string // its functions for package testing
	Handler bool     // its statements are those of a handler
	Output  string   // what its statements print
	free    map[string]bool
	pieces  []piece
}

// Compile makes a package of a block.
func (b Block) Compile(name string) (*Source, error) {
	s := &Source{Block: b, Package: name, free: make(map[string]bool)}
	given, err := split(b.Given, b.Line)
	if err == nil {
		s.pieces, err = split(b.Text, b.Line)
	}
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", b.File, b.Line, err)
	}
	s.pieces = append(given, s.pieces...)
	if _, output, ok := strings.Cut(b.Text, "// Output:\n"); ok {
		for line := range strings.Lines(output) {
			if !strings.HasPrefix(strings.TrimSpace(line), "//") {
				break
			}
			s.Output += strings.TrimSpace(line) + "\n"
		}
	}
	if err := s.resolve(); err != nil {
		return nil, err
	}
	s.Code = s.write()
	return s, nil
}

// resolve finds the names that the block does not declare.
func (s *Source) resolve() error {
	file, err := parser.ParseFile(token.NewFileSet(), "", append([]byte("package p\n"), s.body("")...), 0)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", s.File, s.Line, err)
	}
	for _, id := range file.Unresolved {
		if types.Universe.Lookup(id.Name) == nil {
			s.free[id.Name] = true
		}
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			s.Tests = append(s.Tests, f.Name.Name)
		}
	}
	s.Handler = s.free["c"]
	return nil
}

// body is the block's declarations, and its statements in a function with the parameters.
func (s *Source) body(parameters string) []byte {
	var out bytes.Buffer
	place := func(p piece) {
		file, err := filepath.Abs(s.File)
		if err != nil {
			file = s.File
		}
		text := strings.ReplaceAll(p.text, "kopf.Main()", "_ = kopf.Main") // which would end the process
		fmt.Fprintf(&out, "//line %s:%d\n%s\n", file, p.line, text)
	}
	for _, p := range s.pieces {
		if p.kind != token.ILLEGAL && p.kind != token.PACKAGE && p.kind != token.IMPORT {
			place(p)
		}
	}
	fmt.Fprintf(&out, "func Run_(%s) error {\n{\n", parameters)
	for _, p := range s.pieces {
		switch {
		case p.kind == token.ILLEGAL:
			place(p)
		case strings.HasPrefix(p.text, "func main()"):
			fmt.Fprintln(&out, "main()")
		}
	}
	fmt.Fprintln(&out, "}\nreturn nil\n}")
	return out.Bytes()
}

// write returns the package.
func (s *Source) write() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "// Package %s is a block of %s.\npackage %s\n", s.Package, s.File, s.Package)
	fmt.Fprintln(&out, "import (\ncontext_ \"context\"\nkopf_ \"github.com/kopf-go/kopf\"")
	seen := make(map[string]bool)
	for _, p := range s.pieces {
		for _, m := range importSpec.FindAllStringSubmatch(strings.TrimPrefix(p.text, "import"), -1) {
			if p.kind == token.IMPORT && !seen[m[2]] {
				seen[m[2]] = true
				fmt.Fprintf(&out, "//line %s:%d\n%s\n", s.File, p.line, m[0])
			}
		}
	}
	for _, path := range imports {
		if s.free[path[strings.LastIndex(path, "/")+1:]] && !seen[path] {
			fmt.Fprintf(&out, "%q\n", path)
		}
	}
	fmt.Fprintln(&out, ")\n"+registry)
	out.Write(s.body(parameters))
	fmt.Fprintln(&out, "func Register_(r *kopf_.Registry) {")
	for _, line := range s.registrations() {
		fmt.Fprintln(&out, line)
	}
	fmt.Fprintln(&out, "}")
	return out.Bytes()
}

var handlerFunc = regexp.MustCompile(`^func (\w+)\(\w+ context\.Context, \w+ \*kopf\.(\w+)\) error`)

// registrations registers the handlers that the block declares and does not use.
func (s *Source) registrations() []string {
	var lines []string
	for _, p := range s.pieces {
		m := handlerFunc.FindStringSubmatch(p.text)
		if m == nil || len(regexp.MustCompile(`\b`+m[1]+`\b`).FindAllString(s.Text, 2)) > 1 {
			continue
		}
		switch name, family := m[1], m[2]; family {
		case "Change":
			on := []string{"OnCreate", "OnUpdate", "OnDelete"}
			if i := slices.IndexFunc(on, func(f string) bool { return strings.HasPrefix(name, strings.ToLower(f[2:])) }); i >= 0 {
				on = on[i : i+1]
			}
			for _, f := range on {
				lines = append(lines, fmt.Sprintf(`r.%s("kopfexamples", %s, nil)`, f, name))
			}
		case "Timer":
			lines = append(lines, fmt.Sprintf(`r.OnTimer("kopfexamples", %s, &kopf_.TimerOptions{Interval: 60e9})`, name))
		case "Daemon":
			lines = append(lines, fmt.Sprintf(`r.OnDaemon("kopfexamples", %s, nil)`, name))
		case "WatchEvent":
			lines = append(lines, fmt.Sprintf(`r.OnEvent("kopfexamples", %s, nil)`, name))
		case "Activity":
			lines = append(lines, fmt.Sprintf(`r.OnStartup(%s, nil)`, name))
		case "Admission":
			lines = append(lines, fmt.Sprintf(`r.OnMutate("kopfexamples", %s, nil)`, name))
		}
	}
	return lines
}
