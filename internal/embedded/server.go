package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver"
	"github.com/kopf-go/kopf/internal/manifest"
)

// DefaultAddress is where the server listens if nothing else is asked for: at a free port.
const DefaultAddress = "127.0.0.1:0"

// TLSPrefix is what an address begins with if the server is to listen with TLS.
const TLSPrefix = "https://"

// kubeconfig is the file that the kubeconfig of the server is written to, in the current folder. The name is always the same, so that documentation can
// name it for commands in another terminal.
const kubeconfig = "kopf.kubeconfig"

// Server is an API server in memory for an operator and for kubectl.
type Server struct {
	API        *apiserver.Server
	URL        string
	Kubeconfig string // the absolute path of a file

	listener *apiserver.Listener
	remove   func()
}

// Start starts a server with definitions and manifests in it, which can have other definitions of the same kinds, at an address that may begin with [TLSPrefix], and writes its kubeconfig. It does not overwrite a file of another origin, nor that of a server
// that is running, whose users would reach the wrong one.
func Start(address string, definitions []json.RawMessage, manifests []manifest.File) (*Server, error) {
	path, err := filepath.Abs(kubeconfig)
	if err != nil {
		return nil, err
	}
	// Before it listens: the server of a process that was killed may have had the same address.
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

// Close removes the kubeconfig, and stops listening.
func (s *Server) Close() error {
	s.remove()
	return s.listener.Close()
}
