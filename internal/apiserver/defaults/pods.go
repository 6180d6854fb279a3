package defaults

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/quantity"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// pullPolicy returns the pull policy for an image: Always if its tag is latest, or if it has neither a tag nor a digest.
func pullPolicy(image any) any {
	name, _ := image.(string)
	name, _, digest := strings.Cut(name, "@")
	path := name[strings.LastIndex(name, "/")+1:]
	path, tag, tagged := strings.Cut(path, ":")
	if path != "" && path == strings.ToLower(path) && (tag == "latest" || !tagged && !digest) {
		return "Always"
	}
	return "IfNotPresent" // also for names that cannot be parsed
}

// now returns the time.
func now(any) any { return Now() }

// schedulingGated returns the conditions of a new pod with scheduling gates.
func schedulingGated(any) any {
	return []any{map[string]any{
		"type": "PodScheduled", "status": "False", "lastProbeTime": nil, "lastTransitionTime": Now(),
		"reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
	}}
}

// qosClass returns the class of a pod by its resources. See https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
func qosClass(spec any) any {
	pod := rawjson.AsMap(spec)
	some, guaranteed := false, true
	for _, resources := range resourcesOf(pod) {
		requests, limits := rawjson.AsMap(resources["requests"]), rawjson.AsMap(resources["limits"])
		for _, name := range []string{"cpu", "memory"} {
			request, limit := amount(requests[name]), amount(limits[name])
			some = some || request.Sign() > 0 || limit.Sign() > 0
			guaranteed = guaranteed && limit.Sign() > 0 && limit.Cmp(request) == 0
		}
	}
	switch {
	case !some:
		return "BestEffort"
	case guaranteed:
		return "Guaranteed"
	}
	return "Burstable"
}

// amount returns a quantity, 0 for other values.
func amount(v any) *quantity.Quantity {
	text, _ := v.(string)
	if n, ok := v.(json.Number); ok {
		text = n.String()
	}
	q, err := quantity.Parse(text)
	if err != nil {
		q, _ = quantity.Parse("0") // it is one
	}
	return q
}

// resourcesOf returns the resources that determine the class of a pod: its own, or those of its containers.
func resourcesOf(pod map[string]any) (all []map[string]any) {
	if own := rawjson.AsMap(pod["resources"]); len(own) > 0 {
		return []map[string]any{own}
	}
	for _, key := range []string{"containers", "initContainers"} {
		list, _ := pod[key].([]any)
		for _, c := range list {
			all = append(all, rawjson.AsMap(rawjson.AsMap(c)["resources"]))
		}
	}
	return all
}

// Now returns the time in the format of objects.
func Now() string { return unstructured.Timestamp(time.Now()) }

