package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/protobuf"
	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/yaml"
)

// apiRequest is a parsed request.
type apiRequest struct {
	server       *Server
	ctx          context.Context
	raw          *http.Request
	parts        []string // of the path
	query        url.Values
	kind         *kindInfo // nil if the request is not about objects
	verb         string
	namespace    string
	name         string
	subresource  string
	manager      string
	dryRun       bool
	body         []byte
	canonical    bool // the object has the canonical form of its type, until a webhook changes it
	warnings     []string
	deletion     *deleteOptions // the options of a deletion by a client
	ofCollection bool           // whether it is part of a deletecollection, for which webhooks get no name
	fault        *Fault
	controller   string   // the controller in this server that sends the request
	reserved     []string // for the service that it stores
}

func (a *apiRequest) request() Request {
	r := Request{
		Time: time.Now(), Method: a.raw.Method, Path: a.raw.URL.RequestURI(), Verb: a.verb, Subresource: a.subresource,
		Namespace: a.namespace, Name: a.name, ContentType: a.raw.Header.Get("Content-Type"), UserAgent: a.raw.UserAgent(), Body: a.body,
	}
	if a.kind != nil {
		r.Resource = a.kind.resource.Plural
	}
	return r
}

// maxRequestBody is the largest body of a request, in bytes, as in kube-apiserver.
const maxRequestBody = 3 << 20

// parse parses the address of a request, and reads its body.
func (s *Server) parse(r *http.Request) (*apiRequest, error) {
	a := &apiRequest{server: s, ctx: r.Context(), raw: r, query: r.URL.Query(), parts: strings.Split(strings.Trim(r.URL.Path, "/"), "/")}
	a.dryRun = slices.Contains(a.query["dryRun"], "All")
	if a.manager = a.query.Get("fieldManager"); a.manager == "" {
		a.manager = managerOf(r.UserAgent())
	}
	if err := a.locate(); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBody+1))
	if err != nil {
		return nil, apierrors.BadRequest("the request's body could not be read: %v", err)
	}
	if len(body) > maxRequestBody {
		return nil, apierrors.New(413, "RequestEntityTooLarge", fmt.Sprintf("Request entity too large: limit is %d", maxRequestBody), map[string]any{})
	}
	a.body = body
	if a.kind != nil {
		a.verb = a.verbOf(r.Method)
	}
	return a, nil
}

// managerOf returns the default field manager of a client: its program in the User-Agent.
func managerOf(agent string) string {
	program, _, _ := strings.Cut(agent, "/")
	printable := func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}
	return cmp.Or(cut.Bytes(strings.Map(printable, program), maxFieldManager), "unknown")
}

// locate finds the kind, the namespace, the name and the subresource in the path.
func (a *apiRequest) locate() error {
	if strings.Contains(a.raw.URL.Path, "//") {
		return nil
	}
	var group, version string
	var rest []string
	switch p := a.parts; {
	case len(p) > 2 && p[0] == "api":
		version, rest = p[1], p[2:]
	case len(p) > 3 && p[0] == "apis":
		group, version, rest = p[1], p[2], p[3:]
	default:
		return nil
	}
	if len(rest) > 2 && rest[0] == "namespaces" && (rest[2] != "status" && rest[2] != "finalize" || len(rest) > 3) {
		a.namespace, rest = rest[1], rest[2:]
	}
	for _, k := range a.server.kinds() {
		if k.resource.Group == group && k.resource.Version == version && k.resource.Plural == rest[0] {
			a.kind = k
		}
	}
	if a.kind == nil || !a.kind.resource.Namespaced && a.namespace != "" {
		a.kind = nil
		return nil
	}
	if len(rest) > 1 {
		a.name = rest[1]
	}
	if len(rest) > 2 {
		a.subresource = strings.Join(rest[2:], "/")
	}
	return nil
}

// flag reports whether the query has a boolean parameter that is true. All values are true except "false" and "0", in any case. The empty value is true.
func (a *apiRequest) flag(key string) bool {
	text := a.query.Get(key)
	return a.query.Has(key) && !strings.EqualFold(text, "false") && text != "0"
}

