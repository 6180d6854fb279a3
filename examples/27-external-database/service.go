package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/kopf-go/kopf"
)

// Service is a client of the database service. It is safe for concurrent use.
type Service struct {
	URL    string
	Client *http.Client
}

// Instance is a database as the service describes it.
type Instance struct {
	Storage  int64  `json:"storage"`
	State    string `json:"state,omitempty"`
	Address  string `json:"address,omitempty"`
	Password string `json:"password,omitempty"`
}

const (
	stateCreating = "creating"
	stateReady    = "ready"
)

// errNotFound is the cause of errors about databases that the service does not have.
var errNotFound = errors.New("not found")

// Ensure creates the database with this id, or changes it. It can be repeated.
func (s *Service) Ensure(ctx context.Context, id string, storage int64) (*Instance, error) {
	return s.do(ctx, http.MethodPut, id, &Instance{Storage: storage})
}

// Get returns the database with this id.
func (s *Service) Get(ctx context.Context, id string) (*Instance, error) {
	return s.do(ctx, http.MethodGet, id, nil)
}

// Delete deletes the database with this id. It can be repeated.
func (s *Service) Delete(ctx context.Context, id string) error {
	_, err := s.do(ctx, http.MethodDelete, id, nil)
	if errors.Is(err, errNotFound) {
		return nil // an earlier attempt has deleted it
	}
	return err
}

// do makes a request, and reads its answer.
func (s *Service) do(ctx context.Context, method, id string, body *Instance) (*Instance, error) {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.URL+"/databases/"+id, sent)
	if err != nil {
		return nil, err
	}
	response, err := s.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	switch code := response.StatusCode; {
	case code == http.StatusNotFound:
		return nil, fmt.Errorf("%s database %s: %w", method, id, errNotFound)
	case code == http.StatusUnprocessableEntity: // repeating it does not help
		return nil, kopf.Permanent(fmt.Errorf("%s database %s: %s", method, id, bytes.TrimSpace(data)))
	case code >= 300:
		return nil, fmt.Errorf("%s database %s: %s", method, id, response.Status)
	case len(data) == 0:
		return nil, nil
	}
	instance := new(Instance)
	if err := json.Unmarshal(data, instance); err != nil {
		return nil, fmt.Errorf("%s database %s: %w", method, id, err)
	}
	return instance, nil
}
