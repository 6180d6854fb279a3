package table

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file has the functions for columns.txt. Each formats a cell from a value that may be missing.

const (
	none    = "<none>"
	unset   = "<unset>"
	unknown = "<unknown>"
)

// call returns the result of a function of columns.txt. The functions for pods are in pods.go, those for the network and for nodes in network.go.
func call(function string, v any, now time.Time) any {
	switch function {
	case "number":
		return number(v)
	case "bool":
		return v == true
	case "boolOrTrue":
		return v != false
	case "title":
		return title(v)
	case "count":
		return count(v)
	case "countBoth":
		return count(at(v, "data")) + count(at(v, "binaryData"))
	case "joined":
		return or(strings.Join(unstructured.Texts(v), ","), none)
	case "trimmed":
		return strings.TrimSpace(unstructured.Word(v))
	case "names":
		return strings.Join(each(v, "name"), ",")
	case "images":
		return strings.Join(each(v, "image"), ",")
	case "labels":
		return formatLabels(v)
	case "selector":
		return formatSelector(v)
	case "controller":
		return controller(v)
	}
	if cell, ok := callForTime(function, v, now); ok {
		return cell
	}
	if cell, ok := callForPods(function, v, now); ok {
		return cell
	}
	if cell, ok := callForNetwork(function, v); ok {
		return cell
	}
	return callForOthers(function, v)
}

func callForTime(function string, v any, now time.Time) (cell any, ok bool) {
	switch function {
	case "age":
		return since(v, now), true
	case "ageOrNone":
		if v == nil {
			return none, true
		}
		return since(v, now), true
	case "seconds":
		if v == nil {
			return none, true
		}
		return humanDuration(time.Duration(unstructured.Whole(v)) * time.Second), true
	case "lastSeen":
		return lastSeen(v, now), true
	case "firstSeen":
		return firstSeen(v, now), true
	}
	return nil, false
}

func callForOthers(function string, v any) any {
	switch function {
	case "targets":
		return targets(v)
	case "quotaRequests":
		return quota(v, false)
	case "quotaLimits":
		return quota(v, true)
	case "accessModes":
		return accessModes(v)
	case "volumePhase":
		if at(v, "metadata.deletionTimestamp") != nil {
			return "Terminating"
		}
		return unstructured.Word(at(v, "status.phase"))
	case "claim":
		if v == nil {
			return ""
		}
		return unstructured.Word(at(v, "namespace")) + "/" + unstructured.Word(at(v, "name"))
	case "claimCapacity":
		if unstructured.Word(at(v, "spec.volumeName")) == "" {
			return ""
		}
		return or(unstructured.Word(at(v, "status.capacity.storage")), "0")
	case "claimModes":
		if unstructured.Word(at(v, "spec.volumeName")) == "" {
			return ""
		}
		return accessModes(at(v, "status.accessModes"))
	case "users":
		return subjects(v, "User")
	case "groups":
		return subjects(v, "Group")
	case "accounts":
		return subjects(v, "ServiceAccount")
	case "audiences":
		if v == nil {
			return unset
		}
		return strings.Join(each(v, "audience"), ",")
	case "requestStatus":
		return requestStatus(v)
	case "paramKind":
		if v == nil {
			return unset
		}
		return unstructured.Word(at(v, "apiVersion")) + "/" + unstructured.Word(at(v, "kind"))
	case "paramRef":
		return paramRef(v)
	case "default":
		if isDefault(v) {
			return " (default)"
		}
		return ""
	case "involved":
		return strings.TrimSuffix(strings.ToLower(unstructured.Word(at(v, "kind")))+"/"+unstructured.Word(at(v, "name")), "/")
	case "source":
		source := or(unstructured.Word(at(v, "source.component")), unstructured.Word(at(v, "reportingComponent")))
		if instance := or(unstructured.Word(at(v, "source.host")), unstructured.Word(at(v, "reportingInstance"))); instance != "" {
			source += ", " + instance
		}
		return source
	case "occurrences":
		if series := at(v, "series"); series != nil {
			return unstructured.Whole(at(series, "count"))
		}
		return max(unstructured.Whole(at(v, "count")), 1)
	}
	return "unknown function " + function
}

// at returns the value at a path, nil if there is none.
func at(v any, path string) any {
	found, _ := rawjson.Lookup(v, rawjson.SplitPath(path)...)
	return found
}

