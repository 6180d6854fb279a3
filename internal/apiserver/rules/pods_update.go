package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func podUpdateFunctions() map[string]function {
	return map[string]function{
		"podAnnotationUpdate": podAnnotationUpdate,
		"podUpdate":           podUpdate,
		"nominatedNode":       nominatedNode,
		"containerStates":     containerStates,
		"podIPs":              podIPs,
	}
}

const mirrorAnnotation = "kubernetes.io/config.mirror"

func podAnnotationUpdate(n *node, _ string, _ []string) {
	annotations := n.at("metadata.annotations")
	old, now := rawjson.AsMap(annotations.old), rawjson.AsMap(annotations.value)
	path := annotations.path + "[" + mirrorAnnotation + "]"
	switch before, after := old[mirrorAnnotation], now[mirrorAnnotation]; {
	case before == after:
	case before == nil:
		n.report(field.Forbidden(path, "may not add mirror pod annotation"))
	default:
		n.report(field.Forbidden(path, "may not remove or update mirror pod annotation"))
	}
	annotations.checkPodAnnotations()
}

const podUpdatable = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
	"`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// podUpdate checks a change to the spec of a pod, most of which is immutable.
func podUpdate(n *node, _ string, _ []string) {
	for _, name := range []string{"containers", "initContainers"} {
		if !podImages(n.child(name)) {
			return
		}
	}
	if !podDeadline(n.child("activeDeadlineSeconds")) {
		return
	}
	podTolerations(n.child("tolerations"))
	podGates(n.child("schedulingGates"))
	old := rawjson.AsMap(n.old)
	spec, _ := rawjson.Clone(n.value).(map[string]any)
	if spec == nil || same(n.value, n.old) {
		return
	}
	for _, name := range []string{"containers", "initContainers"} {
		before, _ := old[name].([]any)
		now, _ := spec[name].([]any)
		for i, c := range now {
			if container := rawjson.AsMap(c); container != nil {
				container["image"] = rawjson.AsMap(before[i])["image"]
			}
		}
	}
	for _, name := range []string{"activeDeadlineSeconds", "schedulingGates", "tolerations"} {
		restoreField(spec, old, name)
	}
	before, now := n.child("terminationGracePeriodSeconds"), n.child("terminationGracePeriodSeconds")
	before.value = before.old
	if before.number() < 0 && now.number() == 1 {
		restoreField(spec, old, "terminationGracePeriodSeconds")
	}
	if gates, _ := old["schedulingGates"].([]any); len(gates) > 0 {
		podNodeSelector(n.child("nodeSelector"))
		restoreField(spec, old, "nodeSelector")
		podNodeAffinity(n, spec, old)
	}
	if !same(spec, n.old) {
		n.forbidden(podUpdatable + difference(n.old, spec))
	}
}

// difference replaces the lines by which kube-apiserver shows the differences of two objects, with the names of Go fields.
func difference(old, now any) string {
	var fields []string
	for _, key := range rawjson.UnionKeys(rawjson.AsMap(old), rawjson.AsMap(now)) {
		before, after := rawjson.AsMap(old)[key], rawjson.AsMap(now)[key]
		if same(before, after) {
			continue
		}
		fields = append(fields, fmt.Sprintf("- %s: %s\n+ %s: %s\n", key, encoded(before), key, encoded(after)))
	}
	return "\n" + strings.Join(fields, "")
}

func encoded(v any) string {
	data, _ := rawjson.Encode(v)
	return string(data)
}

func restoreField(spec, old map[string]any, name string) {
	if v, ok := old[name]; ok {
		spec[name] = v
	} else {
		delete(spec, name)
	}
}

// podImages checks changed images, and reports whether the number of containers is the same.
func podImages(n *node) bool {
	before, _ := n.old.([]any)
	now := n.items()
	if len(before) != len(now) {
		n.forbidden("pod updates may not add or remove containers")
		return false
	}
	for _, container := range now {
		image := container.child("image")
		if image.text() == "" {
			image.required("")
		}
		image.format(trimmed)
	}
	return true
}

// podDeadline checks a changed deadline, and reports whether the check continues.
func podDeadline(n *node) bool {
	before := &node{value: n.old}
	switch {
	case n.value == nil:
		if n.old != nil {
			n.report(field.Invalid(n.path, nil, "must not update from a positive integer to nil value"))
		}
	case n.number() < 0 || n.number() > 1<<31-1:
		n.invalid("must be between 0 and 2147483647, inclusive")
		return false
	case n.old != nil && before.number() < n.number():
		n.invalid("must be less than or equal to previous value")
		return false
	}
	return true
}

// podTolerations refuses to change or remove tolerations.
func podTolerations(n *node) {
	old, _ := n.old.([]any)
	for _, o := range old {
		wanted, _ := rawjson.Clone(o).(map[string]any)
		found := slices.ContainsFunc(n.items(), func(item *node) bool {
			now, _ := rawjson.Clone(item.value).(map[string]any)
			delete(now, "tolerationSeconds")
			delete(wanted, "tolerationSeconds")
			return rawjson.Equal(wanted, now)
		})
		if !found {
			n.forbidden("existing toleration can not be modified except its tolerationSeconds")
			return
		}
	}
	for _, item := range n.items() {
		item.apply("Toleration")
	}
}

