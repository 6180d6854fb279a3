package main

import (
	"cmp"
	"embed"
	"encoding/json"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// This file writes a site to a folder, which has a folder for each version.

//go:embed assets
var assets embed.FS

var (
	layout = template.Must(template.ParseFS(assets, "assets/page.html"))
	entry  = template.Must(template.New("index").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>kopf</title><meta http-equiv="refresh" content="0; url=latest/index.html"></head>
<body><p><a href="latest/index.html">The documentation of kopf</a></p></body></html>
`))
)

// A view is the data of a page template.
type view struct {
	*page
	Groups            []group
	Version, Released string   // the name of the folder, and the version of the code
	Versions          []string // the folders
	Body              template.HTML
}

// write writes the site as two versions: that of the name, and the released one.
func (s *site) write(out, name, released string) error {
	folders := []string{name, released}
	for _, folder := range folders {
		if err := os.RemoveAll(filepath.Join(out, folder)); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(out, folder, "index.html"), nil); err != nil { // so that it is in the list of versions
			return err
		}
	}
	versions, err := versionsIn(out)
	if err != nil {
		return err
	}
	list, err := json.Marshal(versions)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(out, "versions.json"), append(list, '\n')); err != nil {
		return err
	}
	for _, folder := range folders {
		if err := s.writeVersion(filepath.Join(out, folder), view{Groups: s.groups, Version: folder, Released: released, Versions: versions}); err != nil {
			return err
		}
	}
	var b strings.Builder
	if err := entry.Execute(&b, nil); err != nil {
		return err
	}
	return writeFile(filepath.Join(out, "index.html"), []byte(b.String()))
}

// writeVersion writes the pages of a version, and their assets.
func (s *site) writeVersion(out string, v view) error {
	for _, p := range s.pages {
		body, err := render(p.body)
		if err != nil {
			return err
		}
		v.page, v.Body = p, template.HTML(body)
		var b strings.Builder
		if err := layout.Execute(&b, v); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(out, filepath.FromSlash(p.Path)), []byte(b.String())); err != nil {
			return err
		}
	}
	search, err := s.searchIndex()
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(out, "search-index.js"), search); err != nil {
		return err
	}
	for _, name := range []string{"style.css", "site.js"} {
		data, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(out, name), data); err != nil {
			return err
		}
	}
	return s.copyPictures(out)
}

// copyPictures copies the pictures of the documentation to the folder of the pages.
func (s *site) copyPictures(out string) error {
	return filepath.WalkDir(s.file("docs"), func(file string, d os.DirEntry, err error) error {
		if err != nil || !slices.Contains([]string{".svg", ".png", ".jpg", ".gif", ".webp"}, filepath.Ext(file)) {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(s.root, file)
		if err != nil {
			return err
		}
		return writeFile(filepath.Join(out, relative), data)
	})
}

// versionsIn returns the versions in a folder: the latest, then the others, the newest first.
func versionsIn(out string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(out, "*", "index.html"))
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, file := range found {
		versions = append(versions, filepath.Base(filepath.Dir(file)))
	}
	slices.SortFunc(versions, func(a, b string) int { return compareVersions(b, a) })
	return versions, nil
}

// compareVersions compares versions by their numbers. A name without a leading number, such as "latest", is newer than all others.
func compareVersions(a, b string) int {
	numbers := func(version string) (all []int) {
		for part := range strings.SplitSeq(version, ".") {
			n, err := strconv.Atoi(part)
			if err != nil && len(all) == 0 {
				n = 1 << 30
			}
			all = append(all, n)
		}
		return all
	}
	return cmp.Or(slices.Compare(numbers(a), numbers(b)), strings.Compare(a, b))
}

// writeFile writes a file, and creates its folders.
func writeFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}
