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

// extensions are the extensions of the files that are read from folders, as in kubectl.
var extensions = []string{".json", ".yaml", ".yml"}

// ReadFiles reads files in the order of their paths. For a folder, it reads the manifests in it, sorted by name, without subfolders. The path "-" means the
// standard input, which can be read only once. An error names the path, except for errors of the context.
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

// readPath reads the standard input, a file, or the files in a folder.
func readPath(ctx context.Context, path string, stdin io.Reader) ([]File, error) {
	if path == "-" {
		data, err := interruptible(ctx, func() ([]byte, error) { return io.ReadAll(stdin) })
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
		return readFolder(ctx, path)
	}
	data, err := readFile(ctx, path, info)
	return []File{{path, data}}, err
}

// readFile reads a file. A read of a special file, such as a pipe, may block, so the context can interrupt it.
func readFile(ctx context.Context, path string, info os.FileInfo) ([]byte, error) {
	if info.Mode().IsRegular() {
		return os.ReadFile(path)
	}
	return interruptible(ctx, func() ([]byte, error) { return os.ReadFile(path) })
}

// readFolder reads the manifests in a folder.
func readFolder(ctx context.Context, folder string) (all []File, err error) {
	entries, err := os.ReadDir(folder) // sorted
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		if !slices.Contains(extensions, filepath.Ext(path)) {
			continue
		}
		info, err := os.Stat(path) // follows symbolic links
		if err == nil && info.IsDir() {
			continue
		}
		var data []byte
		if err == nil {
			data, err = readFile(ctx, path, info)
		}
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

// interruptible performs a read, unless the context ends before. A blocked read continues until the process ends.
func interruptible(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := read()
		done <- result{data, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-done:
		return got.data, got.err
	}
}
