package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
)

// listen serves the census on a separate socket without faults.
func (o *operator) listen() error {
	path := filepath.Join(o.dir, fmt.Sprintf("census-%d.sock", o.run))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(o.census()) // the bench retries
	})
	mux.Handle("/heap", pprof.Handler("heap"))
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }() // until the process ends
	return nil
}
