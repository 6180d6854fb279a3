package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func clusterFunctions() map[string]function {
	return map[string]function{
		"priority":            priority,
		"priorityChange":      priorityChange,
		"parameters":          parameters,
		"unchanged":           unchanged,
		"provisioner":         provisioner,
		"volumeError":         volumeError,
		"attachmentMetadata":  attachmentMetadata,
		"uniqueTopologies":    uniqueTopologies,
		"uniqueValues":        func(n *node, _ string, _ []string) { n.uniqueTexts() },
		"namespaceFinalizers": namespaceFinalizers,
		"finalizer":           func(n *node, _ string, _ []string) { n.checkFinalizer() },
		"namespacePhase":      namespacePhase,
		"taints":              taints,
		"uniqueAddress":       uniqueAddress,
		"podCIDRs":            podCIDRs,
		"providerID":          providerID,
	}
}

func priority(n *node, _ string, _ []string) {
	const highest = 1000000000
	name, value := n.string("metadata.name"), n.child("value").number()
	wanted, why := int64(0), ""
	switch name {
	case "system-node-critical":
		wanted = 2000001000
	case "system-cluster-critical":
		wanted = 2000000000
	}
	switch {
	case !strings.HasPrefix(name, "system-"):
		if value > highest {
			n.child("value").forbidden(fmt.Sprintf("maximum allowed value of a user defined priority is %d", highest))
		}
		return
	case wanted == 0:
		why = name + " is not a known system priority class"
	case value != wanted:
		why = fmt.Sprintf("value of %s PriorityClass must be %d", name, wanted)
	case n.child("globalDefault").value == true:
		why = fmt.Sprintf("globalDefault of %s PriorityClass must be false", name)
	default:
		return
	}
	n.at("metadata.name").forbidden("priority class names with 'system-' prefix are reserved for system use only. error: " + why)
}

func priorityChange(n *node, detail string, _ []string) {
	if n.number() != (&node{value: n.old}).number() {
		n.forbidden(detail)
	}
}

// parameters checks the parameters of a storage class.
func parameters(n *node, _ string, _ []string) {
	const most, mostBytes = 512, 256 << 10
	size, entries := 0, n.entries()
	if len(entries) > most {
		n.report(field.TooLong(n.path, nil, fmt.Sprintf("may not be more than %d bytes", most)))
		return
	}
	for _, entry := range entries {
		if entry.key() == "" {
			n.report(field.Invalid(n.path, "", "field can not be empty."))
		}
		size += len(entry.key()) + len(entry.text())
	}
	if size > mostBytes {
		n.report(field.TooLong(n.path, nil, fmt.Sprintf("may not be more than %d bytes", mostBytes)))
	}
}

// unchanged forbids changes.
func unchanged(n *node, detail string, _ []string) {
	if n.run.update && !rawjson.Equal(n.value, n.old) {
		n.forbidden(detail)
	}
}

// provisioner checks the name of a driver, which errors show in lower case.
func provisioner(n *node, _ string, _ []string) {
	name := strings.ToLower(n.text())
	if name == "" { // which is required
		return
	}
	for _, wrong := range QualifiedName(name) {
		n.report(field.Invalid(n.path, name, wrong))
	}
}

// maxAttachment is the maximum size of an attached volume's metadata, in bytes.
const maxAttachment = 256 << 10

func attachmentMetadata(n *node, _ string, _ []string) {
	size := 0
	for _, entry := range n.entries() {
		size += len(entry.key()) + len(entry.text())
	}
	if size > maxAttachment {
		n.report(field.TooLong(n.path, nil, fmt.Sprintf("may not be more than %d bytes", maxAttachment)))
	}
}

// volumeError refuses long messages. The error has another limit, as in kube-apiserver.
func volumeError(n *node, _ string, _ []string) {
	if len(n.text()) > 1024 {
		n.report(field.TooLong(n.path, nil, fmt.Sprintf("may not be more than %d bytes", maxAttachment)))
	}
}

// uniqueTopologies refuses duplicate terms.
func uniqueTopologies(n *node, _ string, _ []string) {
	if slices.ContainsFunc(n.before(), func(other *node) bool { return rawjson.Equal(other.value, n.value) }) {
		n.report(field.Duplicate(n.path+".matchLabelExpressions", ""))
	}
}

func namespaceFinalizers(n *node, _ string, _ []string) {
	for _, item := range n.items() {
		item.path = n.path
		item.checkFinalizer()
	}
}

func (n *node) checkFinalizer() {
	n.format(QualifiedName)
	if !strings.Contains(n.text(), "/") && !slices.Contains([]string{"kubernetes", "orphan", "foregroundDeletion"}, n.text()) {
		n.invalidText("name is neither a standard finalizer name nor is it fully qualified")
	}
}

func namespacePhase(n *node, _ string, _ []string) {
	phase := n.at("status.phase")
	phase.path = "status.Phase" // as in kube-apiserver
	if phase.text() == "" {     // it has a default
		phase.value = "Active"
	}
	switch deleted := n.has("metadata.deletionTimestamp"); {
	case !deleted && phase.text() != "Active":
		phase.invalidText("may only be 'Active' if `deletionTimestamp` is empty")
	case deleted && phase.text() != "Terminating":
		phase.invalidText("may only be 'Terminating' if `deletionTimestamp` is not empty")
	}
}

// taints checks the taints of a node. Their errors have the path of the metadata.
func taints(n *node, _ string, _ []string) {
	n.path = "metadata.taints"
	for _, taint := range n.items() {
		effect := taint.child("effect")
		taint.child("key").format(QualifiedName)
		value := taint.child("value")
		if wrong := LabelValue(value.text()); len(wrong) > 0 {
			value.invalidText(strings.Join(wrong, ";"))
		}
		effect.requiredOf("NoSchedule", "PreferNoSchedule", "NoExecute")
		if slices.ContainsFunc(taint.before(), func(other *node) bool {
			return other.string("key") == taint.string("key") && other.string("effect") == effect.text()
		}) {
			e := field.Duplicate(taint.path, goForm(taint.value, `Key="" Value="" Effect="" TimeAdded`))
			e.Detail = "taints must be unique by key and effect pair"
			n.report(e)
		}
	}
}

func uniqueAddress(n *node, _ string, _ []string) {
	if slices.ContainsFunc(n.before(), func(other *node) bool { return rawjson.Equal(other.value, n.value) }) {
		n.report(field.Duplicate(n.path, goForm(n.value, `Type="" Address=""`)))
	}
}

func podCIDRs(n *node, _ string, _ []string) {
	before, now := (&node{value: n.old}).texts(), n.texts()
	if len(before) > 0 && !slices.Equal(before, now) {
		n.forbidden(`node updates may not change podCIDR except from "" to valid`)
	}
}

func providerID(n *node, _ string, _ []string) {
	if before, _ := n.old.(string); before != "" && before != n.text() {
		n.forbidden(`node updates may not change providerID except from "" to valid`)
	}
}