func podGates(n *node) {
	before := (&node{value: n.old}).names()
	for _, gate := range n.items() {
		if name := gate.child("name"); !slices.Contains(before, name.text()) {
			name.forbidden(fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", name.text()))
		}
	}
}

// names returns the names of the items.
func (n *node) names() []string {
	var all []string
	for _, item := range n.items() {
		all = append(all, item.string("name"))
	}
	return all
}

func podNodeSelector(n *node) {
	for key, value := range rawjson.AsMap(n.old) {
		if !rawjson.Equal(rawjson.AsMap(n.value)[key], value) {
			n.invalid("only additions to spec.nodeSelector are allowed (no mutations or deletions)")
			return
		}
	}
}

// podNodeAffinity checks a change to the node affinity of a pod with scheduling gates. It then reverts the change for the following checks.
func podNodeAffinity(n *node, spec, old map[string]any) {
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	affinity := n.at("affinity.nodeAffinity")
	terms := affinity.at(required + ".nodeSelectorTerms")
	before, _ := terms.old.([]any)
	now, _ := terms.value.([]any)
	switch {
	case len(before) == 0:
	case len(before) != len(now):
		terms.report(field.Invalid(terms.path, terms.value, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"))
	default:
		for i, term := range terms.items() {
			if !extends(term.value, before[i]) {
				term.invalid("only additions are allowed (no mutations or deletions)")
			}
		}
	}
	mine, theirs := rawjson.AsMap(spec["affinity"]), rawjson.AsMap(old["affinity"])
	switch {
	case mine == nil && theirs["nodeAffinity"] != nil:
		spec["affinity"] = map[string]any{"nodeAffinity": theirs["nodeAffinity"]}
	case mine != nil && theirs == nil && mine["podAffinity"] == nil && mine["podAntiAffinity"] == nil:
		delete(spec, "affinity")
	case mine != nil:
		restoreField(mine, theirs, "nodeAffinity")
	}
}

// extends reports whether a term contains another one, and possibly more after that.
func extends(term, old any) bool {
	empty := true
	for _, key := range []string{"matchExpressions", "matchFields"} {
		before, _ := rawjson.AsMap(old)[key].([]any)
		now, _ := rawjson.AsMap(term)[key].([]any)
		if len(now) < len(before) || !slices.EqualFunc(now[:len(before)], before, rawjson.Equal) {
			return false
		}
		empty = empty && len(before) == 0
	}
	return !empty || isEmpty(rawjson.AsMap(term)["matchExpressions"]) && isEmpty(rawjson.AsMap(term)["matchFields"])
}

func nominatedNode(n *node, _ string, _ []string) {
	name := n.child("nominatedNodeName")
	if name.text() == "" || name.value == name.old {
		return
	}
	name.format(Subdomain)
	if n.parent.string("spec.nodeName") != "" {
		name.forbidden("may not be set on pods that are already bound to a node")
	}
}

// containerStates refuses that a terminated container runs again, unless the pod restarts it.
func containerStates(n *node, _ string, _ []string) {
	policy := n.string("spec.restartPolicy")
	for _, kind := range []string{"containers/containerStatuses", "initContainers/initContainerStatuses", "ephemeralContainers/ephemeralContainerStatuses"} {
		containers, statuses, _ := strings.Cut(kind, "/")
		now := n.at("status." + statuses)
		before := &node{value: now.old, path: now.path, run: n.run}
		for _, old := range before.items() {
			code := old.at("state.terminated.exitCode")
			status := now.named(old.string("name"))
			if !old.has("state.terminated") || status == nil || status.has("state.terminated") {
				continue
			}
			own := policy
			if container := n.at("spec." + containers).named(old.string("name")); container != nil && container.string("restartPolicy") != "" {
				own = container.string("restartPolicy")
			}
			restarts := own == "" || own == "Always" || own == "OnFailure" && code.number() != 0
			if containers == "ephemeralContainers" || !restarts {
				old.child("state").forbidden("may not be transitioned to non-terminated state")
			}
		}
	}
}

func podIPs(n *node, _ string, _ []string) {
	for _, name := range []string{"podIPs", "hostIPs"} {
		list := n.child(name)
		ips := list.items()
		if first := n.child("hostIP"); name == "hostIPs" && len(ips) > 0 && first.text() != ips[0].string("ip") {
			ips[0].child("ip").invalidText("must be equal to `hostIP`")
		}
		families := make(map[bool]bool)
		for _, item := range ips {
			address := item.child("ip")
			address.path = item.path
			address.format(ip)
			addr, _ := sloppyAddr(address.text())
			families[addr.Is4()] = true
		}
		if len(ips) > 1 && (len(families) < 2 || len(ips) > 2) {
			list.report(field.Invalid(list.path, ipForm(list), "may specify no more than one IP for each IP family"))
		}
	}
}

// ipForm returns a list of addresses for errors.
func ipForm(n *node) any {
	all := []any{}
	for _, item := range n.items() {
		all = append(all, map[string]any{"IP": item.string("ip")})
	}
	return all
}
