package kopf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/rights"
)

// GetOptions are the options of [Client.Get]. Nil means the defaults.
type GetOptions struct {
	Subresource string // such as "status" or "scale"
}

// WriteOptions are the options of [Client.Create], [Client.Update] and [Client.Apply]. Nil means the defaults.
type WriteOptions struct {
	Subresource  string // such as "status" or "scale"
	FieldManager string // the owner of the fields. Defaults as described at [Client.Apply]
	Force        bool   // whether an apply takes over fields of other managers
	DryRun       bool   // whether the API server only validates
	// Of is the APIVersion and Kind of the object with the Subresource, if the sent object has another kind: the Pod of an Eviction, or the Deployment of a
	// Scale. Name and namespace are those of the sent object.
	Of ObjectReference
}

// PatchType is the format of a patch, as its media type.
type PatchType string

// The kinds of patches that API servers understand. StrategicMergePatch is for built-in kinds only.
const (
	MergePatch          PatchType = "application/merge-patch+json"           // RFC 7396: maps are merged, null removes, other values replace
	JSONPatch           PatchType = "application/json-patch+json"            // RFC 6902: a list of operations
	StrategicMergePatch PatchType = "application/strategic-merge-patch+json" // as a merge patch, with lists merged by their keys
	ApplyPatch          PatchType = "application/apply-patch+yaml"           // server-side apply: exactly the fields that the manager wants
)

// PatchOptions are the options of [Client.Patch]. Nil means the defaults.
type PatchOptions struct {
	Type         PatchType // defaults to [MergePatch]
	Subresource  string    // such as "status" or "scale"
	FieldManager string    // the owner of the fields. Defaults as described at [Client.Apply]
	Force        bool      // whether an [ApplyPatch] takes over fields of other managers
	DryRun       bool      // whether the API server only validates
}

// DeleteOptions are the options of [Client.Delete]. Nil means the defaults.
type DeleteOptions struct {
	GracePeriod     *time.Duration // rounded up to whole seconds; nil means the default of the kind
	Propagation     string         // for dependents: "Background", "Foreground" or "Orphan"; "" means the default of the kind
	UID             string         // delete only the object with this UID
	ResourceVersion string         // delete only this version
	DryRun          bool           // whether the API server only validates
}

// ListOptions are the options of [Client.List] and [Client.Watch]. Nil means the defaults.
type ListOptions struct {
	Namespace     string // "" means all
	LabelSelector string // as for kubectl, such as "app=web,tier!=cache"
	FieldSelector string // such as "metadata.name=web"
	PageSize      int    // the number of objects in a request. Defaults to 500
	// ResourceVersion is the state after which a watch starts. Without it, a watch first yields the existing objects as Added.
	ResourceVersion string
}

func (o *ListOptions) query() url.Values {
	q := url.Values{}
	if o.LabelSelector != "" {
		q.Set("labelSelector", o.LabelSelector)
	}
	if o.FieldSelector != "" {
		q.Set("fieldSelector", o.FieldSelector)
	}
	return q
}

// ReferenceOf returns the reference to an object: a [Body], a map, or a struct such as those of client-go. It also takes an [ObjectReference], or a [Resource],
// whose reference has no name. It fails without an apiVersion or a kind, so structs of client-go need their TypeMeta.
func ReferenceOf(object any) (ObjectReference, error) {
	var ref ObjectReference
	switch o := object.(type) {
	case ObjectReference:
		ref = o
	case *ObjectReference:
		if o != nil {
			ref = *o
		}
	case Resource:
		ref = ObjectReference{APIVersion: o.APIVersion(), Kind: o.Kind}
	default:
		body, ok := object.(*Body)
		if !ok {
			var err error
			if body, err = NewBody(object); err != nil {
				return ref, fmt.Errorf("refer to a %T: %w", object, err)
			}
		}
		if body != nil {
			ref = body.Reference()
			ref.Name = body.Name() // without generateName
		}
	}
	return ref, apirequest.CheckType(ref.APIVersion, ref.Kind, object)
}

// Get reads an object into a *Body, a *map[string]any, or a pointer to a struct, and replaces the whole value. The argument of identifies the object. It is an
// [ObjectReference] or anything else that [ReferenceOf] takes. A missing object is an [APIError] with the code 404. See [IgnoreNotFound].
func (c *Client) Get(ctx context.Context, of, into any, opts *GetOptions) error {
	if err := apirequest.CheckTarget(into); err != nil {
		return err
	}
	o := optionsOf(opts)
	body, err := c.bodyOf(ctx, of, o.Subresource, &request{method: http.MethodGet})
	if err != nil {
		return err
	}
	return store(body, into)
}