// items returns the objects of a list.
func items(v any) []map[string]any {
	var all []map[string]any
	list, _ := v.([]any)
	for _, e := range list {
		all = append(all, rawjson.AsMap(e))
	}
	return all
}

func number(v any) any {
	if n, ok := v.(json.Number); ok {
		return n
	}
	return 0
}

func title(v any) string {
	switch v {
	case true:
		return "True"
	case false:
		return "False"
	}
	return unset
}

func count(v any) int {
	switch v := v.(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	}
	return 0
}

// each returns the text at a key of each object of a list.
func each(v any, key string) []string {
	var all []string
	for _, item := range items(v) {
		all = append(all, unstructured.Word(item[key]))
	}
	return all
}

func or(first, second string) string {
	if first != "" {
		return first
	}
	return second
}

func formatLabels(v any) string {
	labels := rawjson.AsMap(v)
	var all []string
	for _, key := range rawjson.SortedKeys(labels) {
		all = append(all, key+"="+unstructured.Word(labels[key]))
	}
	return or(strings.Join(all, ","), none)
}

// formatSelector returns a label selector in the form of kubectl get -l.
func formatSelector(v any) string {
	type requirement struct{ key, text string }
	var all []requirement
	labels := rawjson.AsMap(at(v, "matchLabels"))
	for key, value := range labels {
		all = append(all, requirement{key, key + "=" + unstructured.Word(value)})
	}
	for _, e := range items(at(v, "matchExpressions")) {
		key := unstructured.Word(e["key"])
		values := slices.Sorted(slices.Values(unstructured.Texts(e["values"])))
		words := map[string]string{
			"In": key + " in (" + strings.Join(values, ",") + ")", "NotIn": key + " notin (" + strings.Join(values, ",") + ")",
			"Exists": key, "DoesNotExist": "!" + key,
		}
		all = append(all, requirement{key, words[unstructured.Word(e["operator"])]})
	}
	slices.SortStableFunc(all, func(a, b requirement) int { return cmp.Compare(a.key, b.key) })
	var texts []string
	for _, r := range all {
		texts = append(texts, r.text)
	}
	return or(strings.Join(texts, ","), none)
}

// controller returns the controlling owner of an object.
func controller(owners any) string {
	for _, owner := range items(owners) {
		if owner["controller"] != true {
			continue
		}
		kind := unstructured.Word(owner["kind"])
		if group, _, ok := strings.Cut(unstructured.Word(owner["apiVersion"]), "/"); ok {
			kind += "." + group
		}
		return strings.ToLower(kind) + "/" + unstructured.Word(owner["name"])
	}
	return none
}

// since returns the time since a timestamp.
func since(v any, now time.Time) string {
	if v == nil {
		return unknown
	}
	return age(unstructured.Word(v), now)
}

func firstSeen(event any, now time.Time) string {
	if first := at(event, "firstTimestamp"); first != nil {
		return since(first, now)
	}
	return since(at(event, "eventTime"), now)
}

func lastSeen(event any, now time.Time) string {
	if series := at(event, "series"); series != nil {
		return since(at(series, "lastObservedTime"), now)
	}
	if last := at(event, "lastTimestamp"); last != nil {
		return since(last, now)
	}
	return firstSeen(event, now)
}

// targets returns the measured and the target values of a HorizontalPodAutoscaler.
func targets(scaler any) string {
	statuses := items(at(scaler, "status.currentMetrics"))
	var all []string
	for i, metric := range items(at(scaler, "spec.metrics")) {
		kind := unstructured.Word(metric["type"])
		source := strings.ToLower(kind[:min(1, len(kind))]) + kind[min(1, len(kind)):]
		var current any
		if i < len(statuses) {
			current = at(statuses[i], source+".current")
		}
		all = append(all, target(source, metric[source], current))
	}
	return firstOf(all, 2, ", ", none)
}

