package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// conversion is the webhook that converts the objects of a CRD between its versions.
//
// See https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#webhook-conversion
type conversion struct {
	hook   *webhook
	review string // the API version of the reviews, "" if the server supports none of them
}

// conversionTimeout is the time limit for one call of a conversion webhook.
const conversionTimeout = 30 * time.Second

// conversionRetry is the delay of a watch before it has an event converted again, after a failure.
const conversionRetry = time.Second

// maxConversion is the maximum number of objects in one review.
const maxConversion = 500

// conversionOf returns the webhook of a CRD, nil if it has none.
func conversionOf(crd map[string]any) *conversion {
	spec := rawjson.AsMap(rawjson.AsMap(crd["spec"])["conversion"])
	if spec["strategy"] != "Webhook" {
		return nil
	}
	hook := rawjson.AsMap(spec["webhook"])
	c := &conversion{hook: newWebhook(hook)}
	c.hook.timeout = conversionTimeout
	for _, version := range unstructured.Texts(hook["conversionReviewVersions"]) {
		if version == "v1" || version == "v1beta1" {
			c.review = reviewGroup + version
			break
		}
	}
	return c
}

// converted returns stored objects in the version of the request, by the webhook if the CRD has one. No lock is held during the call, because
// webhooks may send requests to the server.
func (a *apiRequest) converted(items ...*store.Item) ([]*store.Item, error) {
	if a.kind.conversion == nil || len(items) == 0 {
		return items, nil
	}
	objects := make([]map[string]any, len(items))
	for i, item := range items {
		objects[i] = item.Object()
		a.kind.complement(objects[i])
	}
	objects, err := a.convert(objects, a.kind.apiVersion())
	if err != nil {
		return nil, err
	}
	all := make([]*store.Item, len(items))
	for i, object := range objects {
		raw, err := rawjson.Encode(object)
		if err != nil {
			return nil, err
		}
		item := *items[i]
		item.Raw = raw
		all[i] = &item
	}
	return all, nil
}

// complement prunes a stored object, and adds the defaults of the stored version, whose schema may have changed.
func (k *kindInfo) complement(object map[string]any) {
	if s := k.schemas[unstructured.Text(object, "apiVersion")]; s != nil {
		s.Prune(object)
		s.ApplyDefaults(object)
	}
}

// inVersion returns an object in another version of its kind.
func (a *apiRequest) inVersion(object map[string]any, apiVersion string) (map[string]any, error) {
	if a.kind.crd == nil || a.kind.conversion == nil || object["apiVersion"] == apiVersion {
		object = maps.Clone(object)
		object["apiVersion"] = apiVersion
		if s := a.kind.schemas[apiVersion]; s != nil {
			object = rawjson.Clone(object).(map[string]any)
			s.Prune(object)
		}
		return object, nil
	}
	all, err := a.convert([]map[string]any{object}, apiVersion)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// convert returns objects of a custom kind in an API version, by the webhook. Objects that have the version already stay unchanged.
func (a *apiRequest) convert(objects []map[string]any, apiVersion string) ([]map[string]any, error) {
	all := slices.Clone(objects)
	var others []int
	for i, object := range objects {
		if object["apiVersion"] != apiVersion {
			others = append(others, i)
		}
	}
	for batch := range slices.Chunk(others, maxConversion) {
		from := make([]map[string]any, len(batch))
		for n, i := range batch {
			from[n] = objects[i]
		}
		to, err := a.callConversion(from, apiVersion)
		if err != nil {
			return nil, err
		}
		for n, i := range batch {
			if s := a.kind.schemas[apiVersion]; s != nil {
				s.Prune(to[n])
			}
			all[i] = to[n]
		}
	}
	return all, nil
}

// callConversion has the webhook convert objects, and checks its result.
func (a *apiRequest) callConversion(objects []map[string]any, apiVersion string) ([]map[string]any, error) {
	what := "conversion webhook for " + describeKind(objects[0])
	response, err := a.askConversion(objects, apiVersion)
	if err != nil {
		return nil, apierrors.New(500, "", fmt.Sprintf("%s failed: %v", what, err), nil)
	}
	list, _ := response["convertedObjects"].([]any)
	if len(list) != len(objects) {
		return nil, apierrors.New(500, "", fmt.Sprintf("%s returned %d objects, expected %d", what, len(list), len(objects)), nil)
	}
	all := make([]map[string]any, len(objects))
	for i, v := range list {
		if all[i] = rawjson.AsMap(v); all[i] == nil {
			return nil, apierrors.New(500, "", fmt.Sprintf("%s returned invalid object: %s at index %d", what, rawjson.KindOf(v), i), nil)
		}
		if why := checkConverted(objects[i], all[i], apiVersion, i); why != "" {
			return nil, apierrors.New(500, "", what+" returned "+why, nil)
		}
	}
	return all, nil
}

// describeKind returns the kind of an object for messages.
func describeKind(object map[string]any) string {
	return fmt.Sprintf("%s, Kind=%s", unstructured.Word(object["apiVersion"]), unstructured.Word(object["kind"]))
}

// askConversion sends a review, and returns the response of the webhook.
func (a *apiRequest) askConversion(objects []map[string]any, apiVersion string) (map[string]any, error) {
	c := a.kind.conversion
	if c.review == "" {
		return nil, errors.New("no supported conversion review versions")
	}
	ctx := a.ctx
	if ctx == nil { // the server itself makes the change
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, c.hook.timeout)
	defer cancel()
	list := make([]any, len(objects))
	for i, object := range objects {
		list[i] = object
	}
	uid := a.server.newUID()
	data, err := c.hook.post(ctx, a.server, map[string]any{
		"kind": "ConversionReview", "apiVersion": c.review,
		"request":  map[string]any{"uid": uid, "desiredAPIVersion": apiVersion, "objects": list},
		"response": map[string]any{"uid": "", "convertedObjects": nil, "result": map[string]any{"metadata": map[string]any{}}},
	})
	if err != nil {
		return nil, err
	}
	review, err := rawjson.DecodeObject(data)
	if err != nil {
		return nil, err
	}
	response := rawjson.AsMap(review["response"])
	result := rawjson.AsMap(response["result"])
	checked := c.review == reviewGroup+"v1" // kube-apiserver does not check responses in the older version
	switch {
	case !isReview(review):
		return nil, fmt.Errorf("no kind %q is registered for version %q in scheme %q", unstructured.Word(review["kind"]), unstructured.Word(review["apiVersion"]), "pkg/runtime/scheme.go:111")
	case review["apiVersion"] != c.review:
		short := func(apiVersion string) string {
			return strings.TrimPrefix(apiVersion, reviewGroup) + ".ConversionReview"
		}
		return nil, fmt.Errorf("converting (%s) to (%s): unknown conversion", short(unstructured.Word(review["apiVersion"])), short(c.review))
	case response == nil:
		return nil, errors.New("no response provided")
	case checked && response["uid"] != uid:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, unstructured.Word(response["uid"]))
	case result["status"] != "Success" && unstructured.Word(result["message"]) != "":
		return nil, errors.New(unstructured.Word(result["message"]))
	case result["status"] != "Success":
		return nil, fmt.Errorf("response.result.status was '%s', not 'Success'", unstructured.Word(result["status"]))
	}
	return response, nil
}

