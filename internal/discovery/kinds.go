package discovery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Kinds finds the resources of kinds. It caches the discovery until a kind is missing in it. It is safe for concurrent use.
type Kinds struct {
	mu    sync.Mutex // guards known
	known []Resource
}

// Set replaces the known resources.
func (k *Kinds) Set(known []Resource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known = known
}

// Read reads the resources. See [Read].
func (k *Kinds) Read(ctx context.Context, s Server) (found []Resource, broken map[string]error, err error) {
	found, broken, err = Read(ctx, s, nil)
	if err == nil {
		k.Set(found)
	}
	return found, broken, err
}

// Resolve returns the resource of a kind. It returns an error if there is none.
func (k *Kinds) Resolve(ctx context.Context, s Server, apiVersion, kind string) (Resource, error) {
	r, found, broken, err := k.find(ctx, s, func(r Resource) bool { return r.Kind == kind && r.apiVersion() == apiVersion })
	if err != nil {
		return Resource{}, err
	}
	if r != nil {
		return *r, nil
	}
	group, _, _ := strings.Cut(apiVersion, "/")
	if err := broken[group]; err != nil {
		return Resource{}, fmt.Errorf("look up the kind %q in %s: %w", kind, apiVersion, err)
	}
	return Resource{}, UnknownKind(apiVersion, kind, found)
}

// Preferred returns the resource of a kind in the preferred version of its group, or nil if there is none. It returns an error if that is unknown.
func (k *Kinds) Preferred(ctx context.Context, s Server, group, kind string) (*Resource, error) {
	r, _, broken, err := k.find(ctx, s, func(r Resource) bool { return r.Kind == kind && r.Group == group && r.Preferred })
	if r == nil && err == nil && broken[group] != nil {
		err = fmt.Errorf("look up the kind %s: %w", strings.TrimSuffix(kind+"."+group, "."), broken[group])
	}
	return r, err
}

// find returns a matching resource, or nil. If no known one matches, it reads the discovery and returns the resources, too.
func (k *Kinds) find(ctx context.Context, s Server, fits func(Resource) bool) (r *Resource, found []Resource, broken map[string]error, err error) {
	k.mu.Lock()
	known := k.known
	k.mu.Unlock()
	i := slices.IndexFunc(known, fits)
	if i < 0 {
		if known, broken, err = k.Read(ctx, s); err != nil {
			return nil, nil, nil, err
		}
		i = slices.IndexFunc(known, fits)
	}
	if i < 0 {
		return nil, known, broken, nil
	}
	return &known[i], known, broken, nil
}

// Forget removes a kind from the cache.
func (k *Kinds) Forget(apiVersion, kind string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known = keep(k.known, func(r Resource) bool { return r.Kind != kind || r.apiVersion() != apiVersion })
}
