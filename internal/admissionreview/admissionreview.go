// Package admissionreview decodes the reviews that API servers send to webhooks, and encodes the responses. See
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/.
package admissionreview

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Review has the relevant parts of an AdmissionReview with a request.
type Review struct {
	APIVersion, Kind string
	Request          *Request
}

// Request is the request of a review: an operation on an object.
type Request struct {
	UID                                     string // of the request
	Name, Namespace, Operation, SubResource string
	Resource                                *Resource
	DryRun                                  bool
	UserInfo, Object, OldObject             json.RawMessage
}

// Resource is the resource of the object.
type Resource struct{ Group, Version, Resource string }

// Error reports an invalid review.
type Error struct {
	Code    int // HTTP status code
	Message string
}

// Read decodes an AdmissionReview. It returns an error unless the review has a request with a resource, a user, and an object, new or old.
func Read(data []byte) (*Review, *Error) {
	r := &Review{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, &Error{http.StatusBadRequest, "the review cannot be read: " + err.Error()}
	}
	if r.Request == nil {
		return nil, &Error{http.StatusInternalServerError, "the review has no request"}
	}
	if r.Request.Resource == nil {
		return nil, &Error{http.StatusInternalServerError, "the request has no resource"}
	}
	if rawjson.IsNull(r.Request.UserInfo) {
		return nil, &Error{http.StatusBadRequest, "the request has no userInfo"}
	}
	if rawjson.IsNull(r.Request.Object) && rawjson.IsNull(r.Request.OldObject) {
		return nil, &Error{http.StatusBadRequest, "the request has neither an object nor an oldObject"}
	}
	return r, nil
}

// Response is the response to a review.
type Response struct {
	Denial   *Denial // nil to admit the operation
	Warnings []string
	Patch    []jsonpatch.Operation // changes of the object; nil for none
}

// Denial is the denial of an operation.
type Denial struct {
	Message string
	Code    int // status code of the API server's response; [http.StatusInternalServerError] if it is not an error code
	Causes  any // JSON list; nil for none
}

// Answer returns an AdmissionReview with the response, in the version and kind of the review.
func (r *Review) Answer(a Response) ([]byte, error) {
	response := map[string]any{"uid": r.Request.UID, "allowed": a.Denial == nil}
	if len(a.Warnings) > 0 {
		response["warnings"] = a.Warnings
	}
	if a.Denial != nil {
		response["status"] = a.Denial.status()
	}
	if len(a.Patch) > 0 {
		data, err := rawjson.Encode(jsonpatch.Values(a.Patch))
		if err != nil {
			return nil, err
		}
		response["patchType"], response["patch"] = "JSONPatch", base64.StdEncoding.EncodeToString(data)
	}
	return rawjson.Encode(map[string]any{"apiVersion": cmp.Or(r.APIVersion, "admission.k8s.io/v1"), "kind": cmp.Or(r.Kind, "AdmissionReview"), "response": response})
}

// status returns the Status of the denial.
func (d *Denial) status() map[string]any {
	status := map[string]any{"message": d.Message, "code": http.StatusInternalServerError}
	if d.Code >= 400 && d.Code < 600 {
		status["code"] = d.Code
	}
	if d.Causes != nil {
		status["details"] = map[string]any{"causes": d.Causes}
	}
	return status
}
