package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/managedfields"
	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func (a *apiRequest) create(w http.ResponseWriter, r *http.Request) error {
	object, err := a.decode()
	if err != nil {
		return err
	}
	if a.kind.postedOnly || a.subresource != "" {
		return a.post(w, r, object)
	}
	if err := a.strict(object); err != nil {
		return err
	}
	return a.answerNew(w, r, object)
}

// answerNew creates an object, and answers with it.
func (a *apiRequest) answerNew(w http.ResponseWriter, r *http.Request, object map[string]any) error {
	raw, code, err := a.createObject(object, false)
	if err != nil {
		return err
	}
	return a.answerItem(w, r, code, raw)
}

// post answers requests for kinds that are not stored.
func (a *apiRequest) post(w http.ResponseWriter, r *http.Request, object map[string]any) error {
	if strings.HasSuffix(a.kind.resource.Plural, "reviews") {
		if err := a.review(object); err != nil {
			return err
		}
	}
	if err := a.checkSupport(object); err != nil {
		return err
	}
	switch a.kind.resource.Plural {
	case "pods":
		if a.subresource == "eviction" {
			return a.postEviction(w, r, object)
		}
		return a.answerBinding(w, r, object)
	case "bindings":
		return a.answerBinding(w, r, object)
	case "serviceaccounts":
		if meta := mapAt(object, "metadata"); meta["name"] == nil {
			meta["name"] = a.name
		}
		if err := a.admitPosted("authentication.k8s.io", "v1", "TokenRequest", object); err != nil {
			return err
		}
		if err := a.completeToken(object); err != nil {
			return err
		}
	}
	if object["metadata"] == nil {
		object["metadata"] = map[string]any{}
	}
	kind := a.kind.subresourceKind(a.subresource)
	object["kind"], object["apiVersion"] = kind.Kind, kind.APIVersion()
	a.warn(w)
	a.server.write(w, r, 201, object)
	return nil
}

// createObject stores a new object, unless it is a dry run. The managedFields of applied objects
// are set already.
func (a *apiRequest) createObject(object map[string]any, applied bool) (raw []byte, code int, err error) {
	defer a.release()
	if err := a.prepareNew(object, applied); err != nil {
		return nil, 0, err
	}
	if a.kind.terminating {
		return nil, 0, a.kind.forbidden(a.name, "create not allowed while custom resource definition is terminating")
	}
	if err := a.admitBuiltin(nil, object); err != nil {
		return nil, 0, err
	}
	status, meta := object["status"], rawjson.AsMap(object["metadata"])
	if err := a.admit(nil, object, true); err != nil {
		return nil, 0, err
	}
	if now := rawjson.AsMap(object["metadata"]); meta["generation"] != nil { // a webhook may have set another one
		now["generation"] = meta["generation"]
	}
	if a.dropsStatus() { // as a webhook has set it
		if delete(object, "status"); status != nil {
			object["status"] = status
		}
	}
	a.name = unstructured.Text(rawjson.AsMap(object["metadata"]), "name") // which a webhook may have changed
	if err := a.complete(nil, object, applied); err != nil {
		return nil, 0, err
	}
	if err := a.admit(nil, object, false); err != nil {
		return nil, 0, err
	}
	return a.storeNew(object)
}

// maxGenerated is the length to which a prefix is cut in a generated name, which adds five characters.
const maxGenerated = 58

// prepareNew sets the metadata that the server controls, checks the namespace, and adds the manager of the fields.
func (a *apiRequest) prepareNew(object map[string]any, applied bool) error {
	meta := rawjson.AsMap(object["metadata"])
	if meta == nil {
		meta = make(map[string]any)
		object["metadata"] = meta
	}
	if err := a.place(meta); err != nil {
		return err
	}
	name := unstructured.Text(meta, "name")
	if prefix, _ := meta["generateName"].(string); name == "" && prefix != "" {
		name = prefix[:min(len(prefix), maxGenerated)] + a.server.suffix()
		meta["name"] = name
	}
	a.name = name
	if err := a.checkNamespace(); err != nil {
		return err
	}
	delete(meta, "selfLink")
	if !applied {
		for _, key := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"} {
			delete(meta, key)
		}
		a.fit(object)
	}
	types.Named("ObjectMeta").Decode(meta)
	fits := applied || a.managed().TypeError(object, true) == ""
	if a.dropsStatus() && a.subresource == "" {
		delete(object, "status")
	}
	a.kind.initialize(object)
	if !applied && fits {
		managedfields.Update(nil, object, a.managed())
	}
	if a.dropsStatus() && a.subresource == "status" { // it is not stored, and has a manager all the same
		delete(object, "status")
	}
	meta["uid"] = a.server.newUID()
	meta["creationTimestamp"] = unstructured.Timestamp(time.Now())
	if a.kind.generation {
		meta["generation"] = json.Number("1")
	}
	return nil
}

// dropsStatus reports whether the status of a new object is not that of its creator.
func (a *apiRequest) dropsStatus() bool {
	return a.kind.hasStatus && !a.kind.is("nodes", "") // whose status is stored with them
}

// namespaceLabel is the label that contains the name of each namespace.
const namespaceLabel = "kubernetes.io/metadata.name"

