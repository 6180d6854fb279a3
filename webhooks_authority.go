package kopf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/kopf-go/kopf/internal/certs"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/webhookca"
)

// This file keeps the authority that the servers of several replicas share in a Secret.

// webhookSharing is what the replicas of an operator have in common for their servers of webhooks.
type webhookSharing struct {
	secret, namespace string            // of the Secret with the authority, for servers that name none; empty for none
	replica           webhookca.Replica // the operator itself
}

// Holds implements [webhookca.Replica]: without an election, each replica writes what all share.
func (s *reviewServer) Holds() bool { return s.leader == nil || s.leader.number() != 0 }

// sharing returns what the replicas have in common: with an election, an authority that is named after its Lease.
func (s *reviewServer) sharing() webhookSharing {
	shared := webhookSharing{replica: s}
	if s.leader != nil {
		shared.secret, shared.namespace = s.leader.ref.Name+"-webhooks", s.leader.ref.Namespace
	}
	return shared
}

// Written implements [webhookca.Replica]. Configurations that are not managed are left to those who made them, who have the overlap for it.
func (s *reviewServer) Written() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clientConfig != nil && (s.serving.settings.Managed == "" || s.serving.written == s.clientConfig)
}

// authority returns what signs the certificates of the server, nil if they sign themselves.
func (s *WebhookServer) authority(ctx context.Context, options *certs.Options) (*webhookca.Keeper, error) {
	op, _ := ctx.Value(servedKey{}).(servedOperator)
	if !options.MakesOwn() {
		return nil, nil
	}
	namespace, name := op.sharing.namespace, op.sharing.secret
	if s.AuthoritySecret != "" {
		var err error
		if namespace, name, err = webhookca.Split(s.AuthoritySecret); err != nil {
			return nil, err
		}
	}
	if name == "" {
		return nil, nil
	}
	if op.client == nil {
		return nil, fmt.Errorf("the Secret %q cannot be read without an operator: pass its context on to Serve", name)
	}
	if namespace == "" {
		info, err := op.client.ConnectionInfo(ctx)
		if err != nil {
			return nil, err
		}
		if namespace = info.DefaultNamespace; namespace == "" {
			return nil, fmt.Errorf("the Secret %q has no namespace, because the connection has none: name it in AuthoritySecret, as in \"my-namespace/%s\"", name, name)
		}
	}
	return &webhookca.Keeper{
		Store: &secretStore{op.client, namespace, name}, Namespace: namespace, Name: name, Replica: op.sharing.replica,
		Overlap: max(options.RenewalOverlap, 0), Log: options.Log,
	}, nil
}

// secretStore is one Secret. Its requests wait for no others: those that are under way may be waiting for the webhooks.
type secretStore struct {
	client          *Client
	namespace, name string
}

func (s *secretStore) resource() Resource {
	return Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}
}

func (s *secretStore) path(name string) string {
	return s.resource().URL(url.PathEscape(s.namespace), url.PathEscape(name), "")
}

// Read implements [webhookca.Store]. Its requests are not repeated, because the caller does that. See [Client.object] for the list.
func (s *secretStore) Read(ctx context.Context) (webhookca.Secret, error) {
	ctx = unlimited(ctx)
	body, err := s.client.body(ctx, &request{method: http.MethodGet, path: s.path(s.name), once: true})
	if forbidden := (*APIError)(nil); errors.As(err, &forbidden) && forbidden.Code == http.StatusForbidden {
		if body, err = s.client.listObject(ctx, s.resource(), s.namespace, s.name, forbidden); StatusCode(err) == http.StatusForbidden {
			err = forbidden
		}
	}
	if StatusCode(err) == http.StatusNotFound {
		return webhookca.Secret{}, nil
	} else if err != nil {
		return webhookca.Secret{}, err
	}
	var read struct{ Data webhookca.Data }
	if err := json.Unmarshal(body.raw, &read); err != nil {
		return webhookca.Secret{}, errors.New("its data cannot be read") // the error may show a part of it
	}
	return webhookca.Secret{Version: body.version, Data: read.Data}, nil
}

// Create implements [webhookca.Store].
func (s *secretStore) Create(ctx context.Context, data webhookca.Data) error {
	object, err := rawjson.Encode(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": map[string][]byte(data),
		"metadata": map[string]any{"name": s.name, "namespace": s.namespace},
	})
	if err != nil {
		return err
	}
	return s.write(ctx, &request{method: http.MethodPost, path: s.path(""), contentType: "application/json", body: object})
}

// Update implements [webhookca.Store].
func (s *secretStore) Update(ctx context.Context, version string, data webhookca.Data) error {
	values := make(map[string]any)
	for _, key := range webhookca.Keys() {
		if values[key] = data[key]; data[key] == nil {
			values[key] = nil
		}
	}
	patch, err := rawjson.Encode(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "data": values})
	if err != nil {
		return err
	}
	return s.write(ctx, &request{method: http.MethodPatch, path: s.path(s.name), contentType: string(MergePatch), body: patch})
}

func (s *secretStore) write(ctx context.Context, r *request) error {
	r.once = true
	_, err := s.client.body(unlimited(ctx), r)
	return err
}

// Follow implements [webhookca.Store].
func (s *secretStore) Follow(ctx context.Context, f webhookca.Follower) {
	st := &stream{
		client: s.client, resource: s.resource(), namespace: s.namespace, name: s.name, settings: &s.client.source.Watching, logger: s.client.log,
		handler: &secretHandler{follower: f},
	}
	st.run(ctx)
}

// Code implements [webhookca.Store].
func (s *secretStore) Code(err error) int { return StatusCode(err) }

// secretHandler tells of changes, and remembers nothing of what has changed.
type secretHandler struct {
	ignoreStream
	follower webhookca.Follower
}

func (h *secretHandler) skip(EventType, *rawjson.Header, []byte) bool {
	h.follower.NoteChange(nil)
	return true
}

func (h *secretHandler) onListed()          { h.follower.NoteChange(nil) }
func (h *secretHandler) onStatus(err error) { h.follower.NoteChange(err) }
