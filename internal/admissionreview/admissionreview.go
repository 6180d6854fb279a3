// Package admissionreview reads the reviews by which API servers ask webhooks about an operation, and writes the answers. See
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

// Review is what matters of an AdmissionReview with a request.
type Review struct {
	APIVersion, Kind string
	Request          *Request
}

// Request is the request of a review: what is about to happen to an object.
type Request struct {
	UID                                     string // of the request
	Name, Namespace, Operation, SubResource string
	Resource                                *Resource
	DryRun                                  bool
	UserInfo, Object, OldObject             json.RawMessage
}

// Resource is the resource of the object.
type Resource struct{ Group, Version, Resource string }

// Error says what is wrong with a review.
type Error struct {
	Code    int // the status of the HTTP response
	Message string
}

// Read reads an AdmissionReview, and returns what is wrong with it. A review that is read has a request with a resource, a user, and an object, be it the new or the
// old one.
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

// Response is the answer to a review.
type Response struct {
	Denial   *Denial // nil if the operation is admitted
	Warnings []string
	Patch    []jsonpatch.Operation // that the object is to be changed by; none for no change
}

// Denial says why an operation is denied.
type Denial struct {
	Message string
	Code    int // the status of the API server's own response; [http.StatusInternalServerError] if it is none of an error
	Causes  any // a list, for JSON; nil for none
}

// Answer returns an AdmissionReview with the response, of the version and kind of the review.
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

// status returns the status to deny with.
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
