package apiserver

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/rules"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

// isHooks reports whether the kind is one of the two webhook configurations.
func (k *kindInfo) isHooks() bool {
	return k.resource.Group == "admissionregistration.k8s.io" && strings.HasSuffix(k.resource.Plural, "webhookconfigurations")
}

// checkHooks returns what is wrong with the webhooks of a configuration.
func checkHooks(object map[string]any) []field.Error {
	var faults []field.Error
	list, _ := object["webhooks"].([]any)
	taken := make(map[string]bool)
	for i, v := range list {
		at := "webhooks[" + strconv.Itoa(i) + "]"
		hook := rawjson.AsMap(v)
		name := unstructured.Word(hook["name"])
		faults = append(faults, checkHook(hook, at)...)
		if taken[name] {
			faults = append(faults, field.Duplicate(at+".name", name))
		}
		taken[name] = true
	}
	return faults
}

func checkHook(hook map[string]any, at string) []field.Error {
	var faults []field.Error
	name := unstructured.Word(hook["name"])
	switch {
	case name == "":
		faults = append(faults, field.Required(at+".name", ""))
	case !validation.IsDNSSubdomain(name):
		faults = append(faults, field.Invalid(at+".name", name, rules.SubdomainRule))
	case strings.Count(name, ".") < 2:
		faults = append(faults, field.Invalid(at+".name", name, "should be a domain with at least three segments separated by dots"))
	}
	if effects := unstructured.Word(hook["sideEffects"]); effects != "None" && effects != "NoneOnDryRun" {
		faults = append(faults, field.Required(at+".sideEffects", "must specify one of None, NoneOnDryRun"))
	}
	if seconds := number(unstructured.Word(hook["timeoutSeconds"])); seconds < 1 || seconds > 30 {
		faults = append(faults, field.Invalid(at+".timeoutSeconds", hook["timeoutSeconds"], "the timeout value must be between 1 and 30 seconds"))
	}
	if versions := unstructured.Texts(hook["admissionReviewVersions"]); len(versions) == 0 {
		faults = append(faults, field.Required(at+".admissionReviewVersions", "must specify one of v1, v1beta1"))
	} else if !slices.Contains(versions, "v1") && !slices.Contains(versions, "v1beta1") {
		faults = append(faults, field.Invalid(at+".admissionReviewVersions", hook["admissionReviewVersions"], "must include at least one of v1, v1beta1"))
	}
	rules, _ := hook["rules"].([]any)
	for i, r := range rules {
		for _, key := range []string{"operations", "apiGroups", "apiVersions", "resources"} {
			if len(unstructured.Texts(rawjson.AsMap(r)[key])) == 0 {
				faults = append(faults, field.Required(fmt.Sprintf("%s.rules[%d].%s", at, i, key), ""))
			}
		}
		operations := unstructured.Texts(rawjson.AsMap(r)["operations"])
		if len(operations) > 1 && slices.Contains(operations, "*") {
			faults = append(faults, field.Invalid(fmt.Sprintf("%s.rules[%d].operations", at, i), operations, "if '*' is present, must not specify other operations"))
		}
		for j, operation := range operations {
			if !slices.Contains([]string{"*", "CONNECT", "CREATE", "DELETE", "UPDATE"}, operation) {
				faults = append(faults, field.NotSupported(fmt.Sprintf("%s.rules[%d].operations[%d]", at, i, j), operation,
					`supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"`))
			}
		}
	}
	return append(faults, checkHookClient(rawjson.AsMap(hook["clientConfig"]), at+".clientConfig")...)
}

func checkHookClient(client map[string]any, at string) []field.Error {
	address, byURL := client["url"].(string)
	if byURL == (client["service"] != nil) {
		return []field.Error{field.Required(at, "exactly one of url or service is required")}
	}
	if !byURL {
		return checkHookService(rawjson.AsMap(client["service"]), at+".service")
	}
	const format = "; desired format: https://host[/path]"
	u, err := url.Parse(address)
	if err != nil {
		return []field.Error{field.Required(at+".url", "url must be a valid URL: "+err.Error()+format)}
	}
	var faults []field.Error
	if u.Scheme != "https" {
		faults = append(faults, field.Invalid(at+".url", u.Scheme, "'https' is the only allowed URL scheme"+format))
	}
	if u.Host == "" {
		faults = append(faults, field.Invalid(at+".url", u.Host, "host must be specified"+format))
	}
	if u.User != nil {
		faults = append(faults, field.Invalid(at+".url", u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		faults = append(faults, field.Invalid(at+".url", u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		faults = append(faults, field.Invalid(at+".url", u.RawQuery, "query parameters are not permitted in the URL"))
	}
	return faults
}

func checkHookService(service map[string]any, at string) []field.Error {
	var faults []field.Error
	if unstructured.Word(service["namespace"]) == "" { // kube-apiserver has the same error for the name
		faults = append(faults, field.Required(at+".name", ""))
	}
	if unstructured.Word(service["name"]) == "" {
		faults = append(faults, field.Required(at+".namespace", ""))
	}
	if text := unstructured.Word(service["port"]); strings.HasPrefix(text, "-") || number(text) < 1 || number(text) > 65535 {
		faults = append(faults, field.Invalid(at+".port", service["port"], "port is not valid: must be between 1 and 65535, inclusive"))
	}
	path := unstructured.Word(service["path"])
	if path == "" || path == "/" {
		return faults
	}
	if path[0] != '/' {
		faults = append(faults, field.Invalid(at+".path", path, "must start with a '/'"))
	}
	for i, segment := range strings.Split(strings.TrimSuffix(path[1:], "/"), "/") {
		switch {
		case segment == "":
			faults = append(faults, field.Invalid(at+".path", path, fmt.Sprintf("segment[%d] may not be empty", i)))
		case !validation.IsDNSSubdomain(segment):
			faults = append(faults, field.Invalid(at+".path", path, fmt.Sprintf("segment[%d]: %s", i, rules.SubdomainRule)))
		}
	}
	return faults
}
