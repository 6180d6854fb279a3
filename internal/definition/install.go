package definition

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file installs definitions in a cluster, and compares them with the existing ones.

// Cluster performs requests. A method returns the document, the status code, 0 without a response, and an error for any other result.
type Cluster interface {
	// Get reads a document.
	Get(ctx context.Context, path string) (raw []byte, code int, err error)
	// GetOnce is Get without retries.
	GetOnce(ctx context.Context, path string) (raw []byte, code int, err error)
	// Apply applies a document by server-side apply.
	Apply(ctx context.Context, path string, document []byte) (raw []byte, code int, err error)
}

// The limits of the comparison, and of the waiting time for a new definition.
const (
	compareTimeout   = 5 * time.Second
	establishTimeout = time.Minute
	establishPause   = 200 * time.Millisecond
)

// Missing is the problem of a definition that the cluster does not have.
const Missing = "it is missing"

// path returns the path of the definition.
func (d *Definition) path() string {
	return "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + d.Name
}

// Compare returns the problem with the cluster's definition, or "".
func (d *Definition) Compare(ctx context.Context, c Cluster) (problem string, err error) {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	raw, code, err := c.GetOnce(ctx, d.path())
	if code == http.StatusNotFound {
		return Missing, nil
	} else if err != nil {
		return "", err
	}
	return d.Difference(raw), nil
}

// Install applies the definition, and waits until the API server serves its kind. It retries while an old definition is being deleted, and after conflicts.
func (d *Definition) Install(ctx context.Context, c Cluster) error {
	ctx, cancel := context.WithTimeoutCause(ctx, establishTimeout, fmt.Errorf("it is not established after %s", establishTimeout))
	defer cancel()
	var last []byte // the definition as last seen
	for applied := false; ; {
		raw, code, err := d.applyOrGet(ctx, c, applied)
		if err == nil {
			last = raw
		}
		served := false
		switch _, deleted := rawjson.Find(raw, "metadata", "deletionTimestamp"); {
		case code == http.StatusConflict, code == http.StatusNotFound && applied, err == nil && deleted:
			applied, err = false, nil
		case err == nil:
			applied = true
			served, err = d.isServed(ctx, c, raw)
		}
		if err == nil && !served {
			err = await.Sleep(ctx, establishPause)
		}
		if ctx.Err() != nil {
			return notEstablished(context.Cause(ctx), last)
		}
		if err != nil || served {
			return err
		}
	}
}

// applyOrGet applies the definition, or reads it if it was applied.
func (d *Definition) applyOrGet(ctx context.Context, c Cluster, applied bool) (raw []byte, code int, err error) {
	if applied {
		return c.Get(ctx, d.path())
	}
	return c.Apply(ctx, d.path(), d.JSON)
}

// notEstablished adds the conditions that keep a definition from being established to an error.
func notEstablished(err error, raw []byte) error {
	conditions, _ := rawjson.Find(raw, "status", "conditions")
	_ = rawjson.EachItem(conditions, func(item []byte) bool { // malformed items are ignored
		typ, status := rawjson.ScalarAt(item, "type"), rawjson.ScalarAt(item, "status")
		good := "True"
		if typ == "NonStructuralSchema" || typ == "Terminating" {
			good = "False"
		}
		if status != good {
			err = fmt.Errorf("%w; %s is %s: %s", err, typ, status, rawjson.ScalarAt(item, "message"))
		}
		return true
	})
	return err
}

// isServed reports whether a definition is established, and its kind is in the discovery, which follows later.
func (d *Definition) isServed(ctx context.Context, c Cluster, raw []byte) (bool, error) {
	conditions, _ := rawjson.Find(raw, "status", "conditions")
	if !hasItem(conditions, map[string]string{"type": "Established", "status": "True"}) {
		return false, nil
	}
	raw, code, err := c.Get(ctx, "/apis/"+d.Group+"/"+d.Version)
	if code == http.StatusNotFound {
		return false, nil
	} else if err != nil {
		return false, err
	}
	resources, _ := rawjson.Find(raw, "resources")
	return hasItem(resources, map[string]string{"name": d.Plural}), nil
}

// hasItem reports whether a JSON list has an object with the given string members.
func hasItem(list []byte, texts map[string]string) (has bool) {
	_ = rawjson.EachItem(list, func(item []byte) bool { // malformed items are ignored
		has = true
		for key, text := range texts {
			has = has && rawjson.ScalarAt(item, key) == text
		}
		return !has
	})
	return has
}