// initialize sets the fields that the server adds to new objects of built-in kinds.
func (k *kindInfo) initialize(object map[string]any) {
	meta := rawjson.AsMap(object["metadata"])
	name := unstructured.Text(meta, "name")
	switch k.resource.Plural + "." + k.resource.Group {
	case "namespaces.":
		mapAt(meta, "labels")[namespaceLabel] = name
		spec := mapAt(object, "spec")
		if finalizers, _ := spec["finalizers"].([]any); !slices.Contains(finalizers, any(namespaceFinalizer)) {
			spec["finalizers"] = append(finalizers, namespaceFinalizer)
		}
		object["status"] = map[string]any{"phase": "Active"}
	case "certificatesigningrequests.certificates.k8s.io":
		user := userInfo()
		spec := mapAt(object, "spec")
		spec["username"], spec["groups"] = user["username"], user["groups"]
	case "customresourcedefinitions.apiextensions.k8s.io":
		defaultDefinition(object)
		object["status"] = map[string]any{"acceptedNames": map[string]any{"kind": "", "plural": ""}, "conditions": nil}
		addStoredVersion(object)
	}
}

// encodeStringData moves the stringData of a secret to its data.
func encodeStringData(object map[string]any) {
	plain := rawjson.AsMap(object["stringData"])
	if plain == nil {
		return
	}
	data := rawjson.AsMap(object["data"])
	if data == nil {
		data = make(map[string]any)
		object["data"] = data
	}
	for key, v := range plain {
		text, _ := v.(string)
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(object, "stringData")
}

// checkNamespace refuses creations in a namespace that does not exist or is terminating.
func (a *apiRequest) checkNamespace() error {
	if !a.kind.resource.Namespaced {
		return nil
	}
	spaces := a.server.kindOf("v1", "Namespace")
	i := a.server.db.Get(spaces.collection(), a.namespace)
	if i == nil {
		return spaces.notFound(a.namespace)
	}
	if unstructured.View(i.Raw).Has("metadata.deletionTimestamp") {
		e := apierrors.New(403, "Forbidden", fmt.Sprintf("%s %q is forbidden: unable to create new content in namespace %s because it is being terminated",
			a.kind.groupResource(), a.name, a.namespace), a.kind.about(a.name))
		e.Details["retryAfterSeconds"] = json.Number("1")
		e.Details["causes"] = []any{apierrors.Cause("NamespaceTerminating", "namespace "+a.namespace+" is being terminated", "metadata.namespace")}
		return e
	}
	return nil
}

func (a *apiRequest) storeNew(object map[string]any) ([]byte, int, error) {
	meta := rawjson.AsMap(object["metadata"])
	if version, err := strconv.ParseUint(unstructured.Text(meta, "resourceVersion"), 10, 64); err == nil && version != 0 && !a.dryRun {
		return nil, 0, apierrors.New(500, "", "resourceVersion should not be set on objects to be created", nil)
	}
	if err := a.toStorage(object); err != nil {
		return nil, 0, err
	}
	if old := a.server.db.Get(a.kind.collection(), a.key()); old != nil {
		e := a.kind.alreadyExists(a.name)
		if meta["generateName"] != nil && a.verb == "create" {
			e.Message += ", the server was not able to generate a unique name for the object"
			e.Details["retryAfterSeconds"] = json.Number("1")
		}
		if unstructured.View(old.Raw).Has("metadata.deletionTimestamp") {
			e.Message = "object is being deleted: " + e.Message
		}
		return nil, 0, e
	}
	if a.dryRun {
		raw, err := rawjson.Encode(object)
		return raw, 201, err
	}
	now, ok, err := a.put(nil, object)
	if err != nil {
		return nil, 0, err
	}
	if !ok {
		return nil, 0, a.kind.alreadyExists(a.name)
	}
	a.server.stored(a.kind, now)
	if err := a.checkPlace(); err != nil { // it was deleted during the webhook calls
		if last, ok, err := a.server.db.Remove(a.kind.collection(), a.key(), now, now.Object()); ok && err == nil {
			a.server.removed(a.kind, last)
		}
		return nil, 0, err
	}
	return now.Raw, 201, nil
}

// checkPlace refuses a new object whose namespace or CRD is missing or being deleted.
func (a *apiRequest) checkPlace() error {
	if err := a.checkNamespace(); err != nil || a.kind.crd == nil {
		return err
	}
	name := a.kind.groupResource()
	definition := a.server.db.Get("customresourcedefinitions.apiextensions.k8s.io", name)
	uid, _ := rawjson.AsMap(a.kind.crd["metadata"])["uid"].(string)
	switch {
	case definition == nil || rawjson.StringAt(definition.Raw, "metadata", "uid") != uid:
		return apierrors.New(404, "NotFound", "the server could not find the requested resource", map[string]any{})
	case isDeleted(definition.Raw):
		return a.kind.forbidden(a.name, "create not allowed while custom resource definition is terminating")
	}
	return nil
}

// suffix returns the suffix of a generated name.
func (s *Server) suffix() string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	s.mu.Lock()
	s.uid++
	n := s.uid * 7919
	s.mu.Unlock()
	var b [5]byte
	for i := range b {
		b[i] = alphabet[n%uint64(len(alphabet))]
		n /= uint64(len(alphabet))
	}
	return string(b[:])
}
