package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"html"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/alecthomas/chroma/v2"
	xhtml "golang.org/x/net/html"
)

// This file creates the page of the package's exported names, similar to pkg.go.dev.

const (
	importPath    = "github.com/kopf-go/kopf"
	referencePath = "reference.html"
)

// A reference is the page during its creation.
type reference struct {
	bytes.Buffer
	pkg   *doc.Package
	files *token.FileSet
	types map[string]bool // the exported ones, as targets of links in declarations
}

// loadReference adds the page, and returns it.
func (s *site) loadReference() (*page, error) {
	r, err := readPackage(s.root)
	if err != nil {
		return nil, err
	}
	r.overview()
	r.index()
	r.examples(2, r.pkg.Examples)
	r.printf("<h2 id=%q>Constants</h2>", "pkg-constants")
	r.values(r.pkg.Consts)
	r.printf("<h2 id=%q>Variables</h2>", "pkg-variables")
	r.values(r.pkg.Vars)
	r.printf("<h2 id=%q>Functions</h2>", "pkg-functions")
	for _, f := range r.pkg.Funcs {
		r.function(3, f)
	}
	r.printf("<h2 id=%q>Types</h2>", "pkg-types")
	for _, t := range r.pkg.Types {
		r.typeOf(t)
	}
	body, err := parse(r.String())
	if err != nil {
		return nil, err
	}
	for _, n := range elements(body, "pre") {
		// A block of code in a comment has no language. A block with the package name is Go.
		if text := textOf(n); first(n, "code") == nil && strings.Contains(text, "kopf.") {
			n.RemoveChild(n.FirstChild)
			appendAll(n, highlight(text, "go"))
		}
	}
	s.names = make(map[string]bool)
	for n := range body.Descendants() {
		if id := attribute(n, "id"); ast.IsExported(id) {
			s.names[id] = true
		}
	}
	return s.add(&page{Path: referencePath, Label: "Reference", body: body}), nil
}

