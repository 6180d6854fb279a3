package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// output is a written site: its files, and the trees of its pages.
type output struct {
	files map[string][]byte
	pages map[string]*html.Node
}

// builtSite writes the site of this repository, and parses it.
func builtSite(t *testing.T) *output {
	t.Helper()
	dir := t.TempDir()
	s, err := load("..")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.write(dir, "latest", "0.1.0"); err != nil {
		t.Fatal(err)
	}
	o := &output{files: make(map[string][]byte), pages: make(map[string]*html.Node)}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if o.files[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil || path.Ext(name) != ".html" {
			return err
		}
		o.pages[name], err = html.Parse(bytes.NewReader(o.files[name]))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// resolve returns the file and the anchor of a link; no file if it leads out of the site.
func resolve(from, link string) (file, anchor string) {
	if strings.Contains(link, ":") {
		return "", ""
	}
	link, anchor, _ = strings.Cut(link, "#")
	if link == "" {
		return from, anchor
	}
	return path.Join(path.Dir(from), link), anchor
}

func TestSite(t *testing.T) {
	o := builtSite(t)
	if len(o.pages) < 100 {
		t.Errorf("%d pages, want those of two versions", len(o.pages))
	}
	t.Run("links and anchors", func(t *testing.T) { testLinks(t, o) })
	t.Run("reachable", func(t *testing.T) { testReachable(t, o) })
	t.Run("nothing is loaded from elsewhere", func(t *testing.T) { testResources(t, o) })
	t.Run("well-formed", func(t *testing.T) {
		for name, data := range o.files {
			if path.Ext(name) == ".html" || path.Ext(name) == ".svg" {
				if err := balanced(data); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	})
	t.Run("each page has a title, a heading, and no id twice", func(t *testing.T) { testHeads(t, o) })
	t.Run("search", func(t *testing.T) { testSearch(t, o) })
}

// ids returns the ids of the elements of a page.
func ids(page *html.Node) map[string]int {
	all := make(map[string]int)
	for n := range page.Descendants() {
		if id := attribute(n, "id"); id != "" {
			all[id]++
		}
	}
	return all
}

func testLinks(t *testing.T, o *output) {
	anchors := make(map[string]map[string]int)
	for name, page := range o.pages {
		anchors[name] = ids(page)
	}
	for name, page := range o.pages {
		for _, n := range elements(page, "a", "img", "link", "script") {
			link := attribute(n, "href") + attribute(n, "src")
			file, anchor := resolve(name, link)
			if file == "" {
				continue
			}
			if _, ok := o.files[file]; !ok {
				t.Errorf("%s: the link %s leads to %s, which is not there", name, link, file)
			} else if anchor != "" && anchors[file][anchor] == 0 {
				t.Errorf("%s: the link %s leads to no heading of %s", name, link, file)
			}
		}
	}
}

func testReachable(t *testing.T, o *output) {
	seen := make(map[string]bool)
	var follow func(name string)
	follow = func(name string) {
		if seen[name] || o.pages[name] == nil {
			return
		}
		seen[name] = true
		for _, n := range elements(o.pages[name], "a") {
			file, _ := resolve(name, attribute(n, "href"))
			follow(file)
		}
	}
	follow("index.html")
	for name := range o.pages {
		if !seen[name] {
			t.Errorf("nothing leads to %s", name)
		}
	}
	for _, source := range []string{"README.md", "docs/handlers.md"} {
		if name := "latest/" + strings.Replace(strings.TrimSuffix(source, ".md"), "README", "index", 1) + ".html"; !seen[name] {
			t.Errorf("%s has no page", source)
		}
	}
}

var loaded = regexp.MustCompile(`(?:url\(|@import|src(?:set)?=|<use [^>]*href=|<image [^>]*href=)\s*["']?([^"')\s]*)`)

func testResources(t *testing.T, o *output) {
	for name, page := range o.pages {
		for _, n := range elements(page, "link", "script", "img", "iframe", "video", "audio", "source", "object", "embed") {
			if link := attribute(n, "src") + attribute(n, "data") + attribute(n, "href"); strings.Contains(link, "//") {
				t.Errorf("%s loads %s", name, link)
			}
		}
	}
	for name, data := range o.files {
		if ext := path.Ext(name); ext == ".css" || ext == ".svg" || name == "latest/site.js" {
			for _, m := range loaded.FindAllSubmatch(data, -1) {
				if bytes.Contains(m[1], []byte("//")) {
					t.Errorf("%s loads %s", name, m[1])
				}
			}
		}
	}
}

func testHeads(t *testing.T, o *output) {
	for name, page := range o.pages {
		if title := first(page, "title"); title == nil || textOf(title) == "" {
			t.Errorf("%s has no title", name)
		}
		for id, n := range ids(page) {
			if n > 1 {
				t.Errorf("%s has the id %s %d times", name, id, n)
			}
		}
		if name == "index.html" {
			continue
		}
		if n := len(elements(page, "h1")); n != 1 {
			t.Errorf("%s has %d headings of the first level, want 1", name, n)
		}
		if main := elements(page, "main"); len(main) != 1 || textOf(main[0]) == "" {
			t.Errorf("%s has no content", name)
		}
		for n := range page.Descendants() {
			if n.Type == html.CommentNode {
				t.Errorf("%s has the comment %q", name, n.Data)
			}
		}
	}
}

func testSearch(t *testing.T, o *output) {
	script := o.files["latest/search-index.js"]
	var all struct {
		Pages    [][3]string
		Sections [][3]any
		Words    map[string][]int
	}
	if err := json.Unmarshal(bytes.TrimSuffix(bytes.TrimPrefix(script, []byte("searchIndex = ")), []byte(";\n")), &all); err != nil {
		t.Fatal(err)
	}
	for _, section := range all.Sections {
		p := all.Pages[int(section[0].(float64))]
		file := "latest/" + p[0]
		if anchor := section[1].(string); o.pages[file] == nil || anchor != "" && ids(o.pages[file])[anchor] == 0 {
			t.Errorf("the index leads to %s#%s, which is not there", file, anchor)
		}
		if p[1] == "" || section[2] == "" {
			t.Errorf("%s#%s has no title", p[0], section[1])
		}
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(script); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	if b.Len() > 120_000 {
		t.Errorf("the index has %d bytes when compressed, want 120,000 at most", b.Len())
	}
	if common, ok := all.Words["the"]; !ok || len(common) > 0 {
		t.Errorf("the sections of a common word are %v", common)
	}
	last := 0
	for _, distance := range all.Words["election"] {
		last += distance
	}
	if last == 0 || last >= len(all.Sections) {
		t.Errorf("the last section on elections is %d of %d", last, len(all.Sections))
	}
}

// balanced returns an error if an element is not closed, or the wrong one is.
func balanced(data []byte) error {
	void := []string{"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
	var open []string
	z := html.NewTokenizer(bytes.NewReader(data))
	for {
		kind := z.Next()
		name, _ := z.TagName()
		switch tag := string(name); kind {
		case html.ErrorToken:
			if z.Err() != io.EOF || len(open) > 0 {
				return fmt.Errorf("%w, with %v open", z.Err(), open)
			}
			return nil
		case html.StartTagToken:
			if !slices.Contains(void, tag) {
				open = append(open, tag)
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != tag {
				return fmt.Errorf("</%s> closes %v", tag, open)
			}
			open = open[:len(open)-1]
		}
	}
}

func TestNames(t *testing.T) {
	s := &site{names: map[string]bool{"Change": true, "Change.Diff": true, "NetworkingSettings.RequestRate": true}}
	for code, want := range map[string]string{
		"Change": "Change", "*kopf.Change": "Change", "Change.Diff": "Change.Diff", "c.Diff": "", "change": "", "Change.Other": "",
		"Settings.Networking.RequestRate": "NetworkingSettings.RequestRate", "Networking.RequestRate": "NetworkingSettings.RequestRate", "Networking.Other": "",
	} {
		if got := s.nameIn(code); got != want {
			t.Errorf("%s leads to %q, want %q", code, got, want)
		}
	}
}

func TestReflow(t *testing.T) {
	long := strings.Repeat("word ", 30) + "end."
	got := reflow("type A struct {\n\t// " + long + "\n\t// More.\n\t//\n\t//   - item\n\tB int // " + long + "\n}")
	words := strings.TrimSuffix(strings.Repeat("word ", 14), " ")
	want := "type A struct {\n\t// " + words + "\n\t// " + words + "\n\t// word word end. More.\n\t//\n\t//   - item\n\tB int // " + long + "\n}"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestNavigation checks that the navigation equals that of docs/README.md, in its order, and contains all pages.
func TestNavigation(t *testing.T) {
	s := &site{root: t.TempDir(), sources: make(map[string]*page)}
	for file, text := range map[string]string{
		"README.md": "# kopf", "CHANGELOG.md": "# Changes", "CONTRIBUTING.md": "# Contributing", "SECURITY.md": "# Security",
		"docs/README.md": "# Map\n\n## First\n\n| a | b |\n|-|-|\n| task | [Tasks](b.md#x) or [A](a.md) |\n| [Course](course/README.md) | c |\n\n## Second\n\n- [Part A](a.md), [B](b.md)\n- [Elsewhere](https://example.com/)\n",
		"docs/a.md":      "# A", "docs/b.md": "# B", "docs/c.md": "# C", "docs/course/README.md": "# The course", "docs/course/1.md": "# One",
	} {
		if err := writeFile(s.file(file), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.loadMarkdown(); err != nil {
		t.Fatal(err)
	}
	s.navigate(s.add(&page{Path: referencePath, Label: "Reference"}))
	var got []string
	for _, g := range s.groups {
		got = append(got, "## "+g.Title)
		for _, p := range g.Pages {
			got = append(got, fmt.Sprint(p.Label, " ", p.Chapter))
		}
	}
	want := []string{
		"## ", "Overview false", "All pages false", "## First", "B false", "Course false", "One true", "## Second", "Part A false",
		"## Project", "Reference false", "Changes false", "Contributing false", "Security false", "C false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if course := s.sources["docs/course/README.md"]; course.Prev != s.sources["docs/b.md"] || course.Next != s.sources["docs/course/1.md"] {
		t.Error("the course does not follow the page before it")
	}
}

func TestBalanced(t *testing.T) {
	for text, want := range map[string]bool{"<p>a<br></p>": true, "<p><b>a</p></b>": false, "<p>": false, "</p>": false} {
		if got := balanced([]byte(text)) == nil; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestVersions checks that an older version remains, and that the menu contains all, the newest first.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	s := &site{root: t.TempDir(), pages: []*page{{Path: "index.html", Title: "kopf", body: element("body", nil)}}}
	if err := os.Mkdir(filepath.Join(s.root, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"0.9.0", "0.10.0", "0.9.1"} {
		if err := s.write(dir, "latest", version); err != nil {
			t.Fatal(err)
		}
	}
	const want = `["latest","0.10.0","0.9.1","0.9.0"]` + "\n"
	if got, err := os.ReadFile(filepath.Join(dir, "versions.json")); err != nil || string(got) != want {
		t.Errorf("the versions are %s, want %s (%v)", got, want, err)
	}
	latest, err := os.ReadFile(filepath.Join(dir, "latest", "index.html"))
	if err != nil || !bytes.Contains(latest, []byte(`href="../0.9.0/index.html"`)) || !bytes.Contains(latest, []byte("kopf 0.9.1,")) {
		t.Errorf("the menu is not in %s (%v)", latest, err)
	}
}

func TestMarkdown(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"comments are left out", "a\n\n<!-- given\nvar x int\n-->\n\nb <!-- c -->\n", "<p>a</p>\n\n<p>b </p>\n"},
		{"callouts", "> [!NOTE]\n> Read `it`.\n", `<div class="callout note" role="note"><p class="callout-title">Note</p>` + "\n<p>Read <code>it</code>.</p>\n</div>\n"},
		{"a callout of paragraphs", "> [!WARNING]\n>\n> One.\n>\n> Two.\n", `<div class="callout warning" role="note"><p class="callout-title">Warning</p>` + "\n\n<p>One.</p>\n<p>Two.</p>\n</div>\n"},
		{"a quotation stays one", "> [!OTHER] a\n", "<blockquote>\n<p>[!OTHER] a</p>\n</blockquote>\n"},
		{"tables scroll", "|a|\n|-|\n|b|\n", `<div class="scroll"><table>` + "\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>b</td>\n</tr>\n</tbody>\n</table></div>\n"},
		{"colors", "```go\nvar a = \"<b>\" // c\n```\n", `<pre><code class="language-go"><span class="k">var</span> a = <span class="s">&#34;&lt;b&gt;&#34;</span> <span class="c">// c</span>` + "\n</code></pre>\n"},
		{"an unknown language", "```nonsense\nvar\n```\n", `<pre><code class="language-nonsense">var` + "\n</code></pre>\n"},
		{"a diagram that cannot be drawn", "```mermaid\npie\n```\n", `<pre><code class="language-mermaid">pie` + "\n</code></pre>\n"},
		{"what a flowchart connects", "```mermaid\nflowchart TD\n    a[\"<b>A</b><br>x\"] --> b\n    a --> c[\"C\"]\n```\n", `<ul class="flowchart"><li><b>A</b>: x → b, C</li><li>b</li><li>C</li></ul>` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := convert([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			dress(body)
			if got, err := render(body); err != nil || got != c.want {
				t.Errorf("got  %q (%v)\nwant %q", got, err, c.want)
			}
		})
	}
}

// TestSections checks that headings have the anchors of GitHub.
func TestSections(t *testing.T) {
	body, err := convert([]byte("# A `kopf.Main()`, and more\n\nfirst\n\n## Über_uns – 2\n\n|a|b|\n|-|-|\n|c|d|\n\n### Same\n\n### Same\n\n#### Deep\n\nlast\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range divide(body) {
		got = append(got, fmt.Sprint(s.Level, " ", s.Title, " #", s.Anchor, " ", words(s.text)))
	}
	want := []string{
		"1 A kopf.Main(), and more #a-kopfmain-and-more [first]",
		"2 Über_uns – 2 #über_uns--2 []",
		"3 Same #same []",
		"3 Same #same-1 [deep last]",
	}
	if t.Logf("%q", got); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestDiagram checks the participants, messages and frames of a sequence diagram.
func TestDiagram(t *testing.T) {
	n, err := drawMermaid("sequenceDiagram\n participant A as One<br>more\n participant B\n opt sometimes\n A->>B: ask <it>\n B-->>A: answer\n end\n B->>B: think\n")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, text := range elements(n, "text") {
		texts = append(texts, textOf(text))
	}
	if want := []string{"One", "more", "B", "opt: sometimes", "ask <it>", "answer", "think"}; !slices.Equal(texts, want) {
		t.Errorf("the texts are %q, want %q", texts, want)
	}
	if boxes := len(elements(n, "rect")); boxes != 3 {
		t.Errorf("%d boxes, want two participants and a frame", boxes)
	}
}

// TestDiagrams checks that a drawing is well-formed for all texts.
func TestDiagrams(t *testing.T) {
	for text, drawable := range map[string]bool{
		"sequenceDiagram\nparticipant A as x<br>y\nA->>A: <b>\nopt\nend\nend": true,
		"sequenceDiagram\nparticipant A\nA->>A: of many words, and then some": true,
		"flowchart TD\na[\"<b>x\"] --> b\nb --> a":                            true,
		"flowchart TD\nsubgraph x":                                            false,
		"sequenceDiagram":                                                     false,
		"sequenceDiagram\nA->>B: x":                                           false,
		"sequenceDiagram\nparticipant A\nNote left of A: x":                   false,
		"sequenceDiagram\nactor A\nNote over A,B: x":                          false,
		"sequenceDiagram\nactor A\nNote over A: x <b>":                        true,
	} {
		n, err := drawMermaid(text)
		if (err == nil) != drawable {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil {
			continue
		}
		drawn, err := render(element("p", nil, n))
		if err == nil {
			err = balanced([]byte(drawn))
		}
		if err != nil {
			t.Errorf("%v: %s", err, drawn)
		}
	}
}