func target(source string, spec, current any) string {
	aim, prefix, suffix, percent := at(spec, "target"), "", "", false
	switch source {
	case "resource", "containerResource":
		prefix, percent = unstructured.Word(at(spec, "name"))+": ", true
	case "external", "object":
		suffix = " (avg)"
	case "pods":
	default:
		return "<unknown type>"
	}
	if want := unstructured.Word(at(aim, "averageValue")); want != "" {
		return prefix + or(unstructured.Word(at(current, "averageValue")), unknown) + "/" + want + suffix
	}
	if !percent {
		return or(unstructured.Word(at(current, "value")), unknown) + "/" + or(unstructured.Word(at(aim, "value")), "0")
	}
	want, have := "<auto>", unknown
	if n := unstructured.Word(at(aim, "averageUtilization")); n != "" {
		want = n + "%"
	}
	if n := unstructured.Word(at(current, "averageUtilization")); n != "" {
		have = n + "%"
	}
	return prefix + have + "/" + want
}

// firstOf joins the first n texts, and adds the number of the others.
func firstOf(all []string, n int, separator, empty string) string {
	if len(all) > n {
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:n], separator), len(all)-n)
	}
	return or(strings.Join(all, separator), empty)
}

// quota returns the usage of a ResourceQuota, either for limits of resources or for all others.
func quota(status any, limits bool) string {
	hard := rawjson.AsMap(at(status, "hard"))
	var all []string
	for _, name := range rawjson.SortedKeys(hard) {
		if strings.HasPrefix(name, "limits.") != limits {
			continue
		}
		used := or(unstructured.Word(rawjson.AsMap(at(status, "used"))[name]), "0")
		all = append(all, fmt.Sprintf("%s: %s/%s", name, used, unstructured.Word(hard[name])))
	}
	return strings.Join(all, ", ")
}

func accessModes(v any) string {
	modes := unstructured.Texts(v)
	var all []string
	for _, mode := range []struct{ name, short string }{
		{"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"}, {"ReadWriteOncePod", "RWOP"},
	} {
		if slices.Contains(modes, mode.name) {
			all = append(all, mode.short)
		}
	}
	return strings.Join(all, ",")
}

// subjects returns the subjects of a kind in a role binding.
func subjects(v any, kind string) string {
	var all []string
	for _, subject := range items(v) {
		name := unstructured.Word(subject["name"])
		if kind == "ServiceAccount" {
			name = unstructured.Word(subject["namespace"]) + "/" + name
		}
		if subject["kind"] == kind {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}

// requestStatus returns the status of a CertificateSigningRequest.
func requestStatus(status any) string {
	has := func(typ string) bool { return condition(status, typ) != nil }
	said := "Pending"
	switch {
	case has("Denied"):
		said = "Denied"
	case has("Approved"):
		said = "Approved"
	}
	if has("Failed") {
		said += ",Failed"
	}
	if unstructured.Word(at(status, "certificate")) != "" {
		said += ",Issued"
	}
	return said
}

// condition returns the first condition of a type in a status, nil if there is none.
func condition(status any, typ string) map[string]any {
	for _, c := range items(at(status, "conditions")) {
		if c["type"] == typ {
			return c
		}
	}
	return nil
}

func isTrue(status any, typ string) bool { return condition(status, typ)["status"] == "True" }

// isDefault reports whether annotations mark a class as the default.
func isDefault(annotations any) bool {
	for _, key := range []string{"storageclass.kubernetes.io", "storageclass.beta.kubernetes.io", "ingressclass.kubernetes.io"} {
		if rawjson.AsMap(annotations)[key+"/is-default-class"] == "true" {
			return true
		}
	}
	return false
}

func paramRef(ref any) string {
	name := unstructured.Word(at(ref, "name"))
	switch {
	case ref == nil || name == "" && at(ref, "selector") == nil:
		return unset
	case name == "":
		return goSelector(at(ref, "selector"))
	}
	return or(unstructured.Word(at(ref, "namespace")), "*") + "/" + name
}

// goSelector returns a label selector in Go syntax, as kube-apiserver prints those of bindings.
func goSelector(v any) string {
	labels := rawjson.AsMap(at(v, "matchLabels"))
	var text strings.Builder
	text.WriteString("&LabelSelector{MatchLabels:map[string]string{")
	for _, key := range rawjson.SortedKeys(labels) {
		fmt.Fprintf(&text, "%s: %s,", key, labels[key])
	}
	text.WriteString("},MatchExpressions:[]LabelSelectorRequirement{")
	for _, e := range items(at(v, "matchExpressions")) {
		fmt.Fprintf(&text, "LabelSelectorRequirement{Key:%v,Operator:%v,Values:%v,},", e["key"], e["operator"], unstructured.Texts(e["values"]))
	}
	text.WriteString("},}")
	return text.String()
}
