package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/kopf-go/kopf/internal/apiserver/defaults"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

func podFunctions() map[string]function {
	return map[string]function{
		"podAnnotations":      func(n *node, _ string, _ []string) { n.at("metadata.annotations").checkPodAnnotations() },
		"templateAnnotations": templateAnnotations,
		"projectedTokens":     projectedTokens,
		"hostNetworkPorts":    hostNetworkPorts,
		"hostPorts":           hostPorts,
		"dnsConfig":           dnsConfig,
		"schedulingGate":      schedulingGate,
		"hostProcesses":       hostProcesses,
		"operatingSystem":     operatingSystem,
		"nullValue":           func(n *node, detail string, _ []string) { n.report(field.Invalid(n.path, nil, detail)) },
		"fileKeyVolumes":      fileKeyVolumes,
		"resourceClaim":       resourceClaim,
		"tolerationOperator":  tolerationOperator,
		"sharedProcesses":     sharedProcesses,
		"hostSysctl":          hostSysctl,
		"windowsUser":         windowsUser,
		"seccompProfile":      seccompProfile,
		"appArmorProfile":     appArmorProfile,
		"equalProfiles":       equalProfiles,
		"initContainerName":   initContainerName,
		"targetContainer":     targetContainer,
	}
}

// checkPodAnnotations checks the annotations that have a meaning for pods.
func (n *node) checkPodAnnotations() {
	spec := n.parent.parent.child("spec")
	if mirror := n.child(mirrorAnnotation); mirror.value != nil && spec.string("nodeName") == "" {
		n.report(field.Invalid(n.path+"["+mirrorAnnotation+"]", mirror.text(), "must set spec.nodeName if mirror pod annotation is set"))
	}
	n.checkProfiles(spec)
	const deletionCost = "controller.kubernetes.io/pod-deletion-cost"
	if cost := n.child(deletionCost); cost.value != nil {
		text := cost.text()
		number, err := strconv.ParseInt(text, 10, 32)
		if text != "" && (err != nil || strconv.FormatInt(number, 10) != text) {
			n.report(field.Invalid(n.path+"["+deletionCost+"]", text, "must be a 32bit integer"))
		}
	}
}

// checkProfiles checks the annotations for the profiles of seccomp and AppArmor, which fields have replaced.
func (n *node) checkProfiles(spec *node) {
	for _, key := range n.sortedKeys() {
		annotation := n.child(key)
		name, ofAppArmor := strings.CutPrefix(key, defaults.AppArmorAnnotation)
		switch {
		case key == seccompOfPod || strings.HasPrefix(key, seccompOfContainer):
			annotation.checkSeccomp()
		case ofAppArmor:
			annotation.path = n.path + "[" + key + "]"
			if !slices.ContainsFunc(spec.containers(), func(c *node) bool { return c.string("name") == name }) {
				n.report(field.Invalid(annotation.path, name, "container not found"))
			}
			if text := annotation.text(); text != "" && text != "runtime/default" && text != "unconfined" && !strings.HasPrefix(text, "localhost/") {
				annotation.invalid(fmt.Sprintf("invalid AppArmor profile name: %q", text))
			}
		}
	}
}

func (n *node) checkSeccomp() {
	profile, local := strings.CutPrefix(n.text(), "localhost/")
	switch {
	case local:
		for _, detail := range relativePath(profile) {
			n.report(field.Invalid(n.path, profile, detail))
		}
	case profile != "runtime/default" && profile != "docker/default" && profile != "unconfined":
		n.invalidText("must be a valid seccomp profile")
	}
}

