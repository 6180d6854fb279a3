package admissionreview

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf/internal/jsonpatch"
)

func TestRead(t *testing.T) {
	const whole = `{"uid": "u", "resource": {"group": "g", "version": "v1", "resource": "things"}, "userInfo": {"username": "me"}, "object": {"a": 1}, "oldObject": {"a": 2}}`
	for _, tt := range []struct {
		review string
		code   int // 0 if valid
	}{
		{`{"request": ` + whole + `}`, 0},
		{`{"request": ` + strings.Replace(whole, `"object": {"a": 1}`, `"object": null`, 1) + `}`, 0},
		{`{"request": ` + strings.Replace(whole, `"oldObject": {"a": 2}`, `"oldObject": null`, 1) + `}`, 0},
		{`{"request": ` + strings.NewReplacer(`{"a": 1}`, "null", `{"a": 2}`, "null").Replace(whole) + `}`, 400},
		{`{"request": ` + strings.Replace(whole, `{"username": "me"}`, "null", 1) + `}`, 400},
		{`{"request": ` + strings.Replace(whole, `"resource"`, `"other"`, 1) + `}`, 500},
		{`{"request": null}`, 500},
		{`{}`, 500},
		{`{"request": []}`, 400},
		{`[`, 400},
	} {
		r, err := Read([]byte(tt.review))
		switch {
		case err != nil && (err.Code != tt.code || err.Message == ""):
			t.Errorf("%s: got %+v, want the code %d", tt.review, *err, tt.code)
		case err == nil && tt.code != 0:
			t.Errorf("%s can be read, want the code %d", tt.review, tt.code)
		case err == nil && (r.Request.UID != "u" || *r.Request.Resource != Resource{"g", "v1", "things"}):
			t.Errorf("%s: got %+v", tt.review, r.Request)
		}
	}
}

func TestAnswer(t *testing.T) {
	own := &Review{APIVersion: "admission.k8s.io/v1beta1", Kind: "Other", Request: &Request{UID: "u"}}
	plain := &Review{Request: &Request{UID: "u"}}
	const of = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": `
	for _, tt := range []struct {
		review   *Review
		response Response
		want     string
	}{
		{plain, Response{}, of + `{"uid": "u", "allowed": true}}`},
		{own, Response{}, `{"apiVersion": "admission.k8s.io/v1beta1", "kind": "Other", "response": {"uid": "u", "allowed": true}}`},
		{plain, Response{Warnings: []string{"w"}, Denial: &Denial{Message: "no", Code: 418}}, of + `{"uid": "u", "allowed": false, "warnings": ["w"], "status": {"message": "no", "code": 418}}}`},
		{plain, Response{Denial: &Denial{Message: "no", Code: 200}}, of + `{"uid": "u", "allowed": false, "status": {"message": "no", "code": 500}}}`},
		{plain, Response{Denial: &Denial{Message: "no", Causes: []any{"c"}}}, of + `{"uid": "u", "allowed": false, "status": {"message": "no", "code": 500, "details": {"causes": ["c"]}}}}`},
		{plain, Response{Patch: []jsonpatch.Operation{{Op: "remove", Path: "/a"}}}, of + `{"uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0="}}`},
	} {
		data, err := tt.review.Answer(tt.response)
		if err != nil {
			t.Error(err)
		}
		var got, want any
		if err := json.Unmarshal(data, &got); err != nil {
			t.Errorf("%s: %v", data, err)
		}
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}
