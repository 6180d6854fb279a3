package main

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// repository is the address of files that are not part of the site.
const repository = "https://github.com/kopf-go/kopf/blob/main/"

// A page is one of the site.
type page struct {
	Source      string // the file in the repository, with slashes; empty for the reference
	Path        string // the file in a version of the site
	Title       string // of the first heading
	Label       string // its name in the navigation
	Description string
	Sections    []section
	Chapter     bool // whether it belongs to the README of its folder
	Prev, Next  *page
	called      []string // its titles in links, in lower case
	body        *html.Node
}

// Root returns the path from the page to the root of its version.
func (p *page) Root() string { return strings.Repeat("../", strings.Count(p.Path, "/")) }

// Contents returns the sections for the table of contents. It omits the third level if there are too many sections.
func (p *page) Contents() []section {
	const most = 60
	var two, three []section
	for _, s := range p.Sections {
		if s.Level == 2 {
			two = append(two, s)
		}
		if s.Level > 1 {
			three = append(three, s)
		}
	}
	if len(three) > most {
		return two
	}
	return three
}

// A group is a part of the navigation.
type group struct {
	Title string
	Pages []*page
}

// A site is the documentation of one version.
type site struct {
	root    string // the folder of the repository
	pages   []*page
	sources map[string]*page // by their files
	names   map[string]bool  // the anchors of the reference
	groups  []group
}

// load makes the pages of a repository.
func load(root string) (*site, error) {
	s := &site{root: root, sources: make(map[string]*page)}
	if err := s.loadMarkdown(); err != nil {
		return nil, err
	}
	if s.sources["docs/README.md"] == nil {
		return nil, fmt.Errorf("%s has no docs/README.md, which the navigation is made of", root)
	}
	reference, err := s.loadReference()
	if err != nil {
		return nil, err
	}
	s.navigate(reference)
	for i := 0; i < len(s.pages); i++ { // links to examples add pages
		p := s.pages[i]
		p.Sections = divide(p.body)
		if len(p.Sections) > 0 {
			p.Title = p.Sections[0].Title
		}
		p.Title = cmp.Or(p.Title, p.Path)
		p.Label = cmp.Or(p.Label, p.Title)
		p.Description = describe(p.body)
		if err := s.link(p); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Path, err)
		}
		linkHeadings(p.body)
	}
	return s, nil
}

// add adds a page.
func (s *site) add(p *page) *page {
	s.pages = append(s.pages, p)
	if p.Source != "" {
		s.sources[p.Source] = p
	}
	return p
}

func (s *site) file(source string) string { return filepath.Join(s.root, filepath.FromSlash(source)) }