// readPackage parses the package in a folder, with its examples.
func readPackage(root string) (*reference, error) {
	found, err := build.ImportDir(root, 0)
	if err != nil {
		return nil, err
	}
	r := &reference{files: token.NewFileSet(), types: make(map[string]bool)}
	var files []*ast.File
	for _, names := range [][]string{found.GoFiles, found.TestGoFiles, found.XTestGoFiles} {
		for _, name := range names {
			file, err := parser.ParseFile(r.files, filepath.Join(root, name), nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	if r.pkg, err = doc.NewFromFiles(r.files, files, importPath); err != nil {
		return nil, err
	}
	for _, t := range r.pkg.Types {
		r.types[t.Name] = true
	}
	return r, nil
}

func (r *reference) printf(format string, args ...any) { fmt.Fprintf(&r.Buffer, format, args...) }

func (r *reference) overview() {
	r.printf("<h1>Package %s</h1><pre><code>import %s</code></pre><h2 id=%q>Overview</h2>", r.pkg.Name, html.EscapeString(`"`+importPath+`"`), "pkg-overview")
	r.comment(r.pkg.Doc)
}

// comment writes a doc comment.
func (r *reference) comment(text string) {
	printer := r.pkg.Printer()
	printer.HeadingLevel = 3
	printer.DocLinkBaseURL = "https://pkg.go.dev"
	r.Write(printer.HTML(r.pkg.Parser().Parse(text)))
}

// index writes the list of exported names, by kind.
func (r *reference) index() {
	r.printf("<h2 id=%q>Index</h2><ul class=\"index\">", "pkg-index")
	for _, f := range r.pkg.Funcs {
		r.entry(f.Name, f.Decl)
	}
	for _, t := range r.pkg.Types {
		r.printf("<li><a href=\"#%[1]s\"><code>type %[1]s</code></a>", t.Name)
		if len(t.Funcs)+len(t.Methods) > 0 {
			r.printf("<ul>")
			for _, f := range t.Funcs {
				r.entry(f.Name, f.Decl)
			}
			for _, m := range t.Methods {
				r.entry(t.Name+"."+m.Name, m.Decl)
			}
			r.printf("</ul>")
		}
		r.printf("</li>")
	}
	r.printf("</ul>")
}

// entry writes a function's line of the index.
func (r *reference) entry(anchor string, f *ast.FuncDecl) {
	r.printf("<li><a href=\"#%s\"><code>%s</code></a></li>", anchor, html.EscapeString(r.source(f)))
}

// source returns the source of a declaration, without a function's body and comment, which go/doc has removed.
func (r *reference) source(node any) string {
	var b bytes.Buffer
	if err := format.Node(&b, r.files, node); err != nil {
		return err.Error() // it cannot fail for parsed source
	}
	return b.String()
}

var commentLine = regexp.MustCompile(`^(\t*)// ([^\s-].*)$`)

// reflow returns a declaration with short comment lines, which need no scrolling.
func reflow(source string) string {
	const width = 80
	var b strings.Builder
	indent, column := "", 0 // of the current comment; no column outside of comments
	for line := range strings.Lines(source) {
		m := commentLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if column > 0 && (m == nil || m[1] != indent) {
			b.WriteString("\n")
			column = 0
		}
		if m == nil {
			b.WriteString(line)
			continue
		}
		indent = m[1]
		for _, word := range strings.Fields(m[2]) {
			if column > 0 && column+len(word) >= width {
				b.WriteString("\n")
				column = 0
			}
			if column == 0 {
				b.WriteString(indent + "//")
				column = 4*len(indent) + 2
			}
			b.WriteString(" " + word)
			column += 1 + len(word)
		}
	}
	return b.String()
}

func (r *reference) values(values []*doc.Value) {
	for _, v := range values {
		r.printf("<pre><code>")
		anchors := make(map[string]string)
		for _, name := range v.Names {
			anchors[name] = name
		}
		r.code(reflow(r.source(v.Decl)), anchors)
		r.printf("</code></pre>")
		r.comment(v.Doc)
	}
}

// function writes a function or a method.
func (r *reference) function(level int, f *doc.Func) {
	anchor, title := f.Name, "func "+f.Name
	if f.Recv != "" {
		receiver, _, _ := strings.Cut(strings.TrimPrefix(f.Recv, "*"), "[") // without its type parameters
		anchor, title = receiver+"."+f.Name, "func ("+f.Recv+") "+f.Name
	}
	r.printf("<h%d id=%q>%s</h%d><pre><code>", level, anchor, html.EscapeString(title), level)
	r.code(r.source(f.Decl), nil)
	r.printf("</code></pre>")
	r.comment(f.Doc)
	r.examples(0, f.Examples)
}

// typeOf writes a type, with its values, functions and methods.
func (r *reference) typeOf(t *doc.Type) {
	r.printf("<h3 id=%q>type %s</h3><pre><code>", t.Name, t.Name)
	anchors := make(map[string]string)
	for _, spec := range t.Decl.Specs {
		for _, field := range fieldsOf(spec.(*ast.TypeSpec).Type) {
			for _, name := range field.Names {
				anchors[name.Name] = t.Name + "." + name.Name
			}
		}
	}
	r.code(reflow(r.source(t.Decl)), anchors)
	r.printf("</code></pre>")
	r.comment(t.Doc)
	r.examples(0, t.Examples)
	r.values(t.Consts)
	r.values(t.Vars)
	for _, f := range t.Funcs {
		r.function(4, f)
	}
	for _, m := range t.Methods {
		r.function(4, m)
	}
}

// fieldsOf returns the fields of a struct, or the methods of an interface.
func fieldsOf(expr ast.Expr) []*ast.Field {
	switch x := expr.(type) {
	case *ast.StructType:
		return x.Fields.List
	case *ast.InterfaceType:
		return x.Methods.List
	}
	return nil
}

// code writes Go with colors. Declared names get anchors, and types get links.
func (r *reference) code(text string, anchors map[string]string) {
	for _, line := range tokens(text, "go") {
		before := "" // the line before the token
		for _, t := range line {
			node, lead := tokenNode(t), strings.TrimSpace(before)
			declared := lead == "" || lead == "var" || lead == "const" || strings.HasSuffix(lead, ",")
			switch anchor := anchors[t.Value]; {
			case anchor != "" && declared:
				node = element("span", []string{"id", anchor}, node)
				delete(anchors, t.Value)
			case t.Type.InCategory(chroma.Name) && r.types[t.Value] && !strings.HasSuffix(lead, ".") && lead != "type":
				node = element("a", []string{"href", "#" + t.Value}, node)
			}
			_ = xhtml.Render(&r.Buffer, node) // a buffer returns no errors
			before += t.Value
		}
	}
}

// examples writes collapsible examples, below a heading if there is a level.
func (r *reference) examples(level int, examples []*doc.Example) {
	if level > 0 && len(examples) > 0 {
		r.printf("<h%d id=%q>Examples</h%d>", level, "pkg-examples", level)
	}
	for _, e := range examples {
		title := strings.TrimSpace("Example " + strings.ReplaceAll(cmp.Or(e.Suffix, e.Name), "_", " "))
		var node any = e.Code
		if e.Play != nil {
			node = e.Play
		}
		r.printf("<details class=\"example\"><summary>%s</summary>", html.EscapeString(title))
		r.comment(e.Doc)
		r.printf("<pre><code>")
		r.code(strings.TrimSpace(r.source(node)), nil)
		r.printf("</code></pre>")
		if e.Output != "" {
			r.printf("<p>Output:</p><pre><code>%s</code></pre>", html.EscapeString(e.Output))
		}
		r.printf("</details>")
	}
}
