package kopf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/kindschema"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file knows resources: how they are discovered, the selectors that name them, and whether their schemas keep the state of handlers.

// Resource is a kind of objects in one version of its API group, as the API server
// describes it.
type Resource struct {
	Group        string   // the API group, "" for the core group
	Version      string   // such as "v1"
	Plural       string   // the name in URLs, such as "pods"
	Kind         string   // such as "Pod"
	Singular     string   // such as "pod"
	ShortNames   []string // such as "po"
	Categories   []string // such as "all"
	Subresources []string // such as "status" and "scale"
	Verbs        []string // such as "list", "watch" and "patch"
	Namespaced   bool     // whether its objects live in namespaces
	Preferred    bool     // whether the version is the preferred one of its group
}

// APIVersion returns "group/version", or the version alone in the core group.
func (r Resource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// typeMeta returns what the objects have in common.
func (r Resource) typeMeta() *typeMeta { return &typeMeta{r.APIVersion(), r.Kind} }

// isVersionOf reports whether both are of the same objects, perhaps in different versions.
func (r Resource) isVersionOf(o Resource) bool { return r.Group == o.Group && r.Plural == o.Plural }

// Name returns "plural.version.group", which tells the resource apart from all others.
func (r Resource) Name() string {
	return strings.TrimSuffix(strings.Join([]string{r.Plural, r.Version, r.Group}, "."), ".")
}

// String returns [Resource.Name].
func (r Resource) String() string { return r.Name() }

// loggable returns what a log may say of an object: nothing of what secrets hold.
func (r Resource) loggable(v any) any {
	if r.Group == "" && r.Plural == "secrets" {
		return "concealed"
	}
	return v
}

// URL returns the path of a collection, an object, or its subresource on the API
// server. Empty arguments are left out: no name means the collection, and no
// namespace means that of all namespaces or of a kind without them.
func (r Resource) URL(namespace, name, subresource string) string {
	path := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		path = "/api/" + r.Version
	}
	if r.Namespaced && namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + r.Plural
	if name != "" {
		path += "/" + name
		if subresource != "" {
			path += "/" + subresource
		}
	}
	return path
}

// path is URL for names of any characters.
func (r Resource) path(namespace, name, subresource string) string {
	return r.URL(url.PathEscape(namespace), url.PathEscape(name), subresource)
}

// fieldManager owns the fields that handlers of the resource write by their client. It must never change: another one could not remove them.
func (r Resource) fieldManager() string {
	name := "kopf-" + strings.Trim(r.Plural+"."+r.Group, ".")
	return name[:min(len(name), 128)] // more is refused
}

// Selector names the resources that a handler is for: "plural", "plural.group", "plural.version.group",
// "plural.version", "group/version/plural", "group/plural", or "v1/plural" for the core group. Instead of the plural, the kind,
// the singular, or a short name will do; instead of a name, "*" means all of a group or version, as in "*.v1.apps" or "apps/v1/*".
// Without a version, the preferred one of the group is meant. If a name fits kinds of several groups, kopf serves the one of the core
// group. If none of them is there, kopf logs a warning and serves none. See also [Kind], [Category] and [Everything]. For all else,
// there is the option Where of the handlers, with which the selector may be empty.
type Selector string

// Everything selects all resources but Kubernetes events.
const Everything Selector = "*"

// Kind selects resources by nothing but their kind. A version and a group may follow, as in "KopfExample.v1.kopf.dev".
func Kind(kind string) Selector { return Selector("kind:" + kind) }

// Category selects the resources of a category, such as "all".
func Category(category string) Selector { return Selector("category:" + category) }

// spec returns the selector as it is understood.
func (s Selector) spec(where func(Resource) bool) (discovery.Selector, error) {
	if where == nil {
		return discovery.ParseSelector(string(s), nil)
	}
	return discovery.ParseSelector(string(s), func(r discovery.Resource) bool { return where(Resource(r)) })
}

// discover returns the resources of the given groups, or of all groups if none are given at all (nil). Groups that cannot be read
// now, because an extension of the API server is down, are left out and reported.
func (c *Client) discover(ctx context.Context, groups []string) (found []discovery.Resource, broken map[string]error, err error) {
	return discovery.Read(ctx, discovering{c}, groups)
}

// discovering reads the documents of the discovery.
type discovering struct{ client *Client }

// Get implements [discovery.Server].
func (d discovering) Get(ctx context.Context, path, accept string, into any) error {
	return d.fetch(ctx, &request{method: http.MethodGet, path: path, accept: accept}, into)
}

// groupTimeout limits the reading of one version of a group, which an extension of the API server may answer.
const groupTimeout = 30 * time.Second

// GetVersion implements [discovery.Server]. Callers that need the groups that are broken ask again later.
func (d discovering) GetVersion(ctx context.Context, path string, into any) (unavailable, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, groupTimeout, fmt.Errorf("no answer in %s", groupTimeout))
	defer cancel()
	err = d.fetch(limited, &request{method: http.MethodGet, path: path, once: true}, into)
	var login *LoginError
	if err == nil || ctx.Err() != nil || errors.As(err, &login) {
		return nil, err
	}
	return err, nil
}

func (d discovering) fetch(ctx context.Context, r *request, into any) error {
	r.read = func(answer io.Reader) error {
		return apirequest.Unreadable(json.NewDecoder(&apirequest.Bounded{Answer: answer, Left: rawjson.MaxObject}).Decode(into))
	}
	err := d.client.do(ctx, r)
	if StatusCode(err) == http.StatusNotFound {
		return nil
	}
	return err
}

