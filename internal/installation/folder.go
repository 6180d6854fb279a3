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

	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file writes files into a folder, and compares the folder with them.

// owner returns the name of the operator whose command has made a file; "" for a file of another origin.
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

// Folder is where files are written.
type Folder struct {
	Path string
	Keep bool // whether files stay that were made before and are not any more
}

// Write writes the files, and removes those that were made before and are not any more, whose paths it returns. It does not touch files of another origin: one that is in the way is an error, and so are
// those of another operator, and then nothing is written.
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

// Diff returns what Write would change, as a unified diff; "" if nothing. Files of another origin that are in its way are a part of it.
func (d *Folder) Diff(f Files) (string, error) {
	present, err := d.check(f)
	if err != nil && !errors.As(err, new(*foreignError)) {
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

// leftovers returns the names of the files that were made before and are not any more.
func (d *Folder) leftovers(f Files, present map[string]string) (names []string) {
	for _, name := range rawjson.SortedKeys(present) {
		if _, made := f[name]; !made && !d.Keep && owner(present[name]) != "" {
			names = append(names, name)
		}
	}
	return names
}

// foreignError is about a file of another origin that is in the way of one to be written.
type foreignError struct{ path string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("the file %s was not made by this command: remove it, or name another folder", e.path)
}

// check returns the texts of the files that are there, and what is in the way of those to be written.
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
		if cut := strings.HasPrefix(f[name], text); isThere && owner(text) == "" && !cut { // as one is that could not be written to its end
			return present, &foreignError{d.file(name)}
		}
	}
	return present, nil
}

// templates is the folder of a chart in its folder.
const templates = "templates"

// read returns the texts of the files in a folder, which need not be there, and in the folder of templates in it, with the line ends of Unix; and what kinds of files the others are.
func (d *Folder) read() (present, strange map[string]string, err error) {
	present, strange = make(map[string]string), make(map[string]string)
	for _, sub := range []string{".", templates} {
		if _, isFile := present[sub]; isFile || strange[sub] != "" && strange[sub] != "folder" { // such as a link to one elsewhere
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

// kindOf names what is no regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	}
	return "special file"
}

// replace writes a file so that it is either the old one or the new one, whatever happens.
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
