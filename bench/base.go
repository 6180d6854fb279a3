package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// buildBase compiles the operators of the bench, as they are now, with kopf at a commit. It checks out the commit for the build only.
func buildBase(ctx context.Context, dir, commit string) (err error) {
	tree := filepath.Join(dir, "tree")
	if err := git(ctx, "worktree", "add", "--detach", tree, commit); err != nil {
		return err
	}
	defer func() {
		// The context may be canceled, which has ended the build.
		if removed := git(context.WithoutCancel(ctx), "worktree", "remove", "--force", tree); err == nil {
			err = removed
		}
	}()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if name == "go.mod" {
			data = []byte(strings.Replace(string(data), "kopf => ../\n", "kopf => "+tree+"\n", 1))
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	modfile := "-modfile=" + filepath.Join(dir, "go.mod")
	if err := compile(ctx, filepath.Join(dir, websitesName, "base"), modfile, "-tags=noembed", "./operators/websites/kopf"); err != nil {
		return err
	}
	return compile(ctx, filepath.Join(dir, "base"), modfile, "-tags=noembed", "./operators/kopf")
}

// shortCommit returns the name of a commit in tables.
func shortCommit(ctx context.Context, commit string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", commit+"^{commit}").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%q is no commit: %w\n%s", commit, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func git(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
