package rules

import (
	"slices"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func workloadFunctions() map[string]function {
	return map[string]function{
		"selectorNotEmpty":    selectorNotEmpty,
		"selectedTemplate":    selectedTemplate,
		"onlyAlways":          onlyAlways,
		"deploymentStrategy":  deploymentStrategy,
		"progressDeadline":    progressDeadline,
		"replicaCounts":       replicaCounts,
		"collisions":          collisions,
		"replicationTemplate": replicationTemplate,
		"statefulSetUpdate":   statefulSetUpdate,
		"podManagement":       podManagement,
		"statefulSetStrategy": statefulSetStrategy,
		"claimTemplates":      claimTemplates,
		"onCreation":          serviceNameOnCreation,
		"revisionData":        revisionData,
		"revisionUpdate":      revisionUpdate,
		"daemonSelector":      daemonSelector,
		"daemonSetStrategy":   daemonSetStrategy,
	}
}

func selectorNotEmpty(n *node, detail string, _ []string) {
	if selector := n.child("selector"); selector.selectsAll() {
		selector.invalid(detail)
	}
}

const notSelected = "`selector` does not match template `labels`"

// labelsShown returns labels for errors.
func labelsShown(labels map[string]any) any {
	if labels == nil {
		return nil
	}
	return labels
}

// selectedTemplate checks the template of the pods, which the selector must select.
func selectedTemplate(n *node, detail string, _ []string) {
	selector, template := n.child("selector"), n.child("template")
	labels := template.labelsOf()
	selects, valid := selector.selects(labels)
	if !valid {
		n.report(field.Invalid(selector.path, selector.value, detail))
		return
	}
	if !selects && !selector.selectsAll() {
		n.report(field.Invalid(template.path+".metadata.labels", labelsShown(labels), notSelected))
	}
	template.apply("PodTemplateSpec")
}

// onlyAlways refuses pods that end.
func onlyAlways(n *node, detail string, _ []string) {
	spec := n.at("template.spec")
	if policy := spec.child("restartPolicy"); policy.text() != "" && policy.text() != "Always" {
		policy.unsupported("Always")
	}
	spec.child("activeDeadlineSeconds").forbidIfSet(detail)
}

const deploymentStrategyForm = `Type="" RollingUpdate(MaxUnavailable=0 MaxSurge=0)`

func deploymentStrategy(n *node, _ string, _ []string) {
	update := n.child("rollingUpdate")
	switch n.string("type") {
	case "Recreate":
		if update.value != nil {
			update.forbidden("may not be specified when strategy `type` is 'Recreate'")
		}
	case "", "RollingUpdate":
		unavailable, surge := update.child("maxUnavailable"), update.child("maxSurge")
		unavailable.checkIntOrPercent()
		surge.checkIntOrPercent()
		// The defaults set them, so that a missing one is not zero.
		if unavailable.value != nil && surge.value != nil && unavailable.isZero() && surge.isZero() {
			unavailable.invalid("may not be 0 when `maxSurge` is 0")
		}
		unavailable.checkHundred()
	default:
		n.report(field.NotSupported(n.path, goForm(n.value, deploymentStrategyForm), `supported values: "Recreate", "RollingUpdate"`))
	}
}

func (n *node) checkHundred() {
	if percent, ok := n.percent(); ok && percent > 100 {
		n.invalid("must not be greater than 100%")
	}
}

func progressDeadline(n *node, _ string, _ []string) {
	if n.number() <= n.parent.child("minReadySeconds").number() {
		n.invalid("must be greater than minReadySeconds")
	}
}

// replicaCounts compares the numbers of replicas in a status. The last name is that of available replicas, which must be ready, too.
func replicaCounts(n *node, detail string, names []string) {
	all := n.child("replicas").number()
	for _, name := range names {
		if f := n.child(name); f.number() > all {
			f.invalidNumber("cannot be greater than status.replicas")
		}
	}
	if available := n.child("availableReplicas"); available.number() > n.child("readyReplicas").number() {
		available.invalidNumber(detail)
	}
}

func collisions(n *node, _ string, _ []string) {
	if before := (&node{value: n.old}); n.old != nil && n.number() < before.number() {
		n.invalidNumber("cannot be decremented")
	}
}

// replicationTemplate checks the template of a replication controller, which its selector must select.
func replicationTemplate(n *node, _ string, _ []string) {
	selector, template := n.child("selector"), n.child("template")
	if template.value == nil {
		if isEmpty(selector.value) {
			selector.required("")
		}
		template.required("")
		return
	}
	labels := template.labelsOf()
	for key, value := range rawjson.AsMap(selector.value) { // the defaults copy the labels to an empty selector
		if !rawjson.Equal(labels[key], value) {
			n.report(field.Invalid(template.path+".metadata.labels", labelsShown(labels), notSelected))
			break
		}
	}
	if isEmpty(selector.value) && isEmpty(template.at("metadata.labels").value) {
		selector.required("")
	}
	template.apply("PodTemplateSpec")
}

func statefulSetUpdate(n *node, _ string, _ []string) {
	old, now := rawjson.AsMap(n.old), rawjson.AsMap(n.value)
	changeable := []string{"replicas", "template", "updateStrategy", "minReadySeconds", "ordinals", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy"}
	for _, key := range rawjson.UnionKeys(old, now) {
		if !slices.Contains(changeable, key) && !same(old[key], now[key]) {
			n.forbidden("updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")
			return
		}
	}
}

func podManagement(n *node, detail string, _ []string) {
	if text := n.text(); text != "" && text != "OrderedReady" && text != "Parallel" {
		n.invalid(detail)
	}
}

func statefulSetStrategy(n *node, _ string, _ []string) {
	const form = `Partition=0 MaxUnavailable`
	update := n.child("rollingUpdate")
	switch n.string("type") {
	case "OnDelete":
		if update.value != nil {
			n.report(field.Invalid(update.path, goForm(update.value, form), "only allowed for updateStrategy 'RollingUpdate'"))
		}
	case "", "RollingUpdate":
		if update.value == nil {
			return
		}
		if partition := update.child("partition"); partition.value != nil {
			partition.checkRange(0, -1, "must be greater than or equal to 0")
		}
		if unavailable := update.child("maxUnavailable"); unavailable.value != nil {
			unavailable.checkIntOrPercent()
			if unavailable.isZero() {
				unavailable.invalid("cannot be 0")
			}
			unavailable.checkHundred()
		}
	default:
		n.report(field.Invalid(n.path, goForm(n.value, `Type="" RollingUpdate(`+form+`)`), "must be 'RollingUpdate' or 'OnDelete'"))
	}
}

// claimTemplates checks the claims of a new stateful set. They are immutable.
func claimTemplates(n *node, _ string, _ []string) {
	if n.run.update {
		return
	}
	for _, template := range n.child("volumeClaimTemplates").items() {
		template.child("spec").apply("PersistentVolumeClaimSpec")
	}
}

func serviceNameOnCreation(n *node, _ string, _ []string) {
	if !n.run.update && n.text() != "" {
		n.format(Label)
	}
}

func revisionData(n *node, _ string, _ []string) {
	_, isObject := n.value.(map[string]any)
	switch {
	case n.run.update || isObject:
	case n.value == nil:
		n.required("data is mandatory")
	default:
		n.required("data must be a valid JSON object")
	}
}

func revisionUpdate(n *node, _ string, _ []string) { n.checkImmutable("") }

func daemonSelector(n *node, _ string, _ []string) {
	template := n.child("template")
	labels := template.labelsOf()
	if selects, valid := n.child("selector").selects(labels); valid && !selects {
		n.report(field.Invalid(template.path+".metadata.labels", labelsShown(labels), notSelected))
	}
}

func daemonSetStrategy(n *node, _ string, _ []string) {
	update := n.child("rollingUpdate")
	switch n.string("type") {
	case "OnDelete":
		return
	case "", "RollingUpdate":
	default:
		n.report(field.NotSupported(n.path, goForm(n.value, deploymentStrategyForm), `supported values: "RollingUpdate", "OnDelete"`))
		return
	}
	unavailable, surge := update.child("maxUnavailable"), update.child("maxSurge")
	for _, f := range []*node{unavailable, surge} {
		f.checkIntOrPercent()
	}
	unavailable.checkHundred()
	surge.checkHundred()
	none := unavailable.value != nil && unavailable.isZero() // the default is 1
	switch {
	case !none && !surge.isZero():
		shown := surge.value
		surge.report(field.Invalid(surge.path, shown, "may not be set when maxUnavailable is non-zero"))
	case none && surge.isZero():
		unavailable.required("cannot be 0 when maxSurge is 0")
	}
}