func (a *apiRequest) verbOf(method string) string {
	switch method {
	case http.MethodGet:
		switch {
		case a.name != "":
			return "get"
		case a.flag("watch"):
			return "watch"
		}
		return "list"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if a.name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	return strings.ToLower(method)
}

// decode decodes the object in the body.
func (a *apiRequest) decode() (map[string]any, error) {
	media, _, err := mime.ParseMediaType(a.raw.Header.Get("Content-Type"))
	if a.raw.Header.Get("Content-Type") != "" && err != nil {
		return nil, apierrors.New(415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf", nil)
	}
	var object map[string]any
	switch media {
	case "", "application/json":
		if a.kind.crd == nil && string(bytes.TrimSpace(a.body)) == "null" { // null leaves a Go type unchanged
			object = make(map[string]any)
			break
		}
		object, err = rawjson.DecodeObject(a.body)
	case "application/yaml":
		var all []map[string]any
		if all, err = yaml.ParseManifests(a.body); err == nil && len(all) == 1 {
			object = all[0]
		} else if err == nil {
			err = errors.New("one object is expected")
		}
	case "application/vnd.kubernetes.protobuf":
		object, err = protobuf.Decode(a.body)
	default:
		return nil, apierrors.New(415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf", nil)
	}
	for _, key := range []string{"apiVersion", "kind"} {
		if _, isText := object[key].(string); err == nil && !isText && object[key] != nil {
			err = fmt.Errorf("couldn't get version/kind; json parse error: %s: a string is expected, not %s", key, rawjson.KindOf(object[key]))
		}
	}
	if err != nil {
		return nil, apierrors.BadRequest("the object provided is unrecognized (must be of type %s): %v", a.kind.resource.Kind, err)
	}
	if err := a.checkType(object); err != nil {
		return nil, err
	}
	return object, a.checkGoType(object)
}

// optionsOf returns the kind of the options in the query of a verb, "" if there are none.
func optionsOf(verb string) string {
	switch verb {
	case "create":
		return "CreateOptions"
	case "update":
		return "UpdateOptions"
	case "patch":
		return "PatchOptions"
	case "delete", "deletecollection":
		return "DeleteOptions"
	}
	return ""
}

// checkOptions refuses unknown values of options.
func (a *apiRequest) checkOptions() error {
	kind := optionsOf(a.verb)
	if kind == "" || kind == "DeleteOptions" { // they may be in the body
		return nil
	}
	var faults []field.Error
	if runs := a.query["dryRun"]; len(runs) > 0 && kind != "DeleteOptions" && slices.ContainsFunc(runs, func(r string) bool { return r != "All" }) {
		faults = append(faults, field.NotSupported("dryRun", runs, `supported values: "All"`))
	}
	if mode := a.query.Get("fieldValidation"); !slices.Contains([]string{"", "Ignore", "Strict", "Warn"}, mode) {
		faults = append(faults, field.NotSupported("fieldValidation", mode, `supported values: "", "Ignore", "Strict", "Warn"`))
	}
	faults = append(faults, checkFieldManager(a.query.Get("fieldManager"))...)
	if media, _, _ := mime.ParseMediaType(a.raw.Header.Get("Content-Type")); a.query.Has("force") && kind == "PatchOptions" && media != "application/apply-patch+yaml" {
		faults = append(faults, field.Forbidden("force", "may not be specified for non-apply patch"))
	}
	if len(faults) > 0 {
		return invalidOptions(kind, faults...)
	}
	return nil
}

// checkFieldManager validates the name of a field manager.
func checkFieldManager(name string) (faults []field.Error) {
	if len(name) > maxFieldManager {
		faults = append(faults, field.TooLong("fieldManager", nil, fmt.Sprintf("may not be more than %d bytes", maxFieldManager)))
	}
	for i, r := range name {
		if !unicode.IsPrint(r) {
			faults = append(faults, field.Invalid("fieldManager", name, fmt.Sprintf("invalid character %#U (at position %d)", r, i)))
		}
	}
	return faults
}

// maxFieldManager is the maximum length of a field manager's name, in bytes.
const maxFieldManager = 128

// checkList refuses contradictory options of a list.
func (a *apiRequest) checkList() error {
	match, version := a.query.Get("resourceVersionMatch"), a.query.Get("resourceVersion")
	var faults []field.Error
	if a.query.Get("sendInitialEvents") != "" {
		faults = append(faults, field.Forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
	}
	if match == "" {
		if len(faults) > 0 {
			return invalidOptions("ListOptions", faults...)
		}
		return nil
	}
	forbid := func(detail string) {
		faults = append(faults, field.Forbidden("resourceVersionMatch", detail))
	}
	if version == "" {
		forbid("resourceVersionMatch is forbidden unless resourceVersion is provided")
	}
	if a.query.Get("continue") != "" {
		forbid("resourceVersionMatch is forbidden when continue is provided")
	}
	if match != "Exact" && match != "NotOlderThan" {
		faults = append(faults, field.NotSupported("resourceVersionMatch", match, `supported values: "Exact", "NotOlderThan", ""`))
	}
	if match == "Exact" && version == "0" {
		forbid(`resourceVersionMatch "exact" is forbidden for resourceVersion "0"`)
	}
	if len(faults) > 0 {
		return invalidOptions("ListOptions", faults...)
	}
	return nil
}

// checkWatch refuses contradictory options of a watch.
func (a *apiRequest) checkWatch() error {
	match, initial := a.query.Get("resourceVersionMatch"), a.query.Get("sendInitialEvents")
	var faults []field.Error
	forbid := func(detail string) {
		faults = append(faults, field.Forbidden("resourceVersionMatch", detail))
	}
	if match != "" && initial == "" {
		forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
	}
	if initial != "" && match != "NotOlderThan" {
		forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	}
	if match != "" && match != "NotOlderThan" {
		faults = append(faults, field.NotSupported("resourceVersionMatch", match, `supported values: "NotOlderThan"`))
	}
	if a.query.Get("continue") != "" {
		forbid("resourceVersionMatch is forbidden when continue is provided")
	}
	if len(faults) > 0 {
		return invalidOptions("ListOptions", faults...)
	}
	return nil
}

// number parses a whole number in the query, 0 if there is none.
func (a *apiRequest) number(key string) (int64, error) {
	if !a.query.Has(key) {
		return 0, nil
	}
	n, err := strconv.ParseInt(a.query.Get(key), 10, 64)
	if err != nil {
		return 0, apierrors.BadRequest("%v", err)
	}
	return n, nil
}