// isReview reports whether an object is a review of a conversion.
func isReview(object map[string]any) bool {
	apiVersion := unstructured.Word(object["apiVersion"])
	return object["kind"] == "ConversionReview" && (apiVersion == reviewGroup+"v1" || apiVersion == reviewGroup+"v1beta1")
}

// reviewGroup is the group of the reviews, which precedes their version.
const reviewGroup = "apiextensions.k8s.io/"

// checkConverted returns the error in a converted object, "" if it is valid. It keeps all metadata except labels and annotations.
func checkConverted(before, after map[string]any, apiVersion string, i int) string {
	if after["apiVersion"] != apiVersion {
		return fmt.Sprintf("invalid object at index %d: invalid groupVersion (expected %s, received %s)", i, apiVersion, unstructured.Word(after["apiVersion"]))
	}
	if after["kind"] != before["kind"] {
		return fmt.Sprintf("invalid object at index %d: invalid kind (expected %s, received %s)", i, unstructured.Word(before["kind"]), unstructured.Word(after["kind"]))
	}
	old, meta := rawjson.AsMap(before["metadata"]), rawjson.AsMap(after["metadata"])
	for _, key := range [][2]string{{"name", "name"}, {"namespace", "namespace"}, {"uid", "UID"}} {
		if unstructured.Text(old, key[0]) != unstructured.Text(meta, key[0]) {
			return fmt.Sprintf("invalid object: must have the same %s: %s != %s", key[1], unstructured.Text(old, key[0]), unstructured.Text(meta, key[0]))
		}
	}
	if meta == nil {
		return "invalid metadata: missing metadata in converted object"
	}
	kept := rawjson.Clone(old).(map[string]any)
	for _, key := range []string{"labels", "annotations"} {
		if why := checkTextMap(meta[key], key); why != "" {
			return "invalid metadata: " + why
		}
		if delete(kept, key); meta[key] != nil {
			kept[key] = meta[key]
		}
		if why := checkConvertedTexts(rawjson.AsMap(old[key]), rawjson.AsMap(meta[key]), key); why != "" {
			return "invalid metadata: " + why
		}
	}
	after["metadata"] = kept
	return ""
}

// checkTextMap returns the reason why a value is no map of strings.
func checkTextMap(v any, key string) string {
	m := rawjson.AsMap(v)
	if v != nil && m == nil {
		return fmt.Sprintf("invalid metadata.%s of type %s in converted object", key, unstructuredType(v))
	}
	for _, k := range rawjson.SortedKeys(m) {
		if _, ok := m[k].(string); ok {
			continue
		}
		typ := unstructuredType(m[k])
		if schema.TypeOf(m[k]) == "integer" {
			typ = "int64"
		}
		return fmt.Sprintf("metadata.%s[%s] must be a string, but is %s in converted object", key, k, typ)
	}
	return ""
}

// checkConvertedTexts returns the error in changed labels or annotations.
func checkConvertedTexts(before, after map[string]any, key string) string {
	if rawjson.Equal(before, after) {
		return ""
	}
	var faults []field.Error
	if key == "labels" {
		faults = checkLabels(after)
	} else {
		faults = checkAnnotations(after)
	}
	var texts []string
	for _, f := range faults {
		texts = append(texts, strings.Replace(f.Message(), "metadata.annotations", "metadata.annotation", 1)) // as kube-apiserver has it
	}
	if len(texts) > 1 {
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return strings.Join(texts, "")
}
