package apiserver

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file has the subresources that accept POST: the bindings of pods, and the tokens of service accounts.

// answerDone answers with the status Success.
func (a *apiRequest) answerDone(w http.ResponseWriter, r *http.Request) {
	a.server.write(w, r, 201, map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success", "code": 201})
}

func (a *apiRequest) answerBinding(w http.ResponseWriter, r *http.Request, binding map[string]any) error {
	if err := a.admitPosted("", "v1", "Binding", binding); err != nil {
		return err
	}
	if err := a.bind(binding); err != nil {
		return err
	}
	a.answerDone(w, r)
	return nil
}

// bind assigns a pod to a node, as a scheduler requests it.
func (a *apiRequest) bind(binding map[string]any) error {
	meta, target := rawjson.AsMap(binding["metadata"]), rawjson.AsMap(binding["target"])
	bound := *a
	if name := unstructured.Text(meta, "name"); a.kind.resource.Plural == "bindings" {
		bound.kind, bound.name = a.server.kindOf("v1", "Pod"), name
	} else if name != a.name {
		return apierrors.BadRequest("name in URL does not match name in Binding object")
	}
	if kind := unstructured.Text(target, "kind"); kind != "" && kind != "Node" {
		return apierrors.New(500, "", fmt.Sprintf(`target.kind: Unsupported value: %q: supported values: "Node", "<empty>"`, kind), nil)
	}
	node := unstructured.Text(target, "name")
	if node == "" {
		return apierrors.New(500, "", "target.name: Required value", nil)
	}
	for {
		before := a.server.db.Get(bound.kind.collection(), bound.key())
		if before == nil {
			return bound.kind.notFound(bound.name)
		}
		pod := unstructured.View(before.Raw).Map()
		if why := notBindable(pod, meta); why != "" {
			about := &kindInfo{resource: apiResource{Plural: "pods/binding"}}
			return about.conflict(bound.name, why)
		}
		assign(pod, node, rawjson.AsMap(meta["annotations"]), rawjson.AsMap(meta["labels"]))
		if a.dryRun {
			return nil
		}
		now, ok, err := bound.put(before, pod)
		if err != nil {
			return err
		}
		if ok {
			a.server.stored(bound.kind, now)
			return nil
		}
	}
}

// notBindable returns the reason why a pod cannot be assigned to a node, "" if it can.
func notBindable(pod, preconditions map[string]any) string {
	meta, spec := rawjson.AsMap(pod["metadata"]), rawjson.AsMap(pod["spec"])
	name := unstructured.Text(meta, "name")
	for _, p := range []struct{ key, title string }{{"uid", "UID"}, {"resourceVersion", "ResourceVersion"}} {
		if want := unstructured.Text(preconditions, p.key); want != "" && want != meta[p.key] {
			return fmt.Sprintf("Precondition failed: %s in precondition: %s, %s in object meta: %s", p.title, want, p.title, meta[p.key])
		}
	}
	switch {
	case meta["deletionTimestamp"] != nil:
		return fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", name)
	case unstructured.Text(spec, "nodeName") != "":
		return fmt.Sprintf("pod %s is already assigned to node %q", name, spec["nodeName"])
	case !rawjson.IsEmpty(spec["schedulingGates"]):
		return fmt.Sprintf("pod %s has non-empty .spec.schedulingGates", name)
	}
	return ""
}

// assign sets the node of a pod, and adds the annotations and the labels of the binding.
func assign(pod map[string]any, node string, annotations, labels map[string]any) {
	mapAt(pod, "spec")["nodeName"] = node
	for key, added := range map[string]map[string]any{"annotations": annotations, "labels": labels} {
		for k, v := range added {
			mapAt(mapAt(pod, "metadata"), key)[k] = v
		}
	}
	delete(mapAt(pod, "status"), "nominatedNodeName")
	setPodCondition(pod, map[string]any{"type": "PodScheduled", "status": "True"})
}

const (
	tokenIssuer     = "https://kubernetes.default.svc"
	minTokenSeconds = 600
)

// completeToken adds a token to the request for one. No server accepts the token, and this server checks none, because it has no users.
func (a *apiRequest) completeToken(request map[string]any) error {
	account := a.server.db.Get(a.kind.collection(), a.key())
	if account == nil {
		return a.kind.notFound(a.name)
	}
	uid := unstructured.View(account.Raw).String("metadata.uid")
	meta, spec := mapAt(request, "metadata"), mapAt(request, "spec")
	subject := &kindInfo{resource: apiResource{Group: "authentication.k8s.io", Kind: "TokenRequest"}}
	if err := a.place(meta); err != nil {
		return err
	}
	if asked := unstructured.Text(meta, "name"); asked != "" && asked != a.name {
		return subject.invalid(a.name, []field.Error{field.Invalid("metadata.name", asked, "must match the service account name if specified")})
	}
	if rawjson.IsEmpty(spec["audiences"]) {
		spec["audiences"] = []any{tokenIssuer}
	}
	seconds := int64(3600)
	if n, ok := spec["expirationSeconds"].(json.Number); ok {
		seconds, _ = n.Int64() // its type is checked
	}
	if seconds < minTokenSeconds {
		return subject.invalid("", []field.Error{field.Invalid("spec.expirationSeconds", json.Number(fmt.Sprint(seconds)), "may not specify a duration less than 10 minutes")})
	}
	if seconds > maxTokenSeconds {
		return subject.invalid("", []field.Error{field.Invalid("spec.expirationSeconds", json.Number(fmt.Sprint(seconds)), "may not specify a duration larger than 2^32 seconds")})
	}
	if err := a.checkTokenBinding(rawjson.AsMap(spec["boundObjectRef"])); err != nil {
		return err
	}
	now := time.Now()
	token, err := newToken(map[string]any{
		"aud": spec["audiences"], "iss": tokenIssuer, "jti": a.server.newUID(), "sub": "system:serviceaccount:" + a.namespace + ":" + a.name,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Unix() + seconds,
		"kubernetes.io": map[string]any{"namespace": a.namespace, "serviceaccount": map[string]any{"name": a.name, "uid": uid}},
	})
	if err != nil {
		return err
	}
	meta["name"], meta["namespace"], meta["uid"], meta["creationTimestamp"] = a.name, a.namespace, uid, unstructured.Timestamp(now)
	spec["expirationSeconds"] = json.Number(fmt.Sprint(seconds))
	if _, ok := spec["boundObjectRef"]; !ok {
		spec["boundObjectRef"] = nil
	}
	request["status"] = map[string]any{"token": token, "expirationTimestamp": unstructured.Timestamp(now.Add(time.Duration(seconds) * time.Second))}
	return nil
}

// maxTokenSeconds is the maximum lifetime of a token.
const maxTokenSeconds = 1 << 32

// checkTokenBinding refuses to bind a token to an object that is missing, or has an unsuitable kind.
func (a *apiRequest) checkTokenBinding(ref map[string]any) error {
	if ref == nil {
		return nil
	}
	version, kind, name := unstructured.Text(ref, "apiVersion"), unstructured.Text(ref, "kind"), unstructured.Text(ref, "name")
	group, inGroup, found := strings.Cut(version, "/")
	if !found {
		group, inGroup = "", version
	}
	if group != "" || !slices.Contains([]string{"Pod", "Secret", "Node"}, kind) {
		return apierrors.BadRequest("cannot bind token to object of type %s/%s, Kind=%s", group, inGroup, kind)
	}
	bound, key := a.server.kindOf("v1", kind), name
	if bound.resource.Namespaced {
		key = a.namespace + "/" + name
	}
	item := a.server.db.Get(bound.collection(), key)
	if item == nil {
		return bound.notFound(name)
	}
	if kind == "Pod" && unstructured.View(item.Raw).String("spec.serviceAccountName") != a.name {
		return apierrors.BadRequest("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", a.name)
	}
	return nil
}

// newToken returns a JSON web token, signed with a key that is not kept.
func newToken(claims map[string]any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(payload)
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signed))
	return signed + "." + encode(mac.Sum(nil)), nil
}

// answerLog answers a request for the log of a pod. There is none, because no node runs the pod.
func (a *apiRequest) answerLog(w http.ResponseWriter, r *http.Request, pod unstructured.View) error {
	if node := pod.String("spec.nodeName"); node != "" {
		if a.server.db.Get(a.server.kindOf("v1", "Node").collection(), node) == nil {
			return a.kind.notFound(node) // kube-apiserver also calls the node a pod here
		}
		return apierrors.New(500, "InternalError", fmt.Sprintf("Internal error occurred: no kubelet runs on node %q", node), nil)
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusNoContent)
	return nil
}
