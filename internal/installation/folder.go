package installation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// This file writes files into a folder, and compares the folder with them.

// isOurs reports whether a file was made by [Model.YAMLFiles] and the like.
func isOurs(data []byte) bool {
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.HasPrefix(line, mark) || line == "{" && strings.Contains(string(data), `"$comment": "`+strings.TrimPrefix(mark, "# "))
}

// Write writes the files into a folder, and removes those that were made before and are not any more. It does not touch files of another origin: one that is in the way is an error,
// and then nothing is written.
func (f Files) Write(folder string) error {
	present, err := filesIn(folder)
	if err != nil {
		return err
	}
	for _, name := range f.Names() {
		if data, ok := present[name]; ok && !isOurs(data) {
			return fmt.Errorf("the file %s was not made by this command: remove it, or name another folder", filepath.Join(folder, filepath.FromSlash(name)))
		}
	}
	for _, name := range f.Names() {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if string(present[name]) == f[name] {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(f[name]), 0o644); err != nil {
			return err
		}
	}
	var errs []error
	for name, data := range present {
		if _, made := f[name]; !made && isOurs(data) {
			errs = append(errs, os.Remove(filepath.Join(folder, filepath.FromSlash(name))))
		}
	}
	return errors.Join(errs...)
}

// Diff returns what [Files.Write] would change, as a unified diff; "" if nothing.
func (f Files) Diff(folder string) (string, error) {
	present, err := filesIn(folder)
	if err != nil {
		return "", err
	}
	names := f.Names()
	for name, data := range present {
		if _, made := f[name]; !made && isOurs(data) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		before, isThere := present[name]
		after, made := f[name]
		if isThere && made && string(before) == after {
			continue
		}
		from, to := "a/"+name, "b/"+name
		if !isThere {
			from = os.DevNull
		}
		if !made {
			to = os.DevNull
		}
		fmt.Fprintf(&b, "--- %s\n+++ %s\n%s", from, to, diff(lines(string(before)), lines(after)))
	}
	return b.String(), nil
}

// filesIn returns the files in a folder, which need not be there, and in the folder of templates in it.
func filesIn(folder string) (map[string][]byte, error) {
	present := make(map[string][]byte)
	for _, sub := range []string{"", "templates"} {
		entries, err := os.ReadDir(filepath.Join(folder, sub))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if !entry.Type().IsRegular() {
				continue
			}
			data, err := os.ReadFile(filepath.Join(folder, sub, entry.Name()))
			if err != nil {
				return nil, err
			}
			present[strings.TrimPrefix(sub+"/"+entry.Name(), "/")] = data
		}
	}
	return present, nil
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// diffContext is how many lines that are the same are shown around those that differ.
const diffContext = 3

// diff returns the hunk from the first to the last difference of two lists of lines.
func diff(before, after []string) string {
	start := 0
	for start < min(len(before), len(after)) && before[start] == after[start] {
		start++
	}
	end := 0
	for end < min(len(before), len(after))-start && before[len(before)-1-end] == after[len(after)-1-end] {
		end++
	}
	lead, trail := min(start, diffContext), min(end, diffContext)
	from, to := before[start-lead:len(before)-end+trail], after[start-lead:len(after)-end+trail]
	var b strings.Builder
	fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", min(start-lead+1, len(before)), len(from), min(start-lead+1, len(after)), len(to))
	common := common(from, to)
	i, j := 0, 0
	for i < len(from) || j < len(to) {
		switch {
		case i < len(from) && j < len(to) && from[i] == to[j]:
			b.WriteString(line(" ", from[i]))
			i, j = i+1, j+1
		case i < len(from) && (j == len(to) || common[i+1][j] >= common[i][j+1]):
			b.WriteString(line("-", from[i]))
			i++
		default:
			b.WriteString(line("+", to[j]))
			j++
		}
	}
	return b.String()
}

func line(sign, text string) string { return sign + text + "\n" }

// common returns for each two rests how many lines they can have in common.
func common(a, b []string) [][]int32 {
	all := make([][]int32, len(a)+1)
	for i := range all {
		all[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				all[i][j] = all[i+1][j+1] + 1
			} else {
				all[i][j] = max(all[i+1][j], all[i][j+1])
			}
		}
	}
	return all
}
