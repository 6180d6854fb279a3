package apiserver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/rules"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

// mixedCase precedes the rule in messages about kinds.
const mixedCase = "may have mixed case, but should otherwise match: "

// isDefinitions reports whether the kind is CustomResourceDefinition.
func (k *kindInfo) isDefinitions() bool {
	return k.crd == nil && k.resource.Plural == "customresourcedefinitions"
}

// definitionCheck checks one CRD, so that the server accepts only CRDs that kube-apiserver accepts, too. Fields with the same value in all versions
// are checked once. Their path is the one that CRDs had before each version had its own fields.
type definitionCheck struct {
	spec     map[string]any
	versions []map[string]any
	faults   []field.Error
}

func newDefinitionCheck(object map[string]any) *definitionCheck {
	c := &definitionCheck{spec: rawjson.AsMap(object["spec"])}
	versions, _ := c.spec["versions"].([]any)
	for _, v := range versions {
		c.versions = append(c.versions, rawjson.AsMap(v))
	}
	return c
}

func (c *definitionCheck) add(faults ...field.Error) { c.faults = append(c.faults, faults...) }

// checkDefinition validates a CRD. It also validates its change if live is not nil.
func checkDefinition(live, object map[string]any) []field.Error {
	c := newDefinitionCheck(object)
	name := unstructured.Text(rawjson.AsMap(object["metadata"]), "name")
	if live == nil && name != unstructured.Text(rawjson.AsMap(c.spec["names"]), "plural")+"."+unstructured.Text(c.spec, "group") {
		c.add(field.Invalid("metadata.name", name, `must be spec.names.plural+"."+spec.group`))
	}
	c.checkGroup()
	c.checkVersions()
	c.checkNames()
	if c.shares("schema") && len(c.versions) > 0 {
		c.checkSchema(c.versions[0], "spec.validation", slices.ContainsFunc(c.versions, hasStatusEnabled))
	}
	c.checkShared()
	c.checkConversion(live)
	c.checkImmutable(live)
	c.checkStored(rawjson.AsMap(object["status"]))
	c.checkApproval(live, object)
	if c.spec["preserveUnknownFields"] == true {
		c.add(field.Invalid("spec.preserveUnknownFields", true, "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"))
	}
	return c.faults
}

// shares reports whether a field is the same in all versions.
func (c *definitionCheck) shares(key string) bool {
	return !slices.ContainsFunc(c.versions, func(v map[string]any) bool { return !rawjson.Equal(v[key], c.versions[0][key]) })
}

func hasStatusEnabled(version map[string]any) bool {
	return rawjson.AsMap(rawjson.AsMap(version["subresources"])["status"]) != nil
}

func openAPISchema(version map[string]any) map[string]any {
	return rawjson.AsMap(rawjson.AsMap(version["schema"])["openAPIV3Schema"])
}

// unknownFormats returns the formats in a CRD that are not checked. The formats of a schema that all versions share count once.
func unknownFormats(object map[string]any) (unknown []string) {
	c := newDefinitionCheck(object)
	for i, version := range c.versions {
		if i == 0 || !c.shares("schema") {
			unknown = append(unknown, schema.UnknownFormats(openAPISchema(version))...)
		}
	}
	return unknown
}

func (c *definitionCheck) checkGroup() {
	switch group := unstructured.Text(c.spec, "group"); {
	case group == "":
		c.add(field.Required("spec.group", ""))
	case !validation.IsDNSSubdomain(group):
		c.add(field.Invalid("spec.group", group, rules.SubdomainRule))
	case !strings.Contains(group, "."):
		c.add(field.Invalid("spec.group", group, "should be a domain with at least one dot"))
	}
	switch scope := unstructured.Text(c.spec, "scope"); scope {
	case "":
		c.add(field.Required("spec.scope", ""))
	case "Cluster", "Namespaced":
	default:
		c.add(field.NotSupported("spec.scope", scope, `supported values: "Cluster", "Namespaced"`))
	}
}