// loadMarkdown adds the pages in Markdown. A README is the first page of its folder.
func (s *site) loadMarkdown() error {
	files := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
	err := filepath.WalkDir(s.file("docs"), func(file string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(file) == ".md" {
			relative, _ := filepath.Rel(s.root, file) // both begin with the root
			files = append(files, filepath.ToSlash(relative))
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(s.file(file))
		if err != nil {
			return err
		}
		body, err := convert(text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		dress(body)
		name := strings.TrimSuffix(file, ".md")
		if path.Base(name) == "README" {
			name = path.Join(path.Dir(name), "index")
		}
		p := s.add(&page{Source: file, Path: name + ".html", body: body})
		if h := first(body, "h1"); h != nil {
			p.Label = textOf(h)
		}
	}
	return nil
}

// navigate builds the navigation from docs/README.md. Its headings are the groups, and the first links of its rows and list items are the pages. The other
// pages in the folder of a README follow as its chapters. Pages that are missing in docs/README.md come last.
func (s *site) navigate(reference *page) {
	home, contents := s.sources["README.md"], s.sources["docs/README.md"]
	home.Label, contents.Label = "Overview", "All pages"
	s.groups = []group{{Pages: []*page{home, contents}}}
	placed := map[*page]bool{home: true, contents: true, reference: true}
	place := func(p *page) {
		if p == nil || placed[p] {
			return
		}
		placed[p] = true
		last := &s.groups[len(s.groups)-1]
		last.Pages = append(last.Pages, p)
		for _, chapter := range s.pages {
			if folder, file := path.Split(p.Source); file == "README.md" && !placed[chapter] && path.Dir(chapter.Source)+"/" == folder {
				placed[chapter], chapter.Chapter = true, true
				last.Pages = append(last.Pages, chapter)
			}
		}
	}
	for _, n := range elements(contents.body, "h2", "tr", "li") {
		if n.Data == "h2" {
			s.groups = append(s.groups, group{Title: textOf(n)})
			continue
		}
		if link := first(n, "a"); link != nil {
			target, anchor, _ := strings.Cut(attribute(link, "href"), "#")
			p := s.sources[path.Join("docs", target)]
			if p != nil && anchor == "" && !placed[p] {
				p.Label = textOf(link)
			}
			place(p)
		}
	}
	s.groups = append(s.groups, group{Title: "Project", Pages: []*page{reference}})
	for _, p := range s.pages {
		place(p)
	}
	s.groups = slices.DeleteFunc(s.groups, func(g group) bool { return len(g.Pages) == 0 })
	var last *page
	for _, g := range s.groups {
		for _, p := range g.Pages {
			if last != nil {
				last.Next, p.Prev = p, last
			}
			last = p
		}
	}
}

// link replaces links of a page by links to pages of the site, and adds links from code to the reference.
func (s *site) link(p *page) error {
	for _, n := range elements(p.body, "a") {
		target := attribute(n, "href")
		if target == "" || strings.HasPrefix(target, "#") || strings.Contains(target, ":") {
			continue
		}
		target, anchor, found := strings.Cut(target, "#")
		if found {
			anchor = "#" + anchor
		}
		source := path.Join(path.Dir(p.Source), target)
		to, err := s.pageOf(source)
		switch {
		case err != nil:
			return err
		case to != nil:
			setAttribute(n, "href", p.Root()+to.Path+anchor)
			if name := strings.ToLower(textOf(n)); anchor == "" && !slices.Contains(to.called, name) {
				to.called = append(to.called, name)
			}
		case fileInfo(s.file(source)) != nil:
			setAttribute(n, "href", repository+source+anchor)
		}
	}
	for _, n := range elements(p.body, "code") {
		name := s.nameIn(textOf(n))
		if p.Source != "" && name != "" && !within(n, "a", "pre", "h1", "h2", "h3", "h4") {
			wrap(n, element("a", []string{"class", "name", "href", p.Root() + referencePath + "#" + name}))
		}
	}
	return nil
}

// nameIn returns the anchor of a code word in the reference, empty if it is no name of the package.
func (s *site) nameIn(code string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(code, "*"), "kopf.")
	if s.names[name] {
		return name
	}
	// Pages refer to a setting as Settings.Networking.RequestRate, or without the first word.
	if group, field, ok := strings.Cut(strings.TrimPrefix(name, "Settings."), "."); ok && s.names[group+"Settings."+field] {
		return group + "Settings." + field
	}
	return ""
}

// pageOf returns the page of a file or a folder, nil if the site has none. Files of examples become pages at the first link.
func (s *site) pageOf(source string) (*page, error) {
	if p := s.sources[source]; p != nil {
		return p, nil
	}
	if p := s.sources[path.Join(source, "README.md")]; p != nil {
		return p, nil
	}
	info := fileInfo(s.file(source))
	if !strings.HasPrefix(source, "examples/") || info == nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	text, err := os.ReadFile(s.file(source))
	if err != nil {
		return nil, err
	}
	heading := element("h1", nil, textNode(strings.TrimPrefix(source, "examples/")))
	block := element("pre", []string{"class", "file"}, element("code", nil, highlightFile(string(text), path.Base(source))...))
	body := element("body", nil, heading, s.siblings(source), block)
	return s.add(&page{Source: source, Path: source + ".html", body: body}), nil
}

// siblings returns a paragraph with links to a file in the repository, and to the other files in its folder.
func (s *site) siblings(source string) *html.Node {
	p := element("p", nil, element("a", []string{"href", repository + source}, textNode("In the repository")))
	entries, _ := os.ReadDir(filepath.Dir(s.file(source))) // without them there are no links
	for _, e := range entries {
		if e.Type().IsRegular() && path.Ext(e.Name()) != ".sum" && e.Name() != path.Base(source) && path.Dir(source) != "examples" {
			appendAll(p, []*html.Node{textNode(" · "), element("a", []string{"href", e.Name()}, textNode(e.Name()))})
		}
	}
	return p
}

// fileInfo returns the information about a file, nil if it does not exist.
func fileInfo(file string) os.FileInfo {
	info, err := os.Stat(file)
	if err != nil {
		return nil
	}
	return info
}