// windowsUser checks the name of a Windows user, which may have a domain.
func windowsUser(n *node, _ string, _ []string) {
	const signs = `"/\:;|=,+*?<>@[]`
	parts := strings.Split(n.text(), `\`)
	user, domain := parts[len(parts)-1], parts[0]
	switch {
	case n.text() == "":
		n.invalid("runAsUserName cannot be an empty string")
		return
	case strings.ContainsFunc(n.text(), unicode.IsControl):
		n.invalid("runAsUserName cannot contain control characters")
		return
	case len(parts) > 2:
		n.invalid("runAsUserName cannot contain more than one backslash")
		return
	case len(parts) == 2:
		n.checkWindowsDomain(domain)
	}
	switch {
	case user == "":
		n.invalid("runAsUserName's User cannot be empty")
	case len(user) > 104:
		n.invalid("runAsUserName's User length must not be longer than 104 characters")
	}
	if consistsOf(user, ". ") {
		n.invalid("runAsUserName's User cannot contain only periods or spaces")
	}
	if strings.ContainsAny(user, signs) {
		n.invalid("runAsUserName's User cannot contain the following characters: " + signs)
	}
}

func (n *node) checkWindowsDomain(domain string) {
	if len(domain) >= 256 {
		n.invalid("runAsUserName's Domain length must be under 256 characters")
	}
	netBIOS := domain != "" && len(domain) <= 15 && domain[0] != '.' && !strings.ContainsAny(domain, `\/:*?"<>|`)
	if !netBIOS && !validation.IsDNSSubdomain(strings.ToLower(domain)) {
		n.invalid("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
}

func templateAnnotations(n *node, _ string, _ []string) {
	annotations := n.at("metadata.annotations")
	annotations.path = join(n.path, "annotations")
	annotations.checkPodAnnotations()
}

// projectedTokens refuses the tokens of a service account in pods that do not have one.
func projectedTokens(n *node, _ string, _ []string) {
	if n.string("spec.serviceAccountName") != "" || n.string("spec.serviceAccount") != "" {
		return
	}
	for _, volume := range n.at("spec.volumes").items() {
		for _, source := range volume.at("projected.sources").items() {
			if token := source.child("serviceAccountToken"); token.value != nil {
				token.forbidden("must not be specified when serviceAccountName is not set")
			}
		}
	}
}

// containers returns the containers in the spec of a pod, in the order in which kube-apiserver checks them after the spec.
func (n *node) containers() []*node {
	return slices.Concat(n.child("initContainers").items(), n.child("containers").items(), n.child("ephemeralContainers").items())
}

// hostPorts refuses a host port that two containers use.
func hostPorts(n *node, _ string, _ []string) {
	seen := make(map[string]bool)
	for _, container := range n.items() {
		for _, port := range container.child("ports").items() {
			number := port.child("hostPort")
			if number.number() == 0 {
				continue
			}
			protocol := port.string("protocol")
			if protocol == "" {
				protocol = "TCP"
			}
			key := fmt.Sprintf("%s/%s/%d", protocol, port.string("hostIP"), number.number())
			if seen[key] {
				n.report(field.Duplicate(number.path, key))
			}
			seen[key] = true
		}
	}
}

func hostNetworkPorts(n *node, _ string, _ []string) {
	inPod := n.path == "spec.containers"
	for _, container := range n.items() {
		for _, port := range container.child("ports").items() {
			host := port.child("hostPort")
			// The defaults set it.
			if host.value != nil && (inPod || host.number() != 0) && host.number() != port.child("containerPort").number() {
				host.invalid("must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}

// dnsConfig is checked even if it is missing, because a policy may require it.
func dnsConfig(n *node, _ string, _ []string) {
	servers, searches := n.child("nameservers"), n.child("searches")
	none := n.parent.string("dnsPolicy") == "None"
	switch {
	case none && n.value == nil:
		n.required("must provide `dnsConfig` when `dnsPolicy` is None")
		return
	case none && isEmpty(servers.value):
		servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None")
		return
	}
	if len(servers.items()) > 3 {
		servers.invalid("must not have more than 3 nameservers")
	}
	for _, server := range servers.items() {
		server.format(ip)
	}
	if len(searches.items()) > 32 {
		searches.invalid("must not have more than 32 search paths")
	}
	if len(strings.Join(searches.texts(), " ")) > 2048 {
		searches.invalid("must not have more than 2048 characters (including spaces) in the search list")
	}
	for _, search := range searches.items() {
		if text := search.text(); text != "." {
			search.value = strings.TrimSuffix(text, ".")
			search.format(underlined)
		}
	}
	for _, option := range n.child("options").items() {
		if option.string("name") == "" {
			option.required("must not be empty")
		}
	}
}

func schedulingGate(n *node, _ string, _ []string) {
	name := n.child("name")
	name.path = n.path
	name.format(QualifiedName)
	for _, other := range n.before() {
		if other.string("name") == name.text() {
			n.report(field.Duplicate(n.path, name.text()))
			return
		}
	}
}

// hostProcesses checks the host processes of containers on Windows.
func hostProcesses(n *node, _ string, _ []string) {
	const option = "securityContext.windowsOptions.hostProcess"
	containers := n.containers()
	ofPod, count := n.at(option), 0
	for _, container := range containers {
		own := container.at(option)
		if own.value != nil && ofPod.value != nil && own.value != ofPod.value {
			own.invalid(fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", ofPod.value))
		}
		if own.value == true || own.value == nil && ofPod.value == true {
			count++
		}
	}
	if count == 0 {
		return
	}
	if count != len(containers) {
		n.report(field.Invalid(n.path, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if network := n.child("hostNetwork"); network.value != true {
		n.report(field.Invalid(network.path, false, "hostNetwork must be true if pod contains any hostProcess containers"))
	}
}

// operatingSystem refuses fields that the operating system of a pod does not support.
func operatingSystem(n *node, _ string, _ []string) {
	switch n.string("os.name") {
	case "linux":
		for _, owner := range append([]*node{n}, n.containers()...) {
			owner.at("securityContext.windowsOptions").forbidIfSet("windows options cannot be set for a linux pod")
		}
	case "windows":
		const detail = "cannot be set for a windows pod"
		n.forbidAll(detail, "securityContext.appArmorProfile", "securityContext.seLinuxOptions", "hostUsers")
		for _, name := range []string{"hostPID", "hostIPC"} {
			if f := n.child(name); f.value == true {
				f.forbidden(detail)
			}
		}
		n.forbidAll(detail, "securityContext.seccompProfile", "securityContext.fsGroup", "securityContext.fsGroupChangePolicy", "securityContext.sysctls", "shareProcessNamespace",
			"securityContext.runAsUser", "securityContext.runAsGroup", "securityContext.supplementalGroups", "securityContext.supplementalGroupsPolicy", "securityContext.seLinuxChangePolicy")
		for _, container := range n.containers() {
			container.child("securityContext").forbidAll(detail, "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
				"allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup")
		}
	}
}

func (n *node) forbidIfSet(detail string) {
	if n.value != nil {
		n.forbidden(detail)
	}
}

func (n *node) forbidAll(detail string, paths ...string) {
	for _, path := range paths {
		n.at(path).forbidIfSet(detail)
	}
}

// fileKeyVolumes checks the volumes with the files for environment variables.
func fileKeyVolumes(n *node, _ string, _ []string) {
	for _, container := range n.containers() {
		for _, variable := range container.child("env").items() {
			name := variable.at("valueFrom.fileKeyRef.volumeName")
			if !variable.has("valueFrom.fileKeyRef") {
				continue
			}
			volume := n.child("volumes").named(name.text())
			switch {
			case volume == nil:
				n.report(field.NotFound(name.path, name.text()))
			case !volume.has("emptyDir"):
				name.invalid("referenced volume must be of type emptyDir")
			}
		}
	}
}

// named returns the item with a name, nil if there is none.
func (n *node) named(name string) *node {
	for _, item := range n.items() {
		if item.string("name") == name {
			return item
		}
	}
	return nil
}

func resourceClaim(n *node, _ string, _ []string) {
	const form = `Name="" ResourceClaimName ResourceClaimTemplateName`
	own, template := n.has("resourceClaimName"), n.has("resourceClaimTemplateName")
	switch {
	case own && template:
		n.report(field.Invalid(n.path, goForm(n.value, form), "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
	case !own && !template:
		n.report(field.Invalid(n.path, goForm(n.value, form), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
	}
}

func tolerationOperator(n *node, _ string, _ []string) {
	operator, value := n.child("operator"), n.string("value")
	switch operator.text() {
	case "", "Equal":
		if wrong := LabelValue(value); len(wrong) > 0 {
			n.report(field.Invalid(operator.path, value, strings.Join(wrong, ";")))
		}
	case "Exists":
		if value != "" {
			n.report(field.Invalid(operator.path, value, "value must be empty when `operator` is 'Exists'"))
		}
	case "Lt", "Gt":
		operator.unsupported("Equal", "Exists", "Lt", "Gt")
	default:
		operator.unsupported("Equal", "Exists")
	}
}

func sharedProcesses(n *node, _ string, _ []string) {
	spec := n.parent
	if shared := spec.child("shareProcessNamespace"); shared.value == true && spec.child("hostPID").value == true {
		n.report(field.Invalid(n.path+".shareProcessNamespace", true, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
}

// hostSysctl refuses kernel settings in the namespaces that a pod shares with its host.
func hostSysctl(n *node, _ string, _ []string) {
	spec := n.above("securityContext").parent
	name := strings.ReplaceAll(n.text(), "/", ".")
	ofIPC := strings.HasPrefix(name, "fs.mqueue.") || slices.ContainsFunc([]string{"kernel.sem", "kernel.shm", "kernel.msg"}, func(p string) bool { return strings.HasPrefix(name, p) })
	switch {
	case strings.HasPrefix(name, "net.") && spec.child("hostNetwork").value == true:
		n.invalid("may not be specified when 'hostNetwork' is true")
	case ofIPC && spec.child("hostIPC").value == true:
		n.invalid("may not be specified when 'hostIPC' is true")
	}
}

func seccompProfile(n *node, _ string, _ []string) {
	n.report(field.Invalid(n.path+".localhostProfile", goForm(n.value, `Type="" LocalhostProfile`), "can only be set when seccomp type is Localhost"))
}

func appArmorProfile(n *node, _ string, _ []string) {
	text := n.text()
	switch strings.TrimSpace(text) {
	case text:
		if text == "" {
			n.required("must be set when AppArmor type is Localhost")
		}
	default:
		n.invalid("must not be padded with whitespace")
	}
	if len(text) > 4095 {
		n.report(field.TooLong(n.path, nil, "may not be more than 4095 bytes"))
	}
}

// initContainerName refuses the name of another container of the pod.
func initContainerName(n *node, _ string, _ []string) {
	container := n.parent
	spec := container.parent.parent
	others := slices.Concat(spec.child("containers").items(), container.before())
	if strings.HasSuffix(container.parent.path, "ephemeralContainers") {
		others = append(others, spec.child("initContainers").items()...)
	}
	if slices.ContainsFunc(others, func(other *node) bool { return other.string("name") == n.text() }) {
		n.report(field.Duplicate(n.path, n.value))
	}
	if strings.HasSuffix(container.parent.path, "initContainers") {
		hostPorts(&node{value: []any{container.value}, path: container.parent.path, run: n.run}, "", nil)
	}
}

func targetContainer(n *node, _ string, _ []string) {
	spec := n.parent.parent.parent
	if n.text() != "" && spec.child("containers").named(n.text()) == nil && spec.child("initContainers").named(n.text()) == nil {
		n.report(field.NotFound(n.path, n.value))
	}
}

// labelsOf returns the labels in the metadata of an object.
func (n *node) labelsOf() map[string]any { return rawjson.AsMap(n.at("metadata.labels").value) }
