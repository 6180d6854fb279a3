//go:build unix

package manifest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestReadPipe checks that the end of the context interrupts reading a pipe without a writer, as for the standard input.
func TestReadPipe(t *testing.T) {
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	read := func(ctx context.Context, path string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := ReadFiles(ctx, []string{path}, nil)
			done <- err
		}()
		return done
	}
	for _, path := range []string{pipe, folder} {
		ctx, cancel := context.WithCancel(t.Context())
		done := read(ctx, path)
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v, want the error of the context", path, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the read goes on after the end of the context", path)
		}
	}
	written := filepath.Join(t.TempDir(), "pipe") // another one, because the reads of the first one continue
	if err := syscall.Mkfifo(written, 0o600); err != nil {
		t.Fatal(err)
	}
	done := read(t.Context(), written)
	w, err := os.OpenFile(written, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("kind: X"); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("a pipe that is written to: %v", err)
	}
}
