package apiserver

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Autoscalers are served in two versions, and stored in v2. Version v1 has a field for CPU utilization only, and keeps all else in annotations, so
// that its clients preserve it. See https://kubernetes.io/docs/reference/kubernetes-api/autoscaling/horizontal-pod-autoscaler-v1/

const (
	metricsAnnotation        = "autoscaling.alpha.kubernetes.io/metrics"
	currentMetricsAnnotation = "autoscaling.alpha.kubernetes.io/current-metrics"
	behaviorAnnotation       = "autoscaling.alpha.kubernetes.io/behavior"
	conditionsAnnotation     = "autoscaling.alpha.kubernetes.io/conditions"
)

// metricFields are the fields of metrics in v1, each with its path in v2. A field with a ! is always present.
const metricFields = `
object target=describedObject metricName=metric.name targetValue!=target.value selector=metric.selector averageValue=target.averageValue
pods metricName=metric.name targetAverageValue!=target.averageValue selector=metric.selector
resource name=name targetAverageUtilization=target.averageUtilization targetAverageValue=target.averageValue
containerResource name=name targetAverageUtilization=target.averageUtilization targetAverageValue=target.averageValue container=container
external metricName=metric.name metricSelector=metric.selector targetValue=target.value targetAverageValue=target.averageValue`

// currentMetricFields are the same for the metrics in the status.
const currentMetricFields = `
object target=describedObject metricName=metric.name currentValue!=current.value selector=metric.selector averageValue=current.averageValue
pods metricName=metric.name currentAverageValue!=current.averageValue selector=metric.selector
resource name=name currentAverageUtilization=current.averageUtilization currentAverageValue!=current.averageValue
containerResource name=name currentAverageUtilization=current.averageUtilization currentAverageValue!=current.averageValue container=container
external metricName=metric.name metricSelector=metric.selector currentValue!=current.value currentAverageValue=current.averageValue`

// defaultUtilization is the CPU utilization that is the target of autoscalers without metrics.
const defaultUtilization = json.Number("80")

// isOldAutoscaler reports whether the kind is an autoscaler in v1.
func (k *kindInfo) isOldAutoscaler() bool {
	return k.is("horizontalpodautoscalers", "autoscaling") && k.resource.Version == "v1"
}

// oldAutoscaler returns a stored autoscaler in v1.
func oldAutoscaler(raw []byte) []byte {
	object := unstructured.View(raw).Map()
	object["apiVersion"] = "autoscaling/v1"
	spec, status := mapAt(object, "spec"), mapAt(object, "status")
	annotations := make(map[string]any)
	annotate := func(key string, values []json.RawMessage) {
		if len(values) > 0 {
			text, _ := rawjson.Encode(values) // it is JSON
			annotations[key] = string(text)
		}
	}
	var metrics, current, conditions []json.RawMessage
	for _, m := range objectsAt(spec, "metrics") {
		if n := cpuUtilization(m, "target"); n == nil {
			metrics = append(metrics, oldMetric(m, metricFields))
		} else if spec["targetCPUUtilizationPercentage"] == nil {
			spec["targetCPUUtilizationPercentage"] = n
		}
	}
	for _, m := range objectsAt(status, "currentMetrics") {
		current = append(current, oldMetric(m, currentMetricFields))
		if n := cpuUtilization(m, "current"); n != nil {
			status["currentCPUUtilizationPercentage"] = n
		}
	}
	for _, c := range objectsAt(status, "conditions") {
		conditions = append(conditions, ordered(c, "type", "status", "lastTransitionTime", "reason", "message"))
	}
	annotate(metricsAnnotation, metrics)
	annotate(currentMetricsAnnotation, current)
	annotate(conditionsAnnotation, conditions)
	if behavior := rawjson.AsMap(spec["behavior"]); behavior != nil {
		annotations[behaviorAnnotation] = string(oldBehavior(behavior))
	}
	if status["currentReplicas"] == nil {
		status["currentReplicas"] = json.Number("0")
	}
	for _, key := range []string{"metrics", "behavior", "currentMetrics", "conditions"} {
		delete(spec, key)
		delete(status, key)
	}
	if len(annotations) > 0 {
		maps.Copy(mapAt(mapAt(object, "metadata"), "annotations"), annotations)
	}
	raw, _ = rawjson.Encode(object) // it was JSON
	return raw
}

// storeOldAutoscaler converts an autoscaler of v1 to the stored version.
func storeOldAutoscaler(object map[string]any) {
	object["apiVersion"] = "autoscaling/v2"
	spec, status := mapAt(object, "spec"), mapAt(object, "status")
	annotations := rawjson.AsMap(rawjson.AsMap(object["metadata"])["annotations"])
	decoded := func(key string) any {
		v, _ := rawjson.Decode([]byte(unstructured.Text(annotations, key))) // malformed annotations are dropped
		delete(annotations, key)
		return v
	}
	if behavior := rawjson.AsMap(decoded(behaviorAnnotation)); behavior != nil {
		spec["behavior"] = newNames(behavior)
	}
	metrics := newMetrics(decoded(metricsAnnotation), metricFields)
	if n := spec["targetCPUUtilizationPercentage"]; n != nil {
		metrics = append(metrics, cpuMetric("target", map[string]any{"type": "Utilization", "averageUtilization": n}))
	}
	spec["metrics"] = metrics
	current := newMetrics(decoded(currentMetricsAnnotation), currentMetricFields)
	if n := status["currentCPUUtilizationPercentage"]; n != nil && len(current) == 0 {
		current = append(current, cpuMetric("current", map[string]any{"averageUtilization": n}))
	}
	status["currentMetrics"] = nil
	if len(current) > 0 {
		status["currentMetrics"] = current
	}
	if conditions, _ := decoded(conditionsAnnotation).([]any); len(conditions) > 0 {
		status["conditions"] = conditions
	}
	delete(spec, "targetCPUUtilizationPercentage")
	delete(status, "currentCPUUtilizationPercentage")
	if isZero(status["currentReplicas"]) {
		delete(status, "currentReplicas")
	}
	if annotations != nil && len(annotations) == 0 {
		delete(rawjson.AsMap(object["metadata"]), "annotations")
	}
}

