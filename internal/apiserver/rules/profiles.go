package rules

import (
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/defaults"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Fields have replaced the annotations of pods with profiles of seccomp and AppArmor. If a pod has both, they must be equal.

const seccompOfPod, seccompOfContainer = "seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/"

// equalProfiles refuses a pod or a template with fields that differ from their annotations.
func equalProfiles(n *node, _ string, _ []string) {
	annotations, spec := n.at("metadata.annotations"), n.child("spec")
	spec.at("securityContext.seccompProfile").equalsAnnotation(annotations.child(seccompOfPod), "seccomp")
	for _, container := range spec.containers() {
		container.at("securityContext.seccompProfile").equalsAnnotation(annotations.child(seccompOfContainer+container.string("name")), "seccomp")
	}
	if spec.string("os.name") == "windows" {
		return
	}
	for _, container := range spec.containers() {
		profile := container.at("securityContext.appArmorProfile")
		if profile.value == nil {
			profile.value = spec.at("securityContext.appArmorProfile").value
		}
		profile.equalsAnnotation(annotations.child(defaults.AppArmorAnnotation+container.string("name")), "apparmor")
	}
}

// equalsAnnotation refuses a profile that differs from that in an annotation, if both exist.
func (n *node) equalsAnnotation(annotation *node, what string) {
	if n.value == nil || annotation.value == nil {
		return
	}
	text := annotation.text()
	same := true
	switch n.string("type") {
	case "Unconfined":
		same = text == "unconfined"
	case "RuntimeDefault":
		same = text == "runtime/default" || what == "seccomp" && text == "docker/default"
	case "Localhost":
		name, local := strings.CutPrefix(text, "localhost/")
		if same = local; local && (!n.has("localhostProfile") || name != n.string("localhostProfile")) {
			n.child("localhostProfile").forbidden(what + " profile in annotation and field must match")
		}
	}
	if !same {
		n.child("type").forbidden(what + " type in annotation and field must match")
	}
}

// seccompWarning warns of an annotation without the field that replaces it.
func seccompWarning(n *node, _ string, _ []string) {
	if !n.has("spec.securityContext.seccompProfile") {
		n.warnOfSeccomp(seccompOfPod)
	}
}

func (n *node) warnOfSeccomp(key string) {
	if annotations := n.at("metadata.annotations"); annotations.child(key).value != nil {
		n.warnPlainly(annotations.path + "[" + key + `]: non-functional in v1.27+; use the "seccompProfile" field instead`)
	}
}

// warnOfProfiles warns of the annotations for a container of a pod or a template. CopyAppArmor returns the warnings about AppArmor annotations of pods.
func (n *node) warnOfProfiles(container *node) {
	name := container.string("name")
	if !container.has("securityContext.seccompProfile") {
		n.warnOfSeccomp(seccompOfContainer + name)
	}
	annotations, key := n.at("metadata.annotations"), defaults.AppArmorAnnotation+name
	if n.path == "" || annotations.child(key).value == nil || container.has("securityContext.appArmorProfile") {
		return
	}
	ofPod := n.at("spec.securityContext.appArmorProfile").value
	if ofPod == nil || !rawjson.Equal(ofPod, defaults.AppArmorProfile(annotations.child(key).text())) {
		n.warnPlainly(defaults.AppArmorWarning(annotations.path, key))
	}
}
