package rules

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Warnings returns the warnings about a valid object of a built-in kind. The live object is nil for creations.
func Warnings(group, kind string, live, object map[string]any) []string {
	set := setOf(group, kind) + ".warnings"
	if live != nil {
		set += ".update"
	}
	if _, ok := table().sets[set]; !ok {
		return nil
	}
	run := &run{update: live != nil}
	n := &node{value: object, run: run}
	if live != nil {
		n.old = live
	}
	n.apply(set)
	return run.warnings
}

func warningFunctions() map[string]function {
	return map[string]function{
		"hostnameWarning":     hostnameWarning,
		"labelWarnings":       labelWarnings,
		"labelWarning":        labelWarning,
		"valueWarnings":       valueWarnings,
		"overlapWarnings":     overlapWarnings,
		"selectorWarning":     selectorWarning,
		"duplicateWarning":    duplicateWarning,
		"containerWarnings":   containerWarnings,
		"seccompWarning":      seccompWarning,
		"fractionWarning":     fractionWarning,
		"keyPairWarning":      keyPairWarning,
		"quotaWarnings":       quotaWarnings,
		"indexedWarning":      indexedWarning,
		"changedTemplate":     changedTemplate,
		"negativeWarning":     negativeWarning,
		"ingressClassWarning": ingressClassWarning,
	}
}

func (n *node) warn(text string) { n.warnPlainly(n.path + ": " + text) }

// warnPlainly adds a warning once.
func (n *node) warnPlainly(text string) {
	if !slices.Contains(n.run.warnings, text) {
		n.run.warnings = append(n.run.warnings, text)
	}
}

// hostnameWarning warns of names that are no DNS labels.
func hostnameWarning(n *node, text string, _ []string) {
	if wrong := Label(n.text()); len(wrong) > 0 {
		n.warn(fmt.Sprintf("%s: %v", text, wrong))
	}
}

// labelAdvice returns the replacement of a deprecated node label, "" for other labels.
func labelAdvice(key string) string {
	switch key {
	case "beta.kubernetes.io/arch":
		return `deprecated since v1.14; use "kubernetes.io/arch" instead`
	case "beta.kubernetes.io/os":
		return `deprecated since v1.14; use "kubernetes.io/os" instead`
	case "failure-domain.beta.kubernetes.io/region":
		return `deprecated since v1.17; use "topology.kubernetes.io/region" instead`
	case "failure-domain.beta.kubernetes.io/zone":
		return `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`
	case "beta.kubernetes.io/instance-type":
		return `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`
	case "app.kubernetes.io/created-by":
		return "deprecated since v1.9"
	case "scheduler.alpha.kubernetes.io/preferAvoidPods":
		return "deprecated since v1.22; use Taints and Tolerations instead"
	}
	return ""
}

func labelWarnings(n *node, _ string, _ []string) {
	for _, entry := range n.entries() {
		if advice := labelAdvice(entry.key()); advice != "" {
			entry.warn(advice)
		}
	}
}

func labelWarning(n *node, _ string, _ []string) {
	if advice := labelAdvice(n.text()); advice != "" {
		n.warn(n.text() + " is " + advice)
	}
}

// valueWarnings warns of values that are invalid in labels.
func valueWarnings(n *node, _ string, _ []string) {
	for _, value := range n.items() {
		for _, detail := range LabelValue(value.text()) {
			value.warn(value.text() + " is invalid, " + detail)
		}
	}
}

// overlapWarnings warns of overlapping paths in a volume.
func overlapWarnings(n *node, _ string, _ []string) {
	name := n.string("name")
	n.warnOfOverlaps(name, fmt.Sprintf("ConfigMap %q", n.string("configMap.name")), n.at("configMap.items").pathsOf(""))
	n.warnOfOverlaps(name, fmt.Sprintf("Secret %q", n.string("secret.secretName")), n.at("secret.items").pathsOf(""))
	n.warnOfOverlaps(name, "DownwardAPI", n.at("downwardAPI.items").pathsOf(""))
	var all [][2]string
	for _, source := range n.at("projected.sources").items() {
		if source.count("secret", "configMap", "downwardAPI", "serviceAccountToken") == 0 {
			n.warnPlainly(fmt.Sprintf("volume %q (Projected) has no sources provided", name))
		}
		all = append(all, source.at("configMap.items").pathsOf(fmt.Sprintf(" (ConfigMap %q)", source.string("configMap.name")))...)
		all = append(all, source.at("secret.items").pathsOf(fmt.Sprintf(" (Secret %q)", source.string("secret.name")))...)
		all = append(all, source.at("downwardAPI.items").pathsOf(" (DownwardAPI)")...)
		if path := source.string("serviceAccountToken.path"); path != "" {
			all = append(all, [2]string{path, " (ServiceAccountToken)"})
		}
	}
	n.warnOfOverlaps(name, "Projected", all)
}

// pathsOf returns the paths of the items of a source, and the source.
func (n *node) pathsOf(source string) (all [][2]string) {
	for _, item := range n.items() {
		all = append(all, [2]string{item.string("path"), source})
	}
	return all
}