// serverVersion returns the version of the API server, such as "v1.34.1". It is empty where that cannot be read.
func (c *Client) serverVersion(ctx context.Context) string {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if (discovering{c}).fetch(ctx, &request{method: http.MethodGet, path: "/version", once: true}, &version) != nil {
		return ""
	}
	return version.GitVersion
}

// Resources returns all resources that the API server has now, but for those of groups that cannot be read. It fails if the groups themselves
// cannot be.
func (c *Client) Resources(ctx context.Context) ([]Resource, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	found, _, err := c.kinds.Read(ctx, discovering{c})
	var all []Resource
	for _, r := range found {
		all = append(all, Resource(r))
	}
	return all, err
}

// locateState decides where the state of the resources' objects is kept, and warns of those whose status would not keep it. It reports whether a
// schema is not published yet, which follows a definition with some delay.
func (o *observer) locateState(ctx context.Context, wanted map[string]*resolved) (warnings []string, unpublished bool) {
	settings, documents := &o.settings.Persistence, make(map[string][]byte)
	fields := settings.resolve(true).statusFields()
	for _, name := range rawjson.SortedKeys(wanted) {
		what, lost := wanted[name], kindschema.Obstacle{}
		if len(fields) > 0 && len(what.changes) > 0 {
			var known bool
			last, before := o.lost[name]
			if lost, known = o.lostField(ctx, what.resource, fields, documents); known {
				if o.lost[name] = lost; before && last == (kindschema.Obstacle{}) && lost != last {
					o.log.Warn("The schema of the status does not keep the state any more: objects whose state is there may count as new", "help", "K410", "resource", name,
						"hint", "undo the change of the schema, and move the state to annotations first")
				}
			} else if before {
				lost, unpublished = last, true // until the schema can be read again
			} else if documents[schemaPath(what.resource)] == nil {
				o.log.Debug("The schema cannot be read; leaving the state where it is until it can be", "resource", name)
				what.unread, unpublished = true, true
			} else {
				o.log.Debug("The schema is not published yet; keeping the state in annotations until then", "resource", name)
				lost, unpublished = noStatus, true
			}
			if known && lost != (kindschema.Obstacle{}) && savesRequests(what.resource) {
				warnings = append(warnings, lost.Warning(name))
			}
		}
		if len(what.reconciles) > 0 {
			warnings = append(warnings, what.reconciles[0].handler.reconcile.engine.locate(ctx, o, what, documents)...)
		}
		kept := lost == kindschema.Obstacle{}
		if what.persistence = settings.resolve(kept); kept && len(fields) > 0 {
			what.annotated = settings.resolve(false)
		}
	}
	return warnings, unpublished
}

// isBuiltin reports whether a resource is of Kubernetes itself, or of a group that only its developers define kinds for.
func isBuiltin(r Resource) bool {
	return !strings.Contains(r.Group, ".") || strings.HasSuffix(r.Group, ".k8s.io")
}

// savesRequests reports whether the state of a resource is worth keeping in the status: if that takes a request of its own, and can be made to keep it.
func savesRequests(r Resource) bool {
	return slices.Contains(r.Subresources, "status") && !isBuiltin(r)
}

// noStatus is the obstacle of kinds whose status is not looked at.
var noStatus = kindschema.Obstacle{Field: "status"}

// schemaPath returns the path of the document with the schema of a resource.
func schemaPath(r Resource) string { return kindschema.Path(url.PathEscape(r.Group), r.Version) }

// lostField returns why the status of a kind cannot have the fields, and whether that is known: not if the schema is not published. The documents are those
// that were read, by their paths, and nil for those that could not be.
func (o *observer) lostField(ctx context.Context, r Resource, fields [][]string, documents map[string][]byte) (lost kindschema.Obstacle, known bool) {
	if !strings.Contains(r.Group, ".") {
		return noStatus, true
	}
	path := schemaPath(r)
	if _, ok := documents[path]; !ok {
		ctx, cancel := context.WithTimeoutCause(ctx, groupTimeout, fmt.Errorf("no answer in %s", groupTimeout))
		defer cancel()
		err := o.client.do(ctx, &request{method: http.MethodGet, path: path, once: true, read: func(answer io.Reader) (err error) {
			documents[path], err = io.ReadAll(&apirequest.Bounded{Answer: answer, Left: rawjson.MaxObject})
			return err
		}})
		if StatusCode(err) == http.StatusForbidden && isBuiltin(r) {
			return noStatus, true
		} else if StatusCode(err) == http.StatusForbidden {
			o.log.Debug("Reading the schemas failed; assuming that the status keeps the state", "resource", r.Name(), "error", err)
			return lost, true
		} else if err != nil {
			documents[path] = nil // it is asked for again soon
		}
		if StatusCode(err) == http.StatusNotFound {
			documents[path] = []byte{}
		}
	}
	return kindschema.FirstObstacle(documents[path], r.Group, r.Version, r.Kind, fields)
}

// recommendStorage tells of the storage that takes fewer requests, if there are kinds that it may be for: those that are defined, with a status that takes a request of its own.
func (o *observer) recommendStorage() {
	_, records := o.settings.Persistence.smartProgress()
	_, states := o.settings.Persistence.smartDiffBase()
	if o.settings.Persistence.Storage != InAnnotations || !records || !states {
		return
	}
	var names []string
	for name, what := range o.wanted {
		if len(what.changes) > 0 && savesRequests(what.resource) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		o.log.Info("The state of objects is kept in annotations, as Kopf for Python does it. Where no such operator shares or takes over the objects, "+
			"Settings.Persistence.Storage = kopf.InStatus saves one of two requests, for kinds whose status keeps the field \"kopf\".", "resources", strings.Join(names, ","))
	}
}

// discoverer is what finds the resources.
type discoverer interface {
	// rediscover notes that a resource is not what it was.
	rediscover()
}
