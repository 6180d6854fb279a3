package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func containerFunctions() map[string]function {
	return map[string]function{
		"volumeMount":    volumeMount,
		"volumeDevice":   volumeDevice,
		"resizePolicy":   resizePolicy,
		"envFieldRef":    func(n *node, _ string, _ []string) { n.checkFieldRef(envFieldPaths) },
		"envResourceRef": func(n *node, _ string, _ []string) { n.checkResourceRef(false) },
		"envSources":     envSources,
		"envFromSources": envFromSources,
		"header":         header,
		"sleep":          sleep,
		"procMount":      procMount,
		"privileges":     privileges,
	}
}

// podSpec returns the spec of the pod that contains a value.
func (n *node) podSpec() *node {
	for c := n; c != nil; c = c.parent {
		if c.has("containers") {
			return c
		}
	}
	return &node{run: n.run}
}

// hasVolume reports whether the pod has a volume of a name, and whether it is a claim. The volume claim templates of a stateful set count as claims.
func (n *node) hasVolume(name string) (has, claim bool) {
	spec := n.podSpec()
	if volume := spec.child("volumes").named(name); volume != nil {
		return true, volume.has("persistentVolumeClaim") || volume.has("ephemeral")
	}
	for c := spec; c != nil; c = c.parent {
		for _, template := range c.child("volumeClaimTemplates").items() {
			if template.string("metadata.name") == name {
				return true, true
			}
		}
	}
	return false, false
}

// volumeMount checks a mount. Some of its errors have no index, as in kube-apiserver.
func volumeMount(n *node, _ string, _ []string) {
	name, path, container := n.child("name"), n.child("mountPath"), n.parent.parent
	if name.text() == "" {
		name.required("")
	}
	if has, _ := n.hasVolume(name.text()); !has {
		n.report(field.NotFound(name.path, name.text()))
	}
	if path.text() == "" {
		path.required("")
	}
	if slices.ContainsFunc(n.before(), func(other *node) bool { return other.string("mountPath") == path.text() }) {
		path.invalidText("must be unique")
	}
	for _, device := range container.child("volumeDevices").items() {
		if device.string("name") == name.text() {
			name.invalidText("must not already exist in volumeDevices")
		}
		if device.string("devicePath") == path.text() {
			path.invalidText("must not already exist as a path in volumeDevices")
		}
	}
	list := n.parent.path
	sub, expression := n.child("subPath"), n.child("subPathExpr")
	if sub.text() != "" {
		sub.path = join(list, "subPath")
		sub.format(relativePath)
	}
	if expression.text() != "" {
		if sub.text() != "" {
			expression.invalid("subPathExpr and subPath are mutually exclusive")
		}
		expression.path = join(list, "subPathExpr")
		expression.format(relativePath)
	}
	mountPropagation(n, container)
}

func mountPropagation(n, container *node) {
	propagation, recursive := n.child("mountPropagation"), n.child("recursiveReadOnly")
	propagation.path = join(n.parent.path, "mountPropagation")
	recursive.path = join(n.parent.path, "recursiveReadOnly")
	if propagation.value != nil {
		propagation.checkEnum([]string{"Bidirectional", "HostToContainer", "None"})
		if propagation.text() == "Bidirectional" && container.at("securityContext.privileged").value != true {
			propagation.forbidden("Bidirectional mount propagation is available only to privileged containers")
		}
	}
	switch {
	case recursive.value == nil || recursive.text() == "Disabled":
	case recursive.text() == "Enabled" || recursive.text() == "IfPossible":
		if n.child("readOnly").value != true {
			recursive.forbidden("may only be specified when readOnly is true")
		}
		if propagation.value != nil && propagation.text() != "None" {
			recursive.forbidden("may only be specified when mountPropagation is None or not specified")
		}
	default:
		recursive.unsupported("Disabled", "Enabled", "IfPossible")
	}
}

func volumeDevice(n *node, _ string, _ []string) {
	name, path, container := n.child("name"), n.child("devicePath"), n.parent.parent
	has, claim := n.hasVolume(name.text())
	if name.text() == "" {
		name.required("")
	}
	if name.text() != "" && slices.ContainsFunc(n.before(), func(other *node) bool { return other.string("name") == name.text() }) {
		name.invalidText("must be unique")
	}
	if has && !claim {
		name.invalidText("can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
	}
	if !has {
		n.report(field.NotFound(name.path, name.text()))
	}
	if path.text() == "" {
		path.required("")
	}
	if slices.ContainsFunc(n.before(), func(other *node) bool { return other.string("devicePath") == path.text() }) {
		path.invalidText("must be unique")
	}
	if len(noBacksteps(path.text())) > 0 {
		path.invalidText("can not contain backsteps ('..')")
	}
	for _, mount := range container.child("volumeMounts").items() {
		if mount.string("name") == name.text() {
			name.invalidText("must not already exist in volumeMounts")
		}
		if mount.string("mountPath") == path.text() {
			path.invalidText("must not already exist as a path in volumeMounts")
		}
	}
}

// resizePolicy checks a policy. Its errors have the path of the list.
func resizePolicy(n *node, _ string, _ []string) {
	resource, policy := n.child("resourceName"), n.child("restartPolicy")
	for _, other := range n.before() {
		if other.string("resourceName") == resource.text() {
			n.report(field.Duplicate(n.path, resource.text()))
			break
		}
	}
	resource.path, policy.path = n.parent.path, n.parent.path
	resource.requiredOf("cpu", "memory")
	policy.requiredOf("NotRequired", "RestartContainer")
	if n.podSpec().string("restartPolicy") == "Never" && policy.text() != "NotRequired" {
		policy.invalidText("must be 'NotRequired' when pod `restartPolicy` is 'Never'")
	}
}

// requiredOf checks a required text that must be one of some values.
func (n *node) requiredOf(values ...string) {
	switch {
	case n.text() == "":
		n.required("")
	case !slices.Contains(values, n.text()):
		n.unsupported(values...)
	}
}

var (
	envFieldPaths = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}

	volumeFieldPaths = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}

	resourceNames = []string{"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"}
)

