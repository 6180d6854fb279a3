package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
)

func networkFunctions() map[string]function {
	return map[string]function{
		"ingressEmpty":      ingressEmpty,
		"ingressAnnotation": ingressAnnotation,
		"notAddress":        notAddress,
		"ingressPath":       ingressPath,
		"ingressBackend":    ingressBackend,
		"policyTypes":       policyTypes,
		"policyPort":        policyPort,
		"peers":             peers,
		"exceptCIDR":        exceptCIDR,
		"endpointAddress":   endpointAddress,
		"noAddresses":       func(n *node, detail string, _ []string) { n.required(detail) },
		"endpointPortName":  endpointPortName,
		"dualStackCIDRs":    dualStackCIDRs,
	}
}

func ingressEmpty(n *node, detail string, _ []string) {
	n.report(field.Invalid("spec", n.at("spec.rules").value, detail))
}

func ingressAnnotation(n *node, _ string, _ []string) {
	const name = "kubernetes.io/ingress.class"
	class, annotation := n.at("spec.ingressClassName"), n.at("metadata.annotations").child(name)
	if !n.run.update && annotation.value != nil && class.value != nil && annotation.text() != class.text() {
		n.report(field.Invalid("annotations."+name, annotation.text(), "must match `ingressClassName` when both are specified"))
	}
}

func notAddress(n *node, detail string, _ []string) {
	if _, ok := sloppyAddr(n.text()); ok {
		n.invalid(detail)
	}
}

func ingressPath(n *node, _ string, _ []string) {
	for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
		if strings.Contains(n.text(), part) {
			n.invalid(fmt.Sprintf("must not contain '%s'", part))
		}
	}
	for _, end := range []string{"/..", "/."} {
		if strings.HasSuffix(n.text(), end) {
			n.invalid(fmt.Sprintf("cannot end with '%s'", end))
		}
	}
}

func ingressBackend(n *node, _ string, _ []string) {
	resource, service := n.child("resource"), n.child("service")
	switch {
	case resource.value != nil && service.value != nil:
		n.report(field.Invalid(n.path, "", "cannot set both resource and service backends"))
	case resource.value != nil:
		resource.apply("IngressResource")
	case service.value != nil:
		service.apply("IngressServiceBackend")
		name, number := service.at("port.name"), service.at("port.number")
		switch {
		case name.text() != "" && number.number() != 0:
			n.report(field.Invalid(n.path, "", "cannot set both port name & port number"))
		case name.text() != "":
			name.format(portName)
		case number.number() != 0:
			number.checkRange(1, 65535, "must be between 1 and 65535, inclusive")
		default:
			n.required("port name or number is required")
		}
	default:
		n.report(field.Invalid(n.path, "", "resource or service backend is required"))
	}
}

func policyTypes(n *node, _ string, _ []string) {
	if len(n.items()) > 2 {
		n.invalid("may not specify more than two policyTypes")
		return
	}
	for _, item := range n.items() {
		item.checkEnum([]string{"Ingress", "Egress"})
	}
}

func policyPort(n *node, _ string, _ []string) {
	port, end := n.child("port"), n.child("endPort")
	name, named := port.value.(string)
	switch {
	case port.value == nil:
		if end.value != nil {
			end.invalid("may not be specified when `port` is not specified")
		}
	case named:
		if end.value != nil {
			end.invalid("may not be specified when `port` is non-numeric")
		}
		for _, detail := range portName(name) {
			port.invalid(detail)
		}
	default:
		const detail = "must be between 1 and 65535, inclusive"
		port.checkRange(1, 65535, detail)
		if end.value == nil {
			return
		}
		if end.number() < port.number() {
			n.report(field.Invalid(end.path, port.value, "must be greater than or equal to `port`"))
		}
		end.checkRange(1, 65535, detail)
	}
}

func peers(n *node, _ string, _ []string) {
	switch count := n.count("podSelector", "namespaceSelector", "ipBlock"); {
	case count == 0:
		n.required("must specify a peer")
	case count > 1 && n.has("ipBlock"):
		n.forbidden("may not specify both ipBlock and another peer")
	}
}

// exceptCIDR checks a range that is excluded from another one.
func exceptCIDR(n *node, _ string, _ []string) {
	whole, ok := sloppyPrefix(n.parent.parent.string("cidr"))
	if !ok {
		return
	}
	n.format(cidr)
	part, ok := sloppyPrefix(n.text())
	if ok && (!whole.Masked().Contains(part.Masked().Addr()) || whole.Bits() >= part.Bits()) {
		n.invalid("must be a strict subset of `cidr`")
	}
}

// endpointAddress checks an address of the type of its slice.
func endpointAddress(n *node, _ string, _ []string) {
	endpoint := n.parent.parent
	addr, _ := sloppyAddr(n.text())
	wrong := func(form format, is bool, version string) {
		details := form(n.text())
		if len(details) == 0 && !is {
			n.report(field.Invalid(n.parent.path, n.text(), "must be an "+version+" address"))
		}
		if len(details) == 0 {
			details = unusableIP(n.text())
		}
		for _, detail := range details {
			n.invalidText(detail)
		}
	}
	switch endpoint.parent.parent.string("addressType") {
	case "IPv4":
		wrong(ip, addr.Is4(), "IPv4")
	case "IPv6":
		wrong(canonicalIP, addr.Is6(), "IPv6")
	case "FQDN":
		name := strings.TrimSuffix(n.text(), ".")
		switch details := Subdomain(name); {
		case n.text() == "":
			n.required("")
		case len(details) > 0:
			n.report(field.Invalid(n.path, name, strings.Join(details, ",")))
		case !strings.Contains(name, "."):
			n.report(field.Invalid(n.path, name, "should be a domain with at least two segments separated by dots"))
		}
	}
}

func endpointPortName(n *node, _ string, _ []string) {
	name := n.child("name")
	switch {
	case name.text() != "":
		name.format(Label)
	case len(n.parent.items()) > 1:
		name.required("")
	}
}

func dualStackCIDRs(n *node, _ string, _ []string) {
	families := make(map[bool]bool)
	for _, text := range n.texts() {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return
		}
		families[prefix.Addr().Is4()] = true
	}
	if count := len(n.items()); count > 1 && (len(families) < 2 || count > 2) {
		n.invalid("may specify no more than one CIDR for each IP family")
	}
}

// uniqueTexts refuses duplicate values.
func (n *node) uniqueTexts() {
	for _, item := range n.items() {
		if slices.ContainsFunc(item.before(), func(other *node) bool { return other.text() == item.text() }) {
			n.report(field.Duplicate(item.path, item.text()))
		}
	}
}
