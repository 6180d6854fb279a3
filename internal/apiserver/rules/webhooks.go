package rules

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

func webhookFunctions() map[string]function {
	return map[string]function{
		"threeLabels":      threeLabels,
		"starAlone":        starAlone,
		"webhookResources": webhookResources,
		"webhookClient":    webhookClient,
		"reviewVersions":   reviewVersions,
		"matchConditions":  matchConditions,
	}
}

// threeLabels checks the name of a webhook, which must be a domain name of three labels.
func threeLabels(n *node, detail string, _ []string) {
	switch name := n.text(); {
	case name == "":
		n.required("")
	case !validation.IsDNSSubdomain(name):
		n.invalidText(SubdomainRule)
	case strings.Count(name, ".") < 2:
		n.invalidText(detail)
	}
}

// starAlone checks a list in which a star must be alone.
func starAlone(n *node, detail string, _ []string) {
	if all := n.texts(); len(all) > 1 && slices.Contains(all, "*") {
		n.invalid(detail)
	}
}

// webhookResources checks that no resource of a rule includes another one. Resources and subresources, which follow a slash, may be stars.
func webhookResources(n *node, _ string, _ []string) {
	taken := make(map[string]bool)
	star, plain := false, false
	for _, item := range n.items() {
		text := item.text()
		resource, subresource, ok := strings.Cut(text, "/")
		switch {
		case text == "":
			item.required("")
			continue
		case !ok:
			star, plain = star || text == "*", plain || text != "*"
			continue
		}
		for _, wider := range []string{"*/" + subresource, resource + "/*"} {
			if taken[wider] {
				item.invalid(fmt.Sprintf("if '%s' is present, must not specify %s", wider, text))
			}
		}
		taken[text] = true
	}
	switch all := n.texts(); {
	case len(all) > 1 && slices.Contains(all, "*/*"):
		n.invalid("if '*/*' is present, must not specify other resources")
	case star && plain:
		n.invalid("if '*' is present, must not specify other resources without subresources")
	}
}

// matchConditions checks conditions in CEL, except for their expressions.
func matchConditions(n *node, _ string, _ []string) {
	names := make(map[string]bool)
	for _, item := range n.items() {
		if expression := item.child("expression"); strings.TrimSpace(expression.text()) == "" {
			expression.required("")
		}
		switch name := item.child("name"); {
		case name.text() == "":
			name.required("")
		case names[name.text()]:
			name.report(field.Duplicate(name.path, name.text()))
		default:
			names[name.text()] = true
			name.format(QualifiedName)
		}
	}
}

func reviewVersions(n *node, detail string, _ []string) {
	if versions := n.texts(); len(versions) == 0 {
		n.required(detail)
	} else {
		n.run.faults = append(n.run.faults, ReviewVersions(versions, n.path)...)
	}
}

// ReviewVersions validates the review versions that a webhook supports. There must be one.
func ReviewVersions(versions []string, path string) (faults []field.Error) {
	for i, version := range versions {
		at := fmt.Sprintf("%s[%d]", path, i)
		if slices.Contains(versions[:i], version) {
			faults = append(faults, field.Invalid(at, version, "duplicate version"))
			continue
		}
		if wrong := Label1035(version); wrong != nil {
			faults = append(faults, field.Invalid(at, version, strings.Join(wrong, ",")))
		}
	}
	if !slices.Contains(versions, "v1") && !slices.Contains(versions, "v1beta1") {
		faults = append(faults, field.Invalid(path, versions, "must include at least one of v1, v1beta1"))
	}
	return faults
}

func webhookClient(n *node, _ string, _ []string) {
	n.run.faults = append(n.run.faults, WebhookClient(rawjson.AsMap(n.value), n.path)...)
}

// WebhookClient validates the address of a webhook.
func WebhookClient(client map[string]any, path string) []field.Error {
	address, byURL := client["url"].(string)
	if byURL == (client["service"] != nil) {
		return []field.Error{field.Required(path, "exactly one of url or service is required")}
	}
	run := &run{}
	n := &node{value: client, path: path, run: run}
	if byURL {
		n.child("url").checkWebhookURL(address)
	} else {
		n.child("service").checkWebhookService()
	}
	return run.faults
}

func (n *node) checkWebhookURL(address string) {
	const format = "; desired format: https://host[/path]"
	u, err := url.Parse(address)
	if err != nil {
		n.required("url must be a valid URL: " + err.Error() + format)
		return
	}
	wrong := func(part, detail string) { n.report(field.Invalid(n.path, part, detail)) }
	if u.Scheme != "https" {
		wrong(u.Scheme, "'https' is the only allowed URL scheme"+format)
	}
	if u.Host == "" {
		wrong(u.Host, "host must be specified"+format)
	}
	if u.User != nil {
		wrong(u.User.String(), "user information is not permitted in the URL")
	}
	if u.Fragment != "" {
		wrong(u.Fragment, "fragments are not permitted in the URL")
	}
	if u.RawQuery != "" {
		wrong(u.RawQuery, "query parameters are not permitted in the URL")
	}
}

func (n *node) checkWebhookService() {
	if n.string("namespace") == "" { // kube-apiserver has the same error for the name
		n.child("name").required("")
	}
	if n.string("name") == "" {
		n.child("namespace").required("")
	}
	n.child("port").checkRange(1, 65535, "port is not valid: must be between 1 and 65535, inclusive")
	n = n.child("path")
	path := n.text()
	if path == "" || path == "/" {
		return
	}
	if path[0] != '/' {
		n.invalidText("must start with a '/'")
	}
	for i, segment := range strings.Split(strings.TrimSuffix(path[1:], "/"), "/") {
		switch {
		case segment == "":
			n.invalidText(fmt.Sprintf("segment[%d] may not be empty", i))
		case !validation.IsDNSSubdomain(segment):
			n.invalidText(fmt.Sprintf("segment[%d]: %s", i, SubdomainRule))
		}
	}
}