func (n *node) warnOfOverlaps(volume, what string, paths [][2]string) {
	for i, a := range paths {
		for _, b := range paths[:i] {
			path, other := strings.TrimRight(a[0], "/"), strings.TrimRight(b[0], "/")
			if path != "" && (path == other || strings.HasPrefix(path, other+"/") || strings.HasPrefix(other, path+"/")) {
				n.warnPlainly(fmt.Sprintf("volume %q (%s): overlapping paths: %q%s with %q%s", volume, what, path, a[1], other, b[1]))
			}
		}
	}
}

func selectorWarning(n *node, _ string, _ []string) {
	if n.value == nil {
		n.warn("a null labelSelector results in matching no pod")
	}
}

// duplicateWarning warns of a value that an earlier item has, too.
func duplicateWarning(n *node, what string, _ []string) {
	name := n.path[strings.LastIndex(n.path, ".")+1:]
	if slices.ContainsFunc(n.parent.before(), func(other *node) bool { return other.string(name) == n.text() }) {
		n.warn(fmt.Sprintf("duplicate %s %q", what, n.text()))
	}
}

func fractionWarning(n *node, _ string, _ []string) {
	if q, ok := n.quantity(); ok && !q.IsWhole() {
		n.path = n.parent.path + "[" + n.path[len(n.parent.path)+1:] + "]"
		n.warn(fmt.Sprintf("fractional byte value %q is invalid, must be an integer", q))
	}
}

// containerWarnings warns of duplicates in the containers of a pod.
func containerWarnings(n *node, _ string, _ []string) {
	containers := n.containers()
	for _, container := range containers {
		n.parent.warnOfProfiles(container)
		for _, name := range []string{"memory", "ephemeral-storage"} {
			for _, list := range []string{"limits", "requests"} {
				fractionWarning(container.at("resources."+list).child(name), "", nil)
			}
		}
		for _, variable := range container.child("env").items() {
			hiddenVariable(variable)
		}
	}
	portWarnings(containers)
	names := make(map[string]string)
	for _, port := range portsOf(containers) {
		name := port.string("name")
		if first, found := names[name]; found && name != "" {
			port.warn(fmt.Sprintf("duplicate port name %q with %s, services and probes that select ports by name will use %s", name, first, first))
		} else {
			names[name] = port.path
		}
	}
}

// hiddenVariable warns of a variable that replaces another one of its name without referring to it.
func hiddenVariable(n *node) {
	name, value := n.string("name"), n.string("value")
	reference := "$(" + name + ")"
	hides := n.has("valueFrom") || value == reference || !strings.Contains(value, reference)
	if hides && slices.ContainsFunc(n.before(), func(other *node) bool { return other.string("name") == name }) {
		n.warn(fmt.Sprintf("hides previous definition of %q, which may be dropped when using apply", name))
	}
}

func portsOf(containers []*node) []*node {
	var all []*node
	for _, container := range containers {
		all = append(all, container.child("ports").items()...)
	}
	return all
}

func portWarnings(containers []*node) {
	ports := portsOf(containers)
	for i, port := range ports {
		for _, other := range ports[:i] {
			if port.child("containerPort").number() != other.child("containerPort").number() || port.protocol() != other.protocol() {
				continue
			}
			ip, otherIP := port.string("hostIP"), other.string("hostIP")
			host, otherHost := port.child("hostPort").number(), other.child("hostPort").number()
			switch {
			case ip == otherIP && host == otherHost:
				port.warn("duplicate port definition with " + other.path)
			case host == 0 || otherHost == 0:
				port.warn("overlapping port definition with " + other.path)
			case host == otherHost && (ip == "") != (otherIP == ""):
				port.warn("dangerously ambiguous port definition with " + other.path)
			}
		}
	}
}

// keyPairWarning warns of a key that does not belong to its certificate.
func keyPairWarning(n *node, _ string, _ []string) {
	if _, err := tls.X509KeyPair(n.child("tls.crt").bytes(), n.child("tls.key").bytes()); err != nil {
		n.warnPlainly(err.Error())
	}
}

// quotaWarnings warns of requests that may exceed the limits.
func quotaWarnings(n *node, _ string, _ []string) {
	for _, resource := range []string{"cpu", "memory", "ephemeral-storage"} {
		name := "requests." + resource
		request, ok := n.child(name).quantity()
		if !ok && resource != "ephemeral-storage" {
			name = resource
			request, ok = n.child(name).quantity()
		}
		limit, limited := n.child("limits." + resource).quantity()
		if ok && limited && request.Cmp(limit) > 0 {
			n.warnPlainly(fmt.Sprintf("ResourceQuota %s (%s) should be less than limits.%s (%s)", name, request, resource, limit))
		}
	}
}

func indexedWarning(n *node, text string, _ []string) {
	if n.string("completionMode") == "Indexed" && n.child("completions").number() > 100000 && n.child("parallelism").number() > 10000 {
		n.warn(text)
	}
}

// changedTemplate warns of the pod template in an object whose spec has changed.
func changedTemplate(n *node, _ string, _ []string) {
	if !rawjson.Equal(n.value, n.old) {
		n.child("template").apply("TemplateWarnings")
	}
}

func negativeWarning(n *node, text string, _ []string) {
	if n.number() < 0 {
		n.warn(text)
	}
}

func ingressClassWarning(n *node, _ string, _ []string) {
	const name = "kubernetes.io/ingress.class"
	if n.child(name).value != nil {
		n.warnPlainly(fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", name))
	}
}
