package installation

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file writes files to a folder, and compares the folder with them.

// owner returns the operator whose command wrote a file, or "" for other files.
func owner(text string) string {
	line, rest, _ := strings.Cut(text, "\n")
	if line == "{" {
		line, _, _ = strings.Cut(strings.TrimPrefix(rest, `  "$comment": "`), `"`)
		line = "# " + line
	}
	name, isOurs := strings.CutPrefix(line, mark)
	name, _, whole := strings.Cut(name, ":")
	if !isOurs || !whole {
		return ""
	}
	return name
}

// Folder is the folder to write files to.
type Folder struct {
	Path string
	Keep bool // keep generated files that are no longer part of the output
}

// Write writes the files, removes generated files that are no longer part of the output, and returns their paths. It does not touch files of another origin. If
// such a file, or one of another operator, is in the way, Write returns an error and changes nothing.
func (d *Folder) Write(f Files) (removed []string, err error) {
	present, err := d.check(f)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	for _, name := range f.Names() {
		if text, ok := present[name]; ok && text == f[name] {
			continue
		}
		if err := replace(d.file(name), f[name]); err != nil {
			return nil, fmt.Errorf("--out: %w", err)
		}
	}
	var errs []error
	for _, name := range d.leftovers(f, present) {
		errs = append(errs, os.Remove(d.file(name)))
		removed = append(removed, d.file(name))
	}
	return removed, errors.Join(errs...)
}

// Diff returns the changes that Write would make as a unified diff, or "". It includes files of another origin that are in the way.
func (d *Folder) Diff(f Files) (string, error) {
	present, err := d.check(f)
	if err != nil && !errtype.As(err, new(*foreignError)) {
		return "", fmt.Errorf("--out: %w", err)
	}
	names := append(f.Names(), d.leftovers(f, present)...)
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		before, isThere := present[name]
		after, made := f[name]
		if isThere && made && before == after {
			continue
		}
		from, to := "a/"+name, "b/"+name
		if !isThere {
			from = os.DevNull
		}
		if !made {
			to = os.DevNull
		}
		fmt.Fprintf(&b, "--- %s\n+++ %s\n%s", from, to, diff(lines(before), lines(after)))
	}
	return b.String(), nil
}

// file returns the path of a file.
func (d *Folder) file(name string) string { return filepath.Join(d.Path, filepath.FromSlash(name)) }

// leftovers returns the names of generated files that are no longer part of the output.
func (d *Folder) leftovers(f Files, present map[string]string) (names []string) {
	for _, name := range rawjson.SortedKeys(present) {
		if _, made := f[name]; !made && !d.Keep && owner(present[name]) != "" {
			names = append(names, name)
		}
	}
	return names
}

// foreignError reports a file of another origin that is in the way.
type foreignError struct{ path string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("the file %s was not made by this command: remove it, or name another folder", e.path)
}

// check returns the texts of the existing files, and an error for files that are in the way.
func (d *Folder) check(f Files) (present map[string]string, err error) {
	present, strange, err := d.read()
	if err != nil {
		return nil, err
	}
	names := f.Names()
	for _, name := range names {
		dir := path.Dir(name)
		what := cmp.Or(strange[dir], strange[name])
		if _, isFile := present[dir]; isFile {
			what = "file"
		}
		if what != "" {
			return nil, fmt.Errorf("%s cannot be written: there is a %s in its place, so remove that, or name another folder", d.file(name), what)
		}
	}
	own := owner(f[names[0]])
	for _, name := range rawjson.SortedKeys(present) {
		if other := owner(present[name]); other != "" && other != own {
			return nil, fmt.Errorf("the folder %s has files of the operator %q, such as %s, and these are of %q: name another folder, or remove it if the operator was renamed", d.Path, other, name, own)
		}
	}
	for _, name := range names {
		text, isThere := present[name]
		if cut := strings.HasPrefix(f[name], text); isThere && owner(text) == "" && !cut { // like a file that was not written completely
			return present, &foreignError{d.file(name)}
		}
	}
	return present, nil
}

// templates is the folder for the templates of a chart.
const templates = "templates"

// read returns the texts of the files in a folder and in its templates folder, with Unix line ends, and the types of other files. The folder may be missing.
func (d *Folder) read() (present, strange map[string]string, err error) {
	present, strange = make(map[string]string), make(map[string]string)
	for _, sub := range []string{".", templates} {
		if _, isFile := present[sub]; isFile || strange[sub] != "" && strange[sub] != "folder" { // such as a link to a file elsewhere
			continue
		}
		delete(strange, sub)
		entries, err := os.ReadDir(d.file(sub))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
		for _, entry := range entries {
			name := path.Join(sub, entry.Name())
			if !entry.Type().IsRegular() {
				strange[name] = kindOf(entry.Type())
				continue
			}
			data, err := os.ReadFile(d.file(name))
			if err != nil {
				return nil, nil, err
			}
			present[name] = strings.ReplaceAll(string(data), "\r\n", "\n")
		}
	}
	return present, strange, nil
}

// kindOf names a file type other than a regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	}
	return "special file"
}

// replace writes a file atomically.
func replace(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.tmp", filepath.Base(path), os.Getpid()))
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}
