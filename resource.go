package kopf

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/kindschema"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Resource is a kind of objects in one version of its API group, as the API server describes it.
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
	Namespaced   bool     // whether its objects have namespaces
	Preferred    bool     // whether the version is the preferred one of its group
}

// APIVersion returns "group/version", or the version alone in the core group.
func (r Resource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// hasStatus reports whether the status is a subresource.
func (r *Resource) hasStatus() bool { return slices.Contains(r.Subresources, "status") }

// typeMeta returns the type of the objects.
func (r Resource) typeMeta() *typeMeta { return &typeMeta{r.APIVersion(), r.Kind} }

// isVersionOf reports whether both have the same objects, perhaps in different versions.
func (r Resource) isVersionOf(o Resource) bool { return r.Group == o.Group && r.Plural == o.Plural }

// Name returns "plural.version.group", which is unique.
func (r Resource) Name() string {
	return strings.TrimSuffix(strings.Join([]string{r.Plural, r.Version, r.Group}, "."), ".")
}

// String returns [Resource.Name].
func (r Resource) String() string { return r.Name() }

// concealed replaces the contents of Secrets in texts.
const concealed = "concealed"

// loggable returns a value for the log, without the contents of Secrets.
func (r Resource) loggable(v any) any {
	if r.Group == "" && r.Plural == "secrets" {
		return concealed
	}
	return v
}

// URL returns the path of a collection, an object, or its subresource on the API server. Without a name, it is the collection. Without a namespace, it is
// that of all namespaces, or of a cluster-scoped kind.
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

// path is URL for names with any characters.
func (r Resource) path(namespace, name, subresource string) string {
	return r.URL(url.PathEscape(namespace), url.PathEscape(name), subresource)
}

// fieldManager is the default field manager of the client of the resource's handlers. It must never change, because a different one could not remove the
// fields.
func (r Resource) fieldManager() string {
	name := "kopf-" + strings.Trim(r.Plural+"."+r.Group, ".")
	return name[:min(len(name), 128)] // the limit of API servers
}

// Selector names the resources of a handler: "plural", "plural.group", "plural.version.group", "plural.version", "group/version/plural", "group/plural", or
// "v1/plural" for the core group. The kind, the singular, or a short name can replace the plural. "*" means all of a group or version, as in "*.v1.apps" or
// "apps/v1/*". Without a version, it means the preferred version of the group. If a name matches kinds in several groups, kopf serves the one of the core
// group. Without one in the core group, kopf logs a warning and serves none. See also [Kind], [Category] and [Everything]. Handlers have the option Where for
// other conditions, with which the selector may be empty.
type Selector string

// Everything selects all resources except Kubernetes events.
const Everything Selector = "*"

// Kind selects resources only by their kind. A version and a group may follow, as in "KopfExample.v1.kopf.dev".
func Kind(kind string) Selector { return Selector("kind:" + kind) }

// Category selects the resources of a category, such as "all".
func Category(category string) Selector { return Selector("category:" + category) }

// spec parses the selector.
func (s Selector) spec(where func(Resource) bool) (discovery.Selector, error) {
	if where == nil {
		return discovery.ParseSelector(string(s), nil)
	}
	return discovery.ParseSelector(string(s), func(r discovery.Resource) bool { return where(Resource(r)) })
}

// discover returns the resources of the given groups, or of all groups for nil. It omits and reports groups that cannot be read, because an aggregated API
// server is down.
func (c *Client) discover(ctx context.Context, groups []string) (found []discovery.Resource, broken map[string]error, err error) {
	return discovery.Read(ctx, discovering{c}, groups)
}

type discovering struct{ client *Client }

// Get implements [discovery.Server].
func (d discovering) Get(ctx context.Context, path, accept string, into any) error {
	return d.fetch(ctx, &request{method: http.MethodGet, path: path, accept: accept}, into)
}

// groupTimeout limits the request for one version of a group, which may be of an aggregated API server.
const groupTimeout = 30 * time.Second

// GetVersion implements [discovery.Server]. Callers retry for broken groups that they need.
func (d discovering) GetVersion(ctx context.Context, path string, into any) (unavailable, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, groupTimeout, fmt.Errorf("no answer in %s", groupTimeout))
	defer cancel()
	err = d.fetch(limited, &request{method: http.MethodGet, path: path, once: true}, into)
	var login *LoginError
	if err == nil || ctx.Err() != nil || errtype.As(err, &login) {
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

// serverVersion returns the version of the API server, such as "v1.34.1", or "" if it cannot be read.
func (c *Client) serverVersion(ctx context.Context) string {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if (discovering{c}).fetch(ctx, &request{method: http.MethodGet, path: "/version", once: true}, &version) != nil {
		return ""
	}
	return version.GitVersion
}

// Resources returns all current resources of the API server, except those of groups that cannot be read. It fails if the list of groups cannot be read.
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

// locateState selects the storage for the state of each resource's objects, and returns warnings if the status would drop it. It reports whether a schema is
// not published yet, because it follows a definition with some delay.
func (o *observer) locateState(ctx context.Context, wanted map[string]*resolved) (warnings []string, unpublished bool) {
	settings, documents := &o.settings.Persistence, make(map[string][]byte)
	inStatus := settings.resolve(true)
	for _, name := range rawjson.SortedKeys(wanted) {
		what, lost := wanted[name], kindschema.Obstacle{}
		fields := inStatus.statusFields()
		if len(what.reconciles) > 0 {
			fields = inStatus.allStatusFields()
		}
		if len(fields) > 0 && len(what.changes)+len(what.reconciles) > 0 {
			var known bool
			last, before := o.lost[name]
			if lost, known = o.lostField(ctx, what.resource, fields, documents); known {
				if o.lost[name] = lost; before && last == (kindschema.Obstacle{}) && lost != last {
					o.log.Warn("The schema of the status does not keep the state any more: objects whose state is there may count as new", "resource", name,
						"hint", "undo the change of the schema, and move the state to annotations first", "help", "K410")
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

// isBuiltin reports whether a resource is of Kubernetes itself, or of a reserved group.
func isBuiltin(r Resource) bool {
	return !strings.Contains(r.Group, ".") || strings.HasSuffix(r.Group, ".k8s.io")
}

// savesRequests reports whether storing state in the status saves requests, and the schema can be made to keep it.
func savesRequests(r Resource) bool {
	return r.hasStatus() && !isBuiltin(r)
}

// noStatus is the obstacle of kinds whose status is not checked.
var noStatus = kindschema.Obstacle{Field: "status"}

// schemaPath returns the path of the document with the schema of a resource.
func schemaPath(r Resource) string { return kindschema.Path(url.PathEscape(r.Group), r.Version) }

// lostField returns why the status of a kind cannot keep the fields. It reports whether that is known, which it is not before the schema is published. It
// caches the documents by path, nil for those that could not be read.
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
			documents[path] = nil // the next attempt follows soon
		}
		if StatusCode(err) == http.StatusNotFound {
			documents[path] = []byte{}
		}
	}
	return kindschema.FirstObstacle(documents[path], r.Group, r.Version, r.Kind, fields)
}

// recommendStorage logs a hint to store state in the status, if that would save requests for some kinds.
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
		o.log.Info("Storing the state of objects in annotations, which Kopf for Python can read", "resources", strings.Join(names, ","),
			"hint", "Settings.Persistence.Storage = kopf.InStatus saves one of two requests, unless an operator of Kopf for Python takes over the objects")
	}
}

type discoverer interface {
	// rediscover requests a discovery.
	rediscover()
}