// Tolerate adds tolerations to a pod without its own. They let it run for some minutes on a node that is not ready or not reachable.
func Tolerate(spec map[string]any) {
	tolerations, ok := spec["tolerations"].([]any)
	if !ok && spec["tolerations"] != nil {
		return
	}
	all := tolerations
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		tolerated := slices.ContainsFunc(tolerations, func(t any) bool {
			own := rawjson.AsMap(t)
			name, effect := unstructured.Text(own, "key"), unstructured.Text(own, "effect")
			return (name == key || name == "") && (effect == "NoExecute" || effect == "")
		})
		if !tolerated {
			all = append(all, map[string]any{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": json.Number("300")})
		}
	}
	if len(all) > 0 {
		spec["tolerations"] = all
	}
}

// TaintNotReady taints a new node, so that no pods run there until it is ready.
func TaintNotReady(spec map[string]any) {
	taint := map[string]any{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
	taints, _ := spec["taints"].([]any)
	if !slices.ContainsFunc(taints, func(t any) bool {
		own := rawjson.AsMap(t)
		return own["key"] == taint["key"] && own["effect"] == taint["effect"]
	}) {
		spec["taints"] = append(taints, taint)
	}
}

// tokenPath is the directory with the token of the service account in a container.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// MountToken adds a volume for the token of the service account to a pod, and mounts it in all containers that mount nothing at the path.
func MountToken(spec map[string]any, name string) {
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		if own := unstructured.Text(rawjson.AsMap(v), "name"); strings.HasPrefix(own, "kube-api-access-") {
			name = own
		}
	}
	mounted := false
	for _, key := range []string{"initContainers", "containers"} {
		list, _ := spec[key].([]any)
		for _, c := range list {
			container := rawjson.AsMap(c)
			mounts, _ := container["volumeMounts"].([]any)
			if container == nil || slices.ContainsFunc(mounts, func(m any) bool { return rawjson.AsMap(m)["mountPath"] == tokenPath }) {
				continue
			}
			container["volumeMounts"] = append(mounts, map[string]any{"name": name, "readOnly": true, "mountPath": tokenPath})
			mounted = true
		}
	}
	if !mounted || slices.ContainsFunc(volumes, func(v any) bool { return rawjson.AsMap(v)["name"] == name }) {
		return
	}
	sources := []any{
		map[string]any{"serviceAccountToken": map[string]any{"expirationSeconds": json.Number("3607"), "path": "token"}},
		map[string]any{"configMap": map[string]any{"name": "kube-root-ca.crt", "items": []any{map[string]any{"key": "ca.crt", "path": "ca.crt"}}}},
		map[string]any{"downwardAPI": map[string]any{"items": []any{map[string]any{
			"path": "namespace", "fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "metadata.namespace"},
		}}}},
	}
	spec["volumes"] = append(volumes, map[string]any{"name": name, "projected": map[string]any{"sources": sources, "defaultMode": json.Number("420")}})
}

// MergeLabelKeys adds labels of a new pod to the selectors of its affinities and topology spread constraints. Those list the labels in
// matchLabelKeys. See https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
func MergeLabelKeys(pod map[string]any) {
	labels := rawjson.AsMap(rawjson.AsMap(pod["metadata"])["labels"])
	spec := rawjson.AsMap(pod["spec"])
	affinity := rawjson.AsMap(spec["affinity"])
	for _, key := range []string{"podAffinity", "podAntiAffinity"} {
		terms := rawjson.AsMap(affinity[key])
		for _, preferred := range objects(terms["preferredDuringSchedulingIgnoredDuringExecution"]) {
			mergeLabelKeys(rawjson.AsMap(preferred["podAffinityTerm"]), labels)
		}
		for _, term := range objects(terms["requiredDuringSchedulingIgnoredDuringExecution"]) {
			mergeLabelKeys(term, labels)
		}
	}
	for _, constraint := range objects(spec["topologySpreadConstraints"]) {
		mergeLabelKeys(constraint, labels)
	}
}

func mergeLabelKeys(term, labels map[string]any) {
	selector := rawjson.AsMap(term["labelSelector"])
	if selector == nil { // it selects nothing
		return
	}
	for _, by := range [][2]string{{"matchLabelKeys", "In"}, {"mismatchLabelKeys", "NotIn"}} {
		for _, key := range unstructured.Texts(term[by[0]]) {
			if value, ok := labels[key]; ok {
				expressions, _ := selector["matchExpressions"].([]any)
				selector["matchExpressions"] = append(expressions, map[string]any{"key": key, "operator": by[1], "values": []any{value}})
			}
		}
	}
}

// objects returns the objects of a list.
func objects(v any) (all []map[string]any) {
	list, _ := v.([]any)
	for _, e := range list {
		if object := rawjson.AsMap(e); object != nil {
			all = append(all, object)
		}
	}
	return all
}

// AppArmorAnnotation is the prefix of the annotations with the AppArmor profiles of containers.
const AppArmorAnnotation = "container.apparmor.security.beta.kubernetes.io/"

// CopyAppArmor copies the profiles in the annotations of a new pod to the fields that replace the annotations. It returns warnings about the annotations.
func CopyAppArmor(pod map[string]any) (warnings []string) {
	spec := rawjson.AsMap(pod["spec"])
	if rawjson.AsMap(spec["os"])["name"] == "windows" {
		return nil
	}
	annotations := rawjson.AsMap(rawjson.AsMap(pod["metadata"])["annotations"])
	ofPod := rawjson.AsMap(spec["securityContext"])["appArmorProfile"]
	for _, key := range []string{"initContainers", "containers"} {
		for _, container := range objects(spec[key]) {
			annotation := AppArmorAnnotation + unstructured.Text(container, "name")
			text, ok := annotations[annotation].(string)
			context := rawjson.AsMap(container["securityContext"])
			if !ok || context["appArmorProfile"] != nil {
				continue
			}
			profile := AppArmorProfile(text)
			if profile != nil && rawjson.Equal(profile, ofPod) {
				continue
			}
			if profile != nil {
				if context == nil {
					context = make(map[string]any)
					container["securityContext"] = context
				}
				context["appArmorProfile"] = profile
			}
			warnings = append(warnings, AppArmorWarning("metadata.annotations", annotation))
		}
	}
	return warnings
}

// AppArmorWarning returns the warning of an annotation at a path.
func AppArmorWarning(path, annotation string) string {
	return path + "[" + annotation + `]: deprecated since v1.30; use the "appArmorProfile" field instead`
}

// maxProfile is the maximum length of a profile's name, in bytes.
const maxProfile = 4095

// AppArmorProfile returns the profile in an annotation, nil if there is none.
func AppArmorProfile(text string) any {
	name, local := strings.CutPrefix(text, "localhost/")
	switch {
	case text == "runtime/default":
		return map[string]any{"type": "RuntimeDefault"}
	case text == "unconfined":
		return map[string]any{"type": "Unconfined"}
	case local && name != "" && name == strings.TrimSpace(name) && len(name) <= maxProfile:
		return map[string]any{"type": "Localhost", "localhostProfile": name}
	}
	return nil
}