// objectsAt returns the objects of a list.
func objectsAt(object map[string]any, key string) (all []map[string]any) {
	list, _ := object[key].([]any)
	for _, v := range list {
		all = append(all, rawjson.AsMap(v))
	}
	return all
}

// cpuMetric returns the CPU metric with a value at a key.
func cpuMetric(key string, value map[string]any) any {
	return map[string]any{"type": "Resource", "resource": map[string]any{"name": "cpu", key: value}}
}

// cpuUtilization returns the utilization of a metric at a key, nil if it is not a CPU metric.
func cpuUtilization(metric map[string]any, key string) any {
	resource := rawjson.AsMap(metric["resource"])
	if metric["type"] != "Resource" || resource["name"] != "cpu" {
		return nil
	}
	return rawjson.AsMap(resource[key])["averageUtilization"]
}

// oldMetric returns a metric as v1 keeps it in annotations.
func oldMetric(metric map[string]any, table string) json.RawMessage {
	old := map[string]any{"type": metric["type"]}
	keys := []string{"type"}
	for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
		words := strings.Fields(line)
		source := rawjson.AsMap(metric[words[0]])
		if source == nil {
			continue
		}
		values := make(map[string]any)
		var names []string
		for _, word := range words[1:] {
			name, path, _ := strings.Cut(word, "=")
			name, always := strings.CutSuffix(name, "!")
			v, _ := rawjson.Lookup(source, strings.Split(path, ".")...)
			if v == nil && always {
				v = "0"
			}
			if v != nil {
				names, values[name] = append(names, name), v
			}
		}
		if target := rawjson.AsMap(values["target"]); target != nil {
			values["target"] = ordered(target, "kind", "name", "apiVersion")
		}
		keys, old[words[0]] = append(keys, words[0]), ordered(values, names...)
	}
	return ordered(old, keys...)
}

// newMetrics returns the metrics of an annotation in the stored version.
func newMetrics(decoded any, table string) (all []any) {
	list, _ := decoded.([]any)
	for _, v := range list {
		old := rawjson.AsMap(v)
		metric := map[string]any{"type": old["type"]}
		for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
			words := strings.Fields(line)
			source := rawjson.AsMap(old[words[0]])
			if source == nil {
				continue
			}
			target := make(map[string]any)
			for _, word := range words[1:] {
				name, path, _ := strings.Cut(word, "=")
				if v := source[strings.TrimSuffix(name, "!")]; v != nil {
					putAt(target, v, strings.Split(path, ".")...)
				}
			}
			if own := rawjson.AsMap(target["target"]); own != nil {
				nameTarget(words[0], own)
			}
			metric[words[0]] = target
		}
		all = append(all, metric)
	}
	return all
}

// nameTarget sets the type of a target, which v1 does not have.
func nameTarget(source string, target map[string]any) {
	switch {
	case target["averageUtilization"] != nil:
		target["type"] = "Utilization"
	case source == "object" && target["averageValue"] == nil, source == "external" && target["value"] != nil:
		target["type"] = "Value"
	default:
		target["type"] = "AverageValue"
		if source == "object" && target["value"] == "0" {
			delete(target, "value")
		}
	}
}

// oldBehavior returns a behavior for the annotation: with capitalized names, and with nulls.
func oldBehavior(behavior map[string]any) json.RawMessage {
	capitals := func(object map[string]any, keys ...string) json.RawMessage {
		named := make(map[string]any)
		var names []string
		for _, key := range keys {
			name := strings.ToUpper(key[:1]) + key[1:]
			names, named[name] = append(names, name), object[key]
		}
		return ordered(named, names...)
	}
	all := make(map[string]any)
	for _, key := range []string{"scaleUp", "scaleDown"} {
		rules := rawjson.AsMap(behavior[key])
		if rules == nil {
			continue
		}
		rules = maps.Clone(rules)
		var policies []json.RawMessage
		for _, p := range objectsAt(rules, "policies") {
			policies = append(policies, capitals(p, "type", "value", "periodSeconds"))
		}
		rules["policies"] = policies
		all[key] = capitals(rules, "stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
	}
	return capitals(all, "scaleUp", "scaleDown")
}

// newNames returns the value of an annotation with uncapitalized names, and without nulls.
func newNames(v any) any {
	switch v := v.(type) {
	case map[string]any:
		renamed := make(map[string]any)
		for key, value := range v {
			if value != nil && key != "" {
				renamed[strings.ToLower(key[:1])+key[1:]] = newNames(value)
			}
		}
		return renamed
	case []any:
		for i := range v {
			v[i] = newNames(v[i])
		}
	}
	return v
}

// ordered encodes the given keys of an object in their order, without those that the object lacks.
func ordered(object map[string]any, keys ...string) json.RawMessage {
	o := rawjson.NewObject()
	for _, key := range keys {
		if v, ok := object[key]; ok {
			raw, _ := rawjson.Encode(v) // it was JSON
			o.Put(key, raw)
		}
	}
	return o.AppendTo(nil)
}
