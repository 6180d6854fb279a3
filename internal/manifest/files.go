package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// File is a file of manifests.
type File struct {
	Path string
	Data []byte
}

// extensions are those of the files that are read from folders, as kubectl does.
var extensions = []string{".json", ".yaml", ".yml"}

// ReadFiles reads files in the order of their paths. The path of a folder means the files with manifests in it, sorted by their names, and not those in
// folders below it. The path "-" means the standard input, which can be read only once. An error names the path, unless it is that of the context.
func ReadFiles(ctx context.Context, paths []string, stdin io.Reader) ([]File, error) {
	if all := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path != "-" }); len(all) > 1 {
		return nil, errors.New("standard input (-) can be read only once")
	}
	var all []File
	for _, path := range paths {
		files, err := readPath(ctx, path, stdin)
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	return all, nil
}

// readPath reads the standard input, a file, or those in a folder.
func readPath(ctx context.Context, path string, stdin io.Reader) ([]File, error) {
	if path == "-" {
		data, err := readAll(ctx, stdin)
		if err == nil && len(bytes.TrimSpace(data)) == 0 {
			err = errors.New("no manifests in it")
		}
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return []File{{"standard input", data}}, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return readFolder(path)
	}
	data, err := os.ReadFile(path)
	return []File{{path, data}}, err
}

// readFolder reads the files with manifests in a folder.
func readFolder(folder string) (all []File, err error) {
	entries, err := os.ReadDir(folder) // sorted
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		if !slices.Contains(extensions, filepath.Ext(path)) {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() { // not of the entry, which may be a symbolic link
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, File{path, data})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no manifests in the folder %s: want files that end in .yaml, .yml or .json", folder)
	}
	return all, nil
}

// readAll reads to the end, unless the context ends before. A read of a terminal goes on then; it ends with the process.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(r)
		done <- result{data, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-done:
		return got.data, got.err
	}
}
