package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver"
	"github.com/kopf-go/kopf/internal/manifest"
)

// DefaultAddress is the default address of the server, with a free port.
const DefaultAddress = "127.0.0.1:0"

// TLSPrefix is the prefix of an address that makes the server use TLS.
const TLSPrefix = "https://"

// KubeconfigName is the file name of the server's kubeconfig, in the current folder. It is constant, so that documentation can use it in commands for another
// terminal.
const KubeconfigName = "kopf.kubeconfig"

// Server is an in-memory API server for an operator and for kubectl.
type Server struct {
	API        *apiserver.Server
	URL        string
	Kubeconfig string // absolute path

	listener *apiserver.Listener
	remove   func()
}

// Start starts a server with definitions and manifests, which can replace definitions of the same kinds. The address may begin with [TLSPrefix]. Start writes
// the kubeconfig of the server. It does not overwrite a file of another origin, or of a running server, whose users would reach the wrong one.
func Start(address string, definitions []json.RawMessage, manifests []manifest.File) (*Server, error) {
	path, err := filepath.Abs(KubeconfigName)
	if err != nil {
		return nil, err
	}
	// Check before listening: a killed server may have had the same address.
	if err := apiserver.CheckKubeconfig(path); err != nil {
		return nil, err
	}
	address, secure := strings.CutPrefix(address, TLSPrefix)
	s := &Server{API: apiserver.New(apiserver.Options{TLS: secure}), Kubeconfig: path}
	for _, definition := range definitions {
		if err := s.API.Apply(definition); err != nil {
			return nil, err
		}
	}
	if err := s.API.Load(manifests); err != nil {
		return nil, err
	}
	if s.listener, err = s.API.Listen(address); err != nil {
		return nil, fmt.Errorf("the embedded server: %w", err)
	}
	s.URL = s.listener.URL
	if s.remove, err = s.listener.PutKubeconfig(path); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	return s, nil
}

// Check returns the error of definitions that the server refuses, as a cluster would.
func Check(definitions []json.RawMessage) error {
	api := apiserver.New(apiserver.Options{DisableGarbageCollector: true, Logger: slog.New(slog.DiscardHandler)})
	for _, definition := range definitions {
		if err := api.Apply(definition); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the kubeconfig, and stops listening.
func (s *Server) Close() error {
	s.remove()
	return s.listener.Close()
}
