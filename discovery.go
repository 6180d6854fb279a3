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
	"github.com/kopf-go/kopf/internal/kindschema"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file asks the API server which resources it has: in two requests where it offers that, else in one
// for each version of each group.

const aggregatedDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

// discover returns the resources of the given groups, or of all groups if none are given at all (nil). Groups that cannot be read
// now, because an extension of the API server is down, are left out and reported.
func (c *Client) discover(ctx context.Context, groups []string) (found []Resource, broken map[string]error, err error) {
	d := &discovery{client: c, groups: groups, broken: make(map[string]error)}
	if d.wants("") {
		if err := d.read(ctx, "/api"); err != nil {
			return nil, nil, err
		}
	}
	if groups == nil || slices.ContainsFunc(groups, func(g string) bool { return g != "" }) {
		if err := d.read(ctx, "/apis"); err != nil {
			return nil, nil, err
		}
	}
	return d.found, d.broken, nil
}

// discovery is one reading of what there is.
type discovery struct {
	client *Client
	groups []string
	found  []Resource
	broken map[string]error
}

func (d *discovery) wants(group string) bool {
	return d.groups == nil || slices.Contains(d.groups, group)
}

// get reads a document. That there is none is no error: the answer is empty then.
func (d *discovery) get(ctx context.Context, path, accept string, into any) error {
	return d.fetch(ctx, &request{method: http.MethodGet, path: path, accept: accept}, into)
}

func (d *discovery) fetch(ctx context.Context, r *request, into any) error {
	r.read = func(answer io.Reader) error {
		return apirequest.Unreadable(json.NewDecoder(&apirequest.Bounded{Answer: answer, Left: rawjson.MaxObject}).Decode(into))
	}
	err := d.client.do(ctx, r)
	if StatusCode(err) == http.StatusNotFound {
		return nil
	}
	return err
}

func (d *discovery) read(ctx context.Context, path string) error {
	var doc apirequest.GroupsDocument
	if err := d.get(ctx, path, aggregatedDiscovery, &doc); err != nil {
		return err
	}
	switch doc.Kind {
	case "APIGroupDiscoveryList":
		for _, group := range doc.Items {
			if d.wants(group.Metadata.Name) {
				for i, v := range group.Versions {
					d.aggregated(group.Metadata.Name, v, i == 0 || group.Metadata.Name == "")
				}
			}
		}
	case "APIVersions":
		for _, version := range doc.Versions {
			if err := d.version(ctx, "", version, true); err != nil {
				return err
			}
		}
	default:
		for _, group := range doc.Groups {
			for _, v := range group.Versions {
				if !d.wants(group.Name) {
					continue
				}
				if err := d.version(ctx, group.Name, v.Version, v.Version == group.PreferredVersion.Version); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (d *discovery) aggregated(group string, v apirequest.AggregatedVersion, preferred bool) {
	if v.Freshness == "Stale" && len(v.Resources) == 0 {
		d.broken[group] = fmt.Errorf("version %q is not available", v.Version)
		return
	}
	for _, r := range v.Resources {
		found := Resource{
			Group: group, Version: v.Version, Plural: r.Resource, Kind: r.ResponseKind.Kind, Singular: r.SingularResource,
			ShortNames: r.ShortNames, Categories: r.Categories, Verbs: r.Verbs, Namespaced: r.Scope == "Namespaced", Preferred: preferred,
		}
		for _, sub := range r.Subresources {
			found.Subresources = append(found.Subresources, sub.Subresource)
		}
		d.add(found)
	}
}

// add takes in a resource, unless its name is none that objects could be asked for by.
func (d *discovery) add(r Resource) {
	if r.Plural == "" || strings.Contains(r.Plural, "/") {
		return
	}
	if r.Singular == "" {
		r.Singular = strings.ToLower(r.Kind)
	}
	d.found = append(d.found, r)
}

// groupTimeout limits the reading of one version of a group, which an extension of the API server may answer.
const groupTimeout = 30 * time.Second

// group reads a version of a group that others need not suffer from: it is asked once, and for no longer than that.
// Callers that need the groups that are broken ask again later.
func (d *discovery) group(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, groupTimeout, fmt.Errorf("no answer in %s", groupTimeout))
	defer cancel()
	return d.fetch(ctx, &request{method: http.MethodGet, path: path, once: true}, into)
}

// version reads one version of a group in the classic form.
func (d *discovery) version(ctx context.Context, group, version string, preferred bool) error {
	path, get := "/apis/"+url.PathEscape(group)+"/"+url.PathEscape(version), d.group
	if group == "" {
		path = "/api/" + version
		get = func(ctx context.Context, path string, into any) error { return d.get(ctx, path, "", into) }
	}
	var doc struct {
		Resources []struct {
			Name, SingularName, Kind      string
			Namespaced                    bool
			ShortNames, Categories, Verbs []string
		}
	}
	if err := get(ctx, path, &doc); err != nil {
		var login *LoginError
		if group == "" || ctx.Err() != nil || errors.As(err, &login) {
			return err
		}
		d.broken[group] = err
		return nil
	}
	subresources := make(map[string][]string)
	for _, r := range doc.Resources {
		if name, sub, ok := strings.Cut(r.Name, "/"); ok {
			subresources[name] = append(subresources[name], sub)
		}
	}
	for _, r := range doc.Resources {
		if !strings.Contains(r.Name, "/") {
			d.add(Resource{
				Group: group, Version: version, Plural: r.Name, Kind: r.Kind, Singular: r.SingularName, ShortNames: r.ShortNames,
				Categories: r.Categories, Verbs: r.Verbs, Namespaced: r.Namespaced, Preferred: preferred, Subresources: subresources[r.Name],
			})
		}
	}
	return nil
}

// serverVersion returns the version of the API server, such as "v1.34.1". It is empty where that cannot be read.
func (c *Client) serverVersion(ctx context.Context) string {
	d := discovery{client: c}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if d.fetch(ctx, &request{method: http.MethodGet, path: "/version", once: true}, &version) != nil {
		return ""
	}
	return version.GitVersion
}

// Resources returns all resources that the API server has now, but for those of groups that cannot be read. It fails if the groups themselves
// cannot be.
func (c *Client) Resources(ctx context.Context) ([]Resource, error) {
	found, _, err := c.rediscover(ctx)
	return slices.Clone(found), err
}

// rediscover reads which resources there are, for those who name objects by kind.
func (c *Client) rediscover(ctx context.Context) (found []Resource, broken map[string]error, err error) {
	found, broken, err = c.discover(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resources = found
	return found, broken, nil
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
					o.log.Warn("The schema of the status does not keep the state any more: objects whose state is there may count as new", "resource", name,
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
