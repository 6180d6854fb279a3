//go:build !noembed

package kopf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kopf-go/kopf/internal/apiserver"
)

// This file runs operators on the embedded server, for the option --embedded. The build tag noembed leaves it out, and with it all of
// the server that the program does not use by itself. It runs on the goroutine of the command.

// canEmbed reports whether the command line of this build has the embedded server.
const canEmbed = true

// embed starts the embedded server, loads the manifests, runs the operator on it, and takes all away again.
func (c *command) embed(ctx context.Context, o *runOptions, op *Operator) (err error) {
	manifests, err := readManifests(o.apply)
	if err != nil {
		return err
	}
	server := NewAPIServer(nil)
	for _, m := range manifests {
		if err := server.Apply(m.data); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	served, err := server.Listen(cmp.Or(o.listen, "127.0.0.1:0"))
	if err != nil {
		return fmt.Errorf("the embedded server: %w", err)
	}
	defer func() { err = errors.Join(err, served.Close()) }()
	path, err := filepath.Abs(embeddedKubeconfig)
	if err != nil {
		return err
	}
	remove, err := writeKubeconfig(served, path)
	if err != nil {
		return err
	}
	defer remove()
	fmt.Fprintf(c.stdout, "export KUBECONFIG=%s\n", path)
	op.Connection = server.ConnectionInfo()
	return op.Run(ctx)
}

// readManifests reads the files before anything is started for them.
func readManifests(paths []string) ([]manifestFile, error) {
	var all []manifestFile
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, manifestFile{path, data})
	}
	return all, nil
}

// manifestFile is a file to be loaded into the embedded server.
type manifestFile struct {
	path string
	data []byte
}

// embeddedKubeconfig is where the embedded server's kubeconfig is written. The name is always the same, so that documentation can
// name it for commands in another terminal.
const embeddedKubeconfig = "kopf.kubeconfig"

// writeKubeconfig writes the kubeconfig of a server, and returns a function that removes the file again. It does not overwrite a file of another
// origin, nor that of a server that still runs, whose users would reach the wrong one.
func writeKubeconfig(served *Served, path string) (remove func(), err error) {
	if stat, err := os.Lstat(path); err == nil {
		old, bad := os.ReadFile(path)
		if !stat.Mode().IsRegular() || bad != nil || !bytes.Contains(old, []byte(`"current-context": "kopf"`)) {
			return nil, fmt.Errorf("%s is not of an embedded server: it is in the way, and will not be overwritten", path)
		}
		if url := apiserver.RunningServer(old); url != "" {
			return nil, fmt.Errorf("%s belongs to the embedded server at %s, which is running: stop it, or start this one in another folder", path, url)
		}
	}
	if err := served.WriteKubeconfig(path); err != nil {
		return nil, err
	}
	own, err := os.ReadFile(path)
	return func() {
		// Another operator in the same folder may have written its own by now.
		if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, own) {
			_ = os.Remove(path) // it leads nowhere in any case
		}
	}, err
}