// podFieldPaths are the fields of pods that all field references can use.
func podFieldPaths() []string {
	return slices.Concat(envFieldPaths, []string{"metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "spec.host", "status.phase"})
}

// checkFieldRef checks a reference to a field of the pod.
func (n *node) checkFieldRef(paths []string) {
	path := n.child("fieldPath")
	if path.text() == "" {
		path.required("")
		return
	}
	name, rest, ok := strings.Cut(path.text(), "['")
	subscript, closed := strings.CutSuffix(rest, "']")
	switch {
	case !ok || !closed:
		name = path.text()
		if !slices.Contains(podFieldPaths(), name) {
			path.invalid("error converting fieldPath: field label not supported: " + name)
		} else if !slices.Contains(paths, name) {
			path.unsupported(paths...)
		}
	case name == "metadata.annotations":
		subscript = strings.ToLower(subscript)
		fallthrough
	case name == "metadata.labels":
		for _, detail := range QualifiedName(subscript) {
			n.report(field.Invalid(n.path, subscript, detail))
		}
	default:
		path.invalid("error converting fieldPath: field label does not support subscript: " + path.text())
	}
}

// checkResourceRef checks a reference to the resources of a container.
func (n *node) checkResourceRef(inVolume bool) {
	container, resource := n.child("containerName"), n.child("resource")
	name := resource.text()
	hugePages := strings.HasPrefix(name, "requests.hugepages-") || strings.HasPrefix(name, "limits.hugepages-")
	switch {
	case inVolume && container.text() == "":
		container.required("")
	case name == "":
		resource.required("")
	case !slices.Contains(resourceNames, name) && !hugePages:
		resource.unsupported(resourceNames...)
	}
	const sizes = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
	divisor, ok := n.child("divisor").quantity()
	if !ok || divisor.Sign() == 0 {
		return
	}
	path, fits := join(n.path, "divisor"), slices.Contains(strings.Split(sizes, ", "), divisor.String())
	switch _, kind, _ := strings.Cut(name, "."); {
	case kind == "cpu" && divisor.String() != "1" && divisor.String() != "1m":
		n.report(field.Invalid(path, name, "only divisor's values 1m and 1 are supported with the cpu resource"))
	case kind == "memory" && !fits:
		n.report(field.Invalid(path, name, "only divisor's values "+sizes+" are supported with the memory resource"))
	case kind == "ephemeral-storage" && !fits:
		n.report(field.Invalid(path, name, "only divisor's values "+sizes+" are supported with the local ephemeral storage resource"))
	case hugePages && !fits:
		n.report(field.Invalid(path, name, "only divisor's values "+sizes+" are supported with the hugepages resource"))
	}
}

func (n *node) count(names ...string) int {
	count := 0
	for _, name := range names {
		if n.has(name) {
			count++
		}
	}
	return count
}

func envSources(n *node, _ string, _ []string) {
	count := n.count("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
	switch {
	case count == 0:
		n.report(field.Invalid(n.path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case n.parent.string("value") != "":
		n.report(field.Invalid(n.path, "", "may not be specified when `value` is not empty"))
	case count > 1:
		n.report(field.Invalid(n.path, "", "may not have more than one field specified at a time"))
	}
}

func envFromSources(n *node, _ string, _ []string) {
	switch n.count("configMapRef", "secretRef") {
	case 0:
		n.report(field.Invalid(n.parent.path, "", "must specify one of: `configMapRef` or `secretRef`"))
	case 2:
		n.report(field.Invalid(n.parent.path, "", "may not have more than one field specified at a time"))
	}
}

// header checks the name of a header. Its errors have the path of the list.
func header(n *node, _ string, _ []string) {
	name := n.child("name")
	name.path = n.parent.path
	name.format(headerName)
}

func sleep(n *node, _ string, _ []string) {
	grace := n.podSpec().child("terminationGracePeriodSeconds")
	limit := grace.number()
	if grace.value == nil {
		limit = 30
	}
	seconds := n.child("seconds")
	if seconds.number() < 0 || seconds.number() > limit {
		n.report(field.Invalid(n.path, seconds.value, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", limit)))
	}
}

func procMount(n *node, _ string, _ []string) {
	mount := n.child("procMount")
	if mount.text() == "Unmasked" && n.podSpec().child("hostUsers").value != false {
		mount.invalid("`hostUsers` must be false to use `Unmasked`")
	}
}

// privileges refuses contradictory privileges of a container.
func privileges(n *node, _ string, _ []string) {
	if n.child("allowPrivilegeEscalation").value != false {
		return
	}
	shown := goForm(n.value, "Capabilities(Add Drop) Privileged SELinuxOptions WindowsOptions RunAsUser RunAsGroup RunAsNonRoot ReadOnlyRootFilesystem AllowPrivilegeEscalation ProcMount SeccompProfile AppArmorProfile")
	if n.child("privileged").value == true {
		n.report(field.Invalid(n.path, shown, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
	}
	for _, capability := range n.at("capabilities.add").texts() {
		if capability == "CAP_SYS_ADMIN" {
			n.report(field.Invalid(n.path, shown, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
		}
	}
}

// sortedKeys returns the keys of an object.
func (n *node) sortedKeys() []string { return rawjson.SortedKeys(rawjson.AsMap(n.value)) }