// checkLabel validates a name as a label, unless it is empty. Kinds may have capitals.
func checkLabel(at, name, prefix string) []field.Error {
	label := name
	if prefix != "" {
		label = strings.ToLower(name)
	}
	wrong := rules.Label1035(label)
	if wrong == nil {
		return nil
	}
	return []field.Error{field.Invalid(at, name, prefix+strings.Join(wrong, ","))}
}

func (c *definitionCheck) checkVersions() {
	for i, version := range c.versions {
		if openAPISchema(version) == nil {
			c.add(field.Required(fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", i), ""))
		}
	}
	if c.spec["preserveUnknownFields"] == true && slices.ContainsFunc(c.versions, func(v map[string]any) bool { return schema.HasDefaults(openAPISchema(v)) }) {
		c.add(field.Invalid("spec.preserveUnknownFields", true, "must be false in order to use defaults in the schema"))
	}
	var names []string
	stored := 0
	for i, version := range c.versions {
		at := fmt.Sprintf("spec.versions[%d]", i)
		name := unstructured.Text(version, "name")
		names = append(names, name)
		if version["storage"] == true {
			stored++
		}
		c.add(checkLabel(at+".name", name, "")...)
		c.add(checkDeprecation(version, at)...)
		if !c.shares("schema") {
			c.checkSchema(version, at+".schema", hasStatusEnabled(version))
		}
		if !c.shares("subresources") {
			c.add(checkSubresources(version, at+".subresources")...)
		}
		if !c.shares("additionalPrinterColumns") {
			c.add(checkColumns(version, at+".additionalPrinterColumns")...)
		}
		if c.shares("selectableFields") || rawjson.IsEmpty(version["selectableFields"]) {
			continue
		} else if c.shares("schema") {
			c.add(field.Invalid(at+".selectableFields", "", "may only be set when `version.schema.openAPIV3Schema` is not included"))
		} else {
			c.add(checkSelectable(version, at+".selectableFields")...)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) < len(c.versions) {
		c.add(field.Invalid("spec.versions", c.shownVersions(), "must contain unique version names"))
	}
	if stored != 1 {
		c.add(field.Invalid("spec.versions", c.shownVersions(), "must have exactly one version marked as storage version"))
	}
	if len(c.versions) > 0 {
		if first := unstructured.Text(c.versions[0], "name"); first != "" {
			c.add(checkLabel("spec.version", first, "")...)
		}
	}
}

// shownVersions returns the versions for messages, without their common fields, as in kube-apiserver.
func (c *definitionCheck) shownVersions() []any {
	all := []any{}
	for _, v := range c.versions {
		all = append(all, json.RawMessage(fmt.Sprintf(`{"Name":%q,"Served":%t,"Storage":%t,"Deprecated":%t,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}`,
			unstructured.Text(v, "name"), v["served"] == true, v["storage"] == true, v["deprecated"] == true)))
	}
	return all
}

func checkDeprecation(version map[string]any, at string) []field.Error {
	text, ok := version["deprecationWarning"].(string)
	if !ok {
		return nil
	}
	wrong := func(detail string) []field.Error {
		return []field.Error{field.Invalid(at+".deprecationWarning", text, detail)}
	}
	switch {
	case version["deprecated"] != true:
		return wrong("can only be set for deprecated versions")
	case text == "":
		return wrong("must not be an empty string")
	}
	var faults []field.Error
	if len(text) > 256 {
		faults = wrong("must be <= 256 characters long")
	}
	for i, r := range text {
		if !unicode.IsPrint(r) {
			return append(faults, wrong(fmt.Sprintf("must only contain printable UTF-8 characters; non-printable character found at index %d", i))...)
		}
	}
	return faults
}

// checkSchema checks the schema of a version, or of all versions.
func (c *definitionCheck) checkSchema(version map[string]any, at string, hasStatus bool) {
	if open := openAPISchema(version); open != nil {
		c.add(schema.Check(open, at+".openAPIV3Schema", hasStatus)...)
	}
}

// checkShared checks the common fields of all versions, apart from the schema.
func (c *definitionCheck) checkShared() {
	if len(c.versions) == 0 {
		return
	}
	first := c.versions[0]
	if c.shares("subresources") {
		c.add(checkSubresources(first, "spec.subresources")...)
	}
	if c.shares("additionalPrinterColumns") {
		c.add(checkColumns(first, "spec.additionalPrinterColumns")...)
	}
	if !c.shares("selectableFields") || rawjson.IsEmpty(first["selectableFields"]) {
		return
	}
	if !c.shares("schema") || first["schema"] == nil {
		c.add(field.Invalid("spec.selectableFields", "", "may only be set when validations.schema is included"))
		return
	}
	c.add(checkSelectable(first, "spec.selectableFields")...)
}

func (c *definitionCheck) checkNames() {
	names := rawjson.AsMap(c.spec["names"])
	keys := []string{"plural", "singular", "kind", "listKind"}
	for _, key := range keys {
		if unstructured.Text(names, key) == "" {
			c.add(field.Required("spec.names."+key, ""))
		}
	}
	c.add(checkDefinedNames(names, "spec.names")...)
}

func checkDefinedNames(names map[string]any, at string) (faults []field.Error) {
	for _, key := range []string{"plural", "singular", "kind", "listKind"} {
		prefix := ""
		if key == "kind" || key == "listKind" {
			prefix = mixedCase
		}
		if name := unstructured.Text(names, key); name != "" {
			faults = append(faults, checkLabel(at+"."+key, name, prefix)...)
		}
	}
	list := func(key string) {
		for i, name := range unstructured.Texts(names[key]) {
			faults = append(faults, checkLabel(fmt.Sprintf("%s.%s[%d]", at, key, i), name, "")...)
		}
	}
	list("shortNames")
	if kind := unstructured.Text(names, "kind"); kind != "" && names["listKind"] == kind {
		faults = append(faults, field.Invalid(at+".listKind", kind, "kind and listKind may not be the same"))
	}
	list("categories")
	return faults
}

func checkSubresources(version map[string]any, at string) []field.Error {
	scale := rawjson.AsMap(rawjson.AsMap(version["subresources"])["scale"])
	if scale == nil {
		return nil
	}
	var faults []field.Error
	for _, f := range [...]struct{ key, below, detail string }{
		{"specReplicasPath", ".spec.", "should be a json path under .spec"},
		{"statusReplicasPath", ".status.", "should be a json path under .status"},
		{"labelSelectorPath", "", "should be a json path under either .spec or .status"},
	} {
		path, here := unstructured.Text(scale, f.key), at+".scale."+f.key
		below := strings.HasPrefix(path, f.below)
		if f.below == "" {
			below = strings.HasPrefix(path, ".spec.") || strings.HasPrefix(path, ".status.")
		}
		switch {
		case path == "" && f.below != "":
			faults = append(faults, field.Required(here, ""))
		case path == "":
		case path[0] != '.':
			faults = append(faults, field.Invalid(here, path, "must be a simple json path starting with ."))
		case !below:
			faults = append(faults, field.Invalid(here, path, f.detail))
		}
	}
	return faults
}

var columnFormats = []string{"byte", "date", "date-time", "double", "float", "int32", "int64", "password"}

func checkColumns(version map[string]any, at string) []field.Error {
	var faults []field.Error
	list, _ := version["additionalPrinterColumns"].([]any)
	for i, v := range list {
		column := rawjson.AsMap(v)
		here := fmt.Sprintf("%s[%d]", at, i)
		if unstructured.Text(column, "name") == "" {
			faults = append(faults, field.Required(here+".name", ""))
		}
		const types = "must be one of boolean,date,integer,number,string"
		if typ := unstructured.Text(column, "type"); typ == "" {
			faults = append(faults, field.Required(here+".type", types))
		} else if !slices.Contains([]string{"integer", "number", "string", "boolean", "date"}, typ) {
			faults = append(faults, field.Invalid(here+".type", typ, types))
		}
		if format := unstructured.Text(column, "format"); format != "" && !slices.Contains(columnFormats, format) {
			faults = append(faults, field.Invalid(here+".format", format, "must be one of "+strings.Join(columnFormats, ",")))
		}
		if path := unstructured.Text(column, "jsonPath"); path == "" {
			faults = append(faults, field.Required(here+".JSONPath", ""))
		} else if path[0] != '.' {
			faults = append(faults, field.Invalid(here+".JSONPath", path, "must be a simple json path starting with ."))
		}
	}
	return faults
}

// maxSelectableFields is the maximum number of selectable fields of a version.
const maxSelectableFields = 8

func checkSelectable(version map[string]any, at string) []field.Error {
	var faults []field.Error
	list, _ := version["selectableFields"].([]any)
	open := openAPISchema(version)
	var seen []string
	for i, v := range list {
		path := unstructured.Text(rawjson.AsMap(v), "jsonPath")
		here := fmt.Sprintf("%s[%d].jsonPath", at, i)
		if path == "" {
			faults = append(faults, field.Required(here, ""))
			continue
		}
		found, keys, err := schema.FieldAt(open, path, false)
		if err != nil {
			faults = append(faults, field.Invalid(here, path, fmt.Sprintf("is an invalid path: %v", err)))
			continue
		}
		if keys[0] == "metadata" {
			faults = append(faults, field.Invalid(here, path, "must not point to fields in metadata"))
		}
		if !slices.Contains([]string{"string", "boolean", "integer"}, unstructured.Text(found, "type")) {
			faults = append(faults, field.Invalid(here, path, "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."))
		}
		if slices.Contains(seen, path) {
			faults = append(faults, field.Duplicate(here, path))
			continue
		}
		seen = append(seen, path)
	}
	if len(seen) > maxSelectableFields {
		faults = append(faults, field.Error{Reason: field.ReasonTooMany, Path: at, Value: json.Number(fmt.Sprint(len(seen))), Detail: fmt.Sprintf("must have at most %d items", maxSelectableFields)})
	}
	return faults
}

func (c *definitionCheck) checkConversion(live map[string]any) {
	spec := rawjson.AsMap(c.spec["conversion"])
	if spec == nil {
		return
	}
	const at = "spec.conversion"
	strategy := unstructured.Text(spec, "strategy")
	if strategy != "None" && c.spec["preserveUnknownFields"] == true {
		c.add(field.Invalid(at+".strategy", strategy, "must be None if spec.preserveUnknownFields is true"))
	}
	hook := rawjson.AsMap(spec["webhook"])
	client, versions := rawjson.AsMap(hook["clientConfig"]), unstructured.Texts(hook["conversionReviewVersions"])
	switch strategy {
	case "":
		c.add(field.Required(at+".strategy", ""))
	case "None", "Webhook":
	default:
		c.add(field.NotSupported(at+".strategy", strategy, `supported values: "None", "Webhook"`))
	}
	if strategy != "Webhook" {
		const detail = "should not be set when strategy is not set to Webhook"
		if client != nil {
			c.add(field.Forbidden(at+".webhookClientConfig", detail))
		}
		if len(versions) > 0 {
			c.add(field.Forbidden(at+".conversionReviewVersions", detail))
		}
		return
	}
	if client == nil {
		c.add(field.Required(at+".webhookClientConfig", "required when strategy is set to Webhook"))
	} else {
		c.add(rules.WebhookClient(client, at+".webhookClientConfig")...)
		c.checkAuthorities(live, client, at+".webhookClientConfig.caBundle")
	}
	if len(versions) == 0 {
		c.add(field.Required(at+".conversionReviewVersions", ""))
	} else {
		c.add(rules.ReviewVersions(versions, at+".conversionReviewVersions")...)
	}
}

// checkAuthorities checks the CA bundle of an established CRD, unless it is invalid already.
func (c *definitionCheck) checkAuthorities(live, client map[string]any, at string) {
	wrong := func(client map[string]any) bool {
		bundle, err := decodeBase64(unstructured.Text(client, "caBundle"))
		return len(bundle) > 0 && (err != nil || !hasCertificate(bundle))
	}
	old := rawjson.AsMap(rawjson.AsMap(rawjson.AsMap(rawjson.AsMap(live["spec"])["conversion"])["webhook"])["clientConfig"])
	if live != nil && isTrue(rawjson.AsMap(live["status"]), "Established") && wrong(client) && !wrong(old) {
		c.add(field.Invalid(at, client["caBundle"], "unable to load root certificates: unable to parse bytes as PEM block"))
	}
}

// checkImmutable refuses changes to the immutable fields of a CRD.
func (c *definitionCheck) checkImmutable(live map[string]any) {
	if live == nil {
		return
	}
	old := rawjson.AsMap(live["spec"])
	oldNames, names := rawjson.AsMap(old["names"]), rawjson.AsMap(c.spec["names"])
	immutable := func(path string, before, now any) {
		if !rawjson.Equal(before, now) {
			c.add(field.Invalid(path, now, "field is immutable"))
		}
	}
	if isTrue(rawjson.AsMap(live["status"]), "Established") {
		immutable("spec.scope", old["scope"], c.spec["scope"])
		immutable("spec.names.kind", oldNames["kind"], names["kind"])
	}
	immutable("spec.group", old["group"], c.spec["group"])
	immutable("spec.names.plural", oldNames["plural"], names["plural"])
}

// checkStored checks that the status keeps the versions in which objects are stored. It adds the current one first.
func (c *definitionCheck) checkStored(status map[string]any) {
	const at = "status.storedVersions"
	stored := storedVersions(status, c.versions)
	if len(stored) == 0 {
		c.add(field.Invalid(at, nil, "must have at least one stored version"))
		return
	}
	var names []string
	for _, version := range c.versions {
		name := unstructured.Text(version, "name")
		if names = append(names, name); version["storage"] == true && !slices.Contains(stored, name) {
			c.add(field.Invalid(at, stored, "must have the storage version "+name))
		}
	}
	for i, name := range stored {
		if slices.Contains(names, name) {
			continue
		}
		c.add(field.Invalid(fmt.Sprintf("%s[%d]", at, i), name, fmt.Sprintf(
			"missing from spec.versions; %s was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in %s and removes %s from status.storedVersions", name, name, name)))
	}
}

// storedVersions returns the versions in which objects of a CRD are or will be stored.
func storedVersions(status map[string]any, versions []map[string]any) []string {
	stored := unstructured.Texts(status["storedVersions"])
	i := slices.IndexFunc(versions, func(v map[string]any) bool { return v["storage"] == true })
	if i < 0 {
		return stored
	}
	if name := unstructured.Text(versions[i], "name"); !slices.Contains(stored, name) {
		stored = append(stored, name)
	}
	return stored
}

// approvalAnnotation is the annotation for the approval of CRDs in the groups of Kubernetes. Its value is the approval, or the reason why there is none.
const approvalAnnotation = "api-approved.kubernetes.io"

// isProtected reports whether a group is reserved for Kubernetes.
func isProtected(group string) bool {
	return strings.HasSuffix("."+group, ".k8s.io") || strings.HasSuffix("."+group, ".kubernetes.io")
}

// approvalOf returns the state of a CRD's approval (missing, bypassed, approved, or invalid), and the message about it.
func approvalOf(object map[string]any) (state, message string) {
	text := unstructured.Text(rawjson.AsMap(rawjson.AsMap(object["metadata"])["annotations"]), approvalAnnotation)
	u, err := url.ParseRequestURI(text)
	const proposal = ", see https://github.com/kubernetes/enhancements/pull/1111"
	switch {
	case text == "":
		return "missing", fmt.Sprintf("protected groups must have approval annotation %q"+proposal, approvalAnnotation)
	case strings.HasPrefix(text, "unapproved"):
		return "bypassed", fmt.Sprintf("not approved: %q", text)
	case err == nil && u.Host != "" && u.Scheme != "":
		return "approved", "approved in " + text
	}
	return "invalid", fmt.Sprintf(`protected groups must have approval annotation %q with either a URL or a reason starting with "unapproved"`+proposal, approvalAnnotation)
}

func (c *definitionCheck) checkApproval(live, object map[string]any) {
	if !isProtected(unstructured.Text(c.spec, "group")) {
		return
	}
	state, message := approvalOf(object)
	if old, _ := approvalOf(live); live != nil && old == state {
		return
	}
	const at = "metadata.annotations[" + approvalAnnotation + "]"
	switch state {
	case "missing":
		c.add(field.Required(at, message))
	case "invalid":
		c.add(field.Invalid(at, rawjson.AsMap(rawjson.AsMap(object["metadata"])["annotations"])[approvalAnnotation], message))
	}
}