// List yields the objects of a kind, page by page. The kind and the default of the namespace are those of an [ObjectReference], of a [Resource], or of anything
// else that [ReferenceOf] takes. It reads each page completely before it yields the objects, so the loop can be slow and send requests. API servers keep the
// state of a list for some minutes. If it has expired before the next page, List begins again, and yields each object that it has not yielded yet, in its present
// state. It ends after the first error.
func (c *Client) List(ctx context.Context, of any, opts *ListOptions) iter.Seq2[*Body, error] {
	o := optionsOf(opts)
	return func(yield func(*Body, error) bool) {
		err := c.withKind(ctx, of, &o, func(r Resource) error { return c.listPages(ctx, r, &o, yield) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// Watch yields the changes of the objects of a kind, which is given as for [Client.List]. It ends with the context, with an error, or when the API server ends
// it. If the ResourceVersion is too old, the error is an [APIError] with the code 410. When the client gets new credentials, a watch with a ResourceVersion
// continues. One without ends with an error, because it could miss deletions.
func (c *Client) Watch(ctx context.Context, of any, opts *ListOptions) iter.Seq2[RawEvent, error] {
	o := optionsOf(opts)
	return func(yield func(RawEvent, error) bool) {
		err := c.withKind(ctx, of, &o, func(r Resource) error {
			q := o.query()
			if o.ResourceVersion != "" {
				q.Set("resourceVersion", o.ResourceVersion)
			}
			return c.watch(ctx, r, o.Namespace, q, func(ev RawEvent) error {
				if ev.Type != bookmark && !yield(ev, nil) {
					return errStopped
				}
				return nil
			})
		})
		if err != nil && !errors.Is(err, errStopped) && ctx.Err() == nil {
			yield(RawEvent{}, err)
		}
	}
}

// Create creates an object from a map, a *Body, or a pointer to a struct, and stores the answer of the API server there. With a Subresource, it posts to that,
// such as the "eviction" of a pod. See [WriteOptions]. An object that exists is an [APIError] with the code 409.
func (c *Client) Create(ctx context.Context, object any, opts *WriteOptions) error {
	return c.write(ctx, http.MethodPost, object, opts)
}

// Update replaces an object, and stores the answer of the API server in it. If it has a resourceVersion that differs from the stored one, the error is an
// [APIError] with the code 409.
func (c *Client) Update(ctx context.Context, object any, opts *WriteOptions) error {
	return c.write(ctx, http.MethodPut, object, opts)
}

// Apply sets the given fields of an object by server-side apply. It creates a missing object, and stores the answer of the API server in the object. It removes
// fields that its field manager applied before and now leaves out. Fields of other managers are conflicts, with the code 409, unless Force is set.
//
// In handlers of objects, the default FieldManager is "kopf-" with the plural and the group of the handled kind, such as "kopf-kopfexamples.kopf.dev".
// Elsewhere you must set one, because two operators with the same manager would remove each other's fields. Other writes have "kopf" there. See
// https://kubernetes.io/docs/reference/using-api/server-side-apply/
func (c *Client) Apply(ctx context.Context, object any, opts *WriteOptions) error {
	return c.write(ctx, http.MethodPatch, object, opts)
}

func (c *Client) write(ctx context.Context, method string, object any, opts *WriteOptions) error {
	o := optionsOf(opts)
	if err := apirequest.CheckTarget(object); err != nil {
		return err
	}
	body, err := NewBody(object)
	if err != nil {
		return fmt.Errorf("encode the %T: %w", object, err)
	}
	ref := body.Reference()
	if o.Of.Kind != "" {
		ref.APIVersion, ref.Kind = o.Of.APIVersion, o.Of.Kind
	}
	if err := apirequest.CheckType(ref.APIVersion, ref.Kind, object); err != nil {
		return err
	}
	q, err := c.writeQuery(o.FieldManager, o.DryRun, method == http.MethodPatch)
	if err != nil {
		return err
	}
	r := &request{method: method, query: q, body: body.raw, contentType: "application/json"}
	if ref.Name == "" && (method != http.MethodPost || o.Subresource != "") {
		return fmt.Errorf("invalid name \"\" of the %s: want that of the object", ref.Kind)
	}
	if method == http.MethodPatch {
		r.contentType = string(ApplyPatch)
		q.Set("force", strconv.FormatBool(o.Force))
	}
	var answer *Body
	end := c.beginWrite(o.Subresource, o.DryRun)
	defer func() { end(answer) }()
	err = c.withPath(ctx, ref, o.Subresource, r, func() (err error) { answer, err = c.body(ctx, r); return err })
	if err != nil {
		return err
	}
	return store(answer, object)
}

// defaultManager is the field manager of writes outside of handlers without another one. kopf's own writes use that of the User-Agent.
const defaultManager = "kopf"

// writeQuery returns the parameters of a write. An apply needs a distinct manager, because it removes fields that the manager applied before and now leaves
// out.
func (c *Client) writeQuery(manager string, dryRun, apply bool) (url.Values, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	manager = cmp.Or(manager, c.manager)
	if manager == "" && apply {
		return nil, errors.New("invalid options of an apply: want a FieldManager, who is to own the fields, outside of handlers of objects")
	}
	q := url.Values{"fieldManager": {cmp.Or(manager, defaultManager)}}
	if dryRun {
		q.Set("dryRun", "All")
	}
	return q, nil
}

// Patch patches an object, which is given as for [Client.Get], and returns the patched object. The patch is anything that encoding/json encodes, or a
// [json.RawMessage]. The default Type is a merge patch, such as a map or a struct. A JSON patch is a list of [PatchOperation]. A missing object is an
// [APIError] with the code 404.
func (c *Client) Patch(ctx context.Context, of, patch any, opts *PatchOptions) (*Body, error) {
	o := optionsOf(opts)
	if o.Type == "" {
		o.Type = MergePatch
	}
	data, err := rawjson.Encode(patch)
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	q, err := c.writeQuery(o.FieldManager, o.DryRun, o.Type == ApplyPatch)
	if err != nil {
		return nil, err
	}
	if o.Type == ApplyPatch {
		q.Set("force", strconv.FormatBool(o.Force))
	}
	end := c.beginWrite(o.Subresource, o.DryRun)
	b, err := c.bodyOf(ctx, of, o.Subresource, &request{method: http.MethodPatch, query: q, contentType: string(o.Type), body: data})
	end(b)
	return b, err
}

// Delete deletes an object, which is given as for [Client.Get]. Finalizers block the deletion: the API server then only marks the object. A missing object is
// an [APIError] with the code 404. See [IgnoreNotFound].
func (c *Client) Delete(ctx context.Context, of any, opts *DeleteOptions) error {
	o := optionsOf(opts)
	ref, err := namedReference(of)
	if err != nil {
		return err
	}
	data, err := (*apirequest.DeleteOptions)(&o).Encode()
	if err != nil {
		return err
	}
	r := &request{method: http.MethodDelete, body: data, contentType: "application/json"}
	if c == nil || c.writes == nil || o.DryRun {
		return c.withPath(ctx, ref, "", r, func() error { return c.do(ctx, r) })
	}
	r.read = func(answer io.Reader) error { // an object with finalizers, or a Status
		data, _ := io.ReadAll(&apirequest.Bounded{Answer: answer, Left: rawjson.MaxObject}) // it is deleted even if the rest is lost
		ref.UID = cmp.Or(rawjson.StringAt(data, "metadata", "uid"), rawjson.StringAt(data, "details", "uid"))
		return apirequest.Confirm(bytes.NewReader(data))
	}
	if err = c.withPath(ctx, ref, "", r, func() error { return c.do(ctx, r) }); err == nil && ref.UID != "" {
		c.writes.noteDeleted(ref)
	}
	return err
}

// kindOf returns the resource to list, and completes the options.
func (c *Client) kindOf(ctx context.Context, of any, o *ListOptions) (Resource, error) {
	ref, err := ReferenceOf(of)
	if err != nil {
		return Resource{}, err
	}
	o.Namespace = cmp.Or(o.Namespace, ref.Namespace)
	r, err := c.resolve(ctx, ref.APIVersion, ref.Kind)
	if err != nil {
		return r, err
	}
	return r, apirequest.CheckSegment("a namespace", o.Namespace)
}

// withKind lists or watches a resource. It repeats the request once if the kind has been redefined since its discovery.
func (c *Client) withKind(ctx context.Context, of any, o *ListOptions, send func(Resource) error) error {
	r, err := c.kindOf(ctx, of, o)
	if err != nil {
		return err
	}
	if err = c.namesMissing(send(r)); !isUnknownPath(err) {
		return err
	}
	c.kinds.Forget(r.APIVersion(), r.Kind)
	again, unknown := c.kindOf(ctx, of, o)
	if unknown != nil || again.URL(o.Namespace, "", "") == r.URL(o.Namespace, "", "") {
		return err
	}
	return send(again)
}

// withPath sends a request about an object to its URL. It repeats the request once at the new URL if the kind has been redefined with another plural or
// scope.
func (c *Client) withPath(ctx context.Context, ref ObjectReference, subresource string, r *request, send func() error) (err error) {
	if r.path, err = c.path(ctx, r.method, ref, subresource); err != nil {
		return err
	}
	if err = c.namesMissing(send()); !isUnknownPath(err) {
		return err
	}
	c.kinds.Forget(ref.APIVersion, ref.Kind)
	again, unknown := c.path(ctx, r.method, ref, subresource)
	if unknown != nil || again == r.path {
		return err
	}
	r.path = again
	return send()
}

// namesMissing logs the missing permission of a refused request, and returns the error.
func (c *Client) namesMissing(err error) error {
	if StatusCode(err) != http.StatusForbidden || isDenied(err) {
		return err
	}
	if line := rights.Missing(err.Error()); line != "" {
		c.log.Warn("The roles of the operator lack a permission that a handler needs", "hint", "add "+line+" next to the handler, and make the manifests again", "help", "K122")
	}
	return err
}

// bodyOf sends a request about a named object, and returns the object.
func (c *Client) bodyOf(ctx context.Context, of any, subresource string, r *request) (b *Body, err error) {
	ref, err := namedReference(of)
	if err != nil {
		return nil, err
	}
	err = c.withPath(ctx, ref, subresource, r, func() (err error) { b, err = c.body(ctx, r); return err })
	return b, err
}

// isUnknownPath reports whether a server refuses the URL itself. For a missing object, the error has its name.
func isUnknownPath(err error) bool {
	var api *APIError
	if !errtype.As(err, &api) || api.denied() {
		return false
	}
	return api.Code == http.StatusMethodNotAllowed || api.Code == http.StatusNotFound && api.Name == ""
}

// namedReference returns the reference to one object. It requires a name, because a deletion without one would delete the collection.
func namedReference(of any) (ObjectReference, error) {
	ref, err := ReferenceOf(of)
	if err == nil && ref.Name == "" {
		err = fmt.Errorf("invalid name \"\" of the %s: want that of the object", ref.Kind)
	}
	return ref, err
}

// path returns the URL of an object. For a creation, it is that of the collection, because the object has the name or gets a generated one.
func (c *Client) path(ctx context.Context, method string, ref ObjectReference, subresource string) (string, error) {
	r, err := c.resolve(ctx, ref.APIVersion, ref.Kind)
	if err != nil {
		return "", err
	}
	if r.Namespaced && ref.Namespace == "" {
		want := "want that of the object"
		if method == http.MethodPost && subresource == "" {
			want = "want metadata.namespace, which Adopt sets to that of the owner"
		}
		return "", fmt.Errorf("invalid namespace \"\" of the %s %q: %s", ref.Kind, ref.Name, want)
	}
	if method == http.MethodPost && subresource == "" {
		ref.Name = ""
	}
	if err := errors.Join(apirequest.CheckSegment("an object", ref.Name), apirequest.CheckSegment("a namespace", ref.Namespace)); err != nil {
		return "", err
	}
	return r.path(ref.Namespace, ref.Name, subresource), nil
}

// resolve finds the resource of a kind. It discovers unknown kinds.
func (c *Client) resolve(ctx context.Context, apiVersion, kind string) (Resource, error) {
	if err := c.check(); err != nil {
		return Resource{}, err
	}
	r, err := c.kinds.Resolve(ctx, discovering{c}, apiVersion, kind)
	return Resource(r), err
}

// store stores a response in the caller's target.
func store(body *Body, into any) error {
	switch v := into.(type) {
	case nil:
		return nil
	case *Body:
		*v = *body
		return nil
	case **Body:
		*v = body
		return nil
	case map[string]any:
		clear(v)
		maps.Copy(v, body.Map())
		return nil
	case *map[string]any:
		*v = body.Map()
		return nil
	}
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer {
		return body.Decode(into) // its error describes the problem
	}
	target := reflect.New(v.Type().Elem()) // without former contents of the caller's map
	err := body.Decode(target.Interface())
	if err == nil {
		v.Elem().Set(target.Elem())
	}
	return err
}

// errStopped ends a list or a watch whose caller has stopped the loop.
var errStopped = errors.New("stopped")

// list passes on the objects of a resource as they arrive, in pages unless the size is zero.
func (c *Client) list(ctx context.Context, r Resource, namespace string, query url.Values, pageSize int, once bool, yield func(*Body) bool) error {
	meta := r.typeMeta()
	page := &rawjson.ListPage{Take: func(o *rawjson.Header, raw []byte) error {
		if !yield(listedBody(o, raw, meta)) {
			return errStopped
		}
		return nil
	}}
	pages := pager{client: c, path: r.path(namespace, "", ""), query: query, size: pageSize, once: once, page: page}
	err := pages.next(ctx)
	for err == nil && page.Next != "" {
		err = pages.next(ctx)
	}
	return err
}

// pager requests the pages of a list for callers that read only the headers first. It reuses the buffer.
type pager struct {
	client *Client
	path   string
	query  url.Values
	size   int // of a page; zero means one page
	once   bool
	page   *rawjson.ListPage
}

// next reads the first page, or the following one.
func (p *pager) next(ctx context.Context) error {
	if p.page.Next != "" {
		p.query.Set("continue", p.page.Next)
	}
	return p.client.page(ctx, p.path, p.query, p.size, func(answer io.Reader) error {
		err := p.page.Read(answer)
		if err != nil && p.page.Taken {
			return fmt.Errorf("%w: %w", apirequest.ErrInterrupted, err) // repeating would yield objects twice
		}
		return err
	}, p.once)
}

// listPages yields objects while no request is under way. If the server no longer has the state
// of the list, because the loop is slow, it lists again, and leaves out the objects that it has yielded.
func (c *Client) listPages(ctx context.Context, r Resource, o *ListOptions, yield func(*Body, error) bool) error {
	q, seen := o.query(), map[string]bool{}
	for progress := false; ; {
		items, next, err := c.readPage(ctx, r, o, q)
		if StatusCode(err) == http.StatusGone && q.Has("continue") && progress {
			q.Del("continue")
			progress = false
			continue
		} else if err != nil {
			return err
		}
		for _, b := range items {
			key := strings.Clone(cmp.Or(b.uid, b.namespace+"/"+b.name)) // keeps no body in memory
			if seen[key] {
				continue
			}
			seen[key], progress = true, true
			if !yield(b, nil) {
				return errStopped
			}
		}
		if next == "" {
			return nil
		}
		q.Set("continue", next)
	}
}

// readPage reads one page completely, and returns its objects with the token of the next page.
func (c *Client) readPage(ctx context.Context, r Resource, o *ListOptions, q url.Values) (items []*Body, next string, err error) {
	meta := r.typeMeta()
	page := &rawjson.ListPage{Take: func(o *rawjson.Header, raw []byte) error {
		items = append(items, listedBody(o, raw, meta))
		return nil
	}}
	read := func(answer io.Reader) error {
		items = nil // the page begins, perhaps repeated
		return page.Read(answer)
	}
	err = c.page(ctx, r.path(o.Namespace, "", ""), q, cmp.Or(o.PageSize, 500), read, false)
	return items, page.Next, err
}

// page requests one page.
func (c *Client) page(ctx context.Context, path string, query url.Values, size int, read func(io.Reader) error, once bool) error {
	if size > 0 {
		query.Set("limit", strconv.Itoa(size))
	}
	return c.do(ctx, &request{method: http.MethodGet, path: path, query: query, once: once, read: read})
}

// listedBody returns the body of a list item, with a copy of the bytes. It adds kind and APIVersion, which most items lack.
func listedBody(o *rawjson.Header, raw []byte, meta *typeMeta) *Body {
	if o.APIVersion.To+o.Kind.To > 0 || o.Metadata.To == 0 || raw[0] != '{' {
		return outlined(o, bytes.Clone(raw[:o.End]), 0).typed(meta.apiVersion, meta.kind)
	}
	head := `{"apiVersion":"` + meta.apiVersion + `","kind":"` + meta.kind + `"`
	data := append(append(append(make([]byte, 0, len(head)+o.End), head...), ','), raw[1:o.End]...)
	b := outlined(o, data, len(head))
	b.apiVersion, b.kind = meta.apiVersion, meta.kind
	return b
}
