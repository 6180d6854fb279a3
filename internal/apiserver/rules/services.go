package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func serviceFunctions() map[string]function {
	return map[string]function{
		"servicePortsRequired": servicePortsRequired,
		"headless":             headless,
		"externalName":         externalName,
		"servicePortName":      servicePortName,
		"targetPort":           targetPort,
		"firstClusterIP":       firstClusterIP,
		"ipFamily":             ipFamily,
		"clusterIPs":           clusterIPs,
		"externalIP":           externalIP,
		"nodePorts":            nodePorts,
		"sourceRanges":         sourceRanges,
		"externalTraffic":      externalTraffic,
		"serviceUpdate":        serviceUpdate,
		"loadBalancerStatus":   loadBalancerStatus,
	}
}

// ips returns the cluster IPs in the spec of a service. The defaults copy the first one.
func (n *node) ips() []string {
	if list := n.child("clusterIPs"); list.value != nil {
		return list.texts()
	}
	if first := n.string("clusterIP"); first != "" {
		return []string{first}
	}
	return nil
}

func (n *node) isHeadless() bool {
	all := n.ips()
	return len(all) == 1 && all[0] == "None"
}

func servicePortsRequired(n *node, _ string, _ []string) {
	spec := n.child("spec")
	if ports := spec.child("ports"); isEmpty(ports.value) && !spec.isHeadless() && spec.string("type") != "ExternalName" {
		ports.required("")
	}
}

func headless(n *node, _ string, _ []string) {
	if n.isHeadless() {
		n.report(field.Invalid(n.path+".clusterIPs[0]", "None", fmt.Sprintf("may not be set to 'None' for %s services", n.string("type"))))
	}
}

func externalName(n *node, _ string, _ []string) {
	name := *n
	name.value = strings.TrimSuffix(n.text(), ".")
	if name.text() == "" {
		n.required("")
		return
	}
	name.format(Subdomain)
}

func servicePortName(n *node, _ string, _ []string) {
	name := n.child("name")
	if name.text() == "" {
		if len(n.parent.items()) > 1 {
			name.required("")
		}
		return
	}
	name.format(Label)
	if slices.ContainsFunc(n.before(), func(other *node) bool { return other.string("name") == name.text() }) {
		n.report(field.Duplicate(name.path, name.text()))
	}
}

// targetPort checks the target of a port, by default the same port.
func targetPort(n *node, _ string, _ []string) {
	if isEmpty(n.value) {
		n.value = n.parent.child("port").value
	}
	n.checkPortOrName()
}

// firstClusterIP compares the address with the first of the addresses.
func firstClusterIP(n *node, _ string, _ []string) {
	first, list := n.string("clusterIP"), n.child("clusterIPs")
	all := list.texts()
	switch {
	case list.value == nil:
	case first == "" && len(all) > 0:
		list.invalid("must be empty when `clusterIP` is not specified")
	case first != "" && len(all) == 0:
		list.required("")
	case first != "" && all[0] != first:
		list.invalid("first value must match `clusterIP`")
	}
}

func ipFamily(n *node, _ string, _ []string) {
	n.checkEnum([]string{"IPv4", "IPv6"})
	if slices.ContainsFunc(n.before(), func(other *node) bool { return other.text() == n.text() }) {
		n.report(field.Duplicate(n.path, n.text()))
	}
}

// clusterIPs checks the addresses of a service.
func clusterIPs(n *node, _ string, _ []string) {
	list := n.child("clusterIPs")
	if list.value == nil && n.string("clusterIP") != "" {
		list.value = []any{n.string("clusterIP")}
	}
	ips := list.items()
	old := (&node{value: list.old}).texts()
	families := n.child("ipFamilies").texts()
	before, both := len(n.run.faults), make(map[bool]bool)
	for i, address := range ips {
		if i == 0 && address.text() == "None" {
			if len(ips) > 1 {
				list.invalid("'None' must be the first and only value")
			}
			continue
		}
		if !slices.Contains(old, address.text()) {
			address.format(ip)
		}
		addr, _ := sloppyAddr(address.text())
		both[addr.Is4()] = true
	}
	invalid := len(n.run.faults) > before
	if len(ips) > 2 {
		list.invalid("may only hold up to 2 values")
	}
	if invalid {
		return
	}
	if len(ips) > 1 && len(both) < 2 {
		list.invalid("may specify no more than one IP for each IP family")
	}
	for i, address := range ips {
		addr, ok := sloppyAddr(address.text())
		if !ok || i >= len(families) {
			break
		}
		if wanted := families[i]; wanted == "IPv4" && !addr.Is4() || wanted == "IPv6" && addr.Is4() {
			address.invalid(fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", wanted, i))
		}
	}
}

func externalIP(n *node, _ string, _ []string) {
	if wrong := ip(n.text()); len(wrong) > 0 {
		if old := (&node{value: n.parent.old}).texts(); !slices.Contains(old, n.text()) {
			n.format(ip)
			return
		}
	}
	n.format(unusableIP)
}

// protocol returns the protocol of a port, TCP by default.
func (n *node) protocol() string {
	if text := n.string("protocol"); text != "" {
		return text
	}
	return "TCP"
}

// nodePorts checks the node ports, and that no two ports are the same.
func nodePorts(n *node, _ string, _ []string) {
	ports, kind := n.at("spec.ports").items(), n.string("spec.type")
	if kind == "" || kind == "ClusterIP" {
		for _, port := range ports {
			if f := port.child("nodePort"); f.number() != 0 {
				f.forbidden("may not be used when `type` is 'ClusterIP'")
			}
		}
	}
	type key struct { // two ports of a service must differ in it
		protocol string
		number   int64
	}
	seen := make(map[key]bool)
	for _, port := range ports {
		f := port.child("nodePort")
		own := key{port.protocol(), f.number()}
		if own.number != 0 && seen[own] {
			n.report(field.Duplicate(f.path, f.value))
		}
		seen[own] = true
	}
	clear(seen)
	for _, port := range ports {
		own := key{port.protocol(), port.child("port").number()}
		if seen[own] {
			shown := map[string]any{"protocol": own.protocol, "port": json.Number(fmt.Sprint(own.number))}
			n.report(field.Duplicate(port.path, goForm(shown, `Name="" Protocol AppProtocol Port TargetPort=0 NodePort=0`)))
		}
		seen[own] = true
	}
}

func sourceRanges(n *node, _ string, _ []string) {
	n.path = join(n.parent.path, "LoadBalancerSourceRanges")
	if isEmpty(n.value) {
		return
	}
	if n.parent.string("type") != "LoadBalancer" {
		n.forbidden("may only be used when `type` is 'LoadBalancer'")
	}
	old := (&node{value: n.old}).texts()
	for _, item := range n.items() {
		item.value = strings.TrimSpace(item.text())
		if !slices.Contains(old, item.text()) {
			item.format(cidr)
		}
	}
}

// externalTraffic checks the fields for traffic from outside.
func externalTraffic(n *node, _ string, _ []string) {
	kind, policy, check := n.string("type"), n.child("externalTrafficPolicy"), n.child("healthCheckNodePort")
	accessible := kind == "LoadBalancer" || kind == "NodePort" || (kind == "" || kind == "ClusterIP") && !isEmpty(n.child("externalIPs").value)
	switch {
	case policy.text() == "": // it has a default
	case !accessible:
		policy.invalid("may only be set for externally-accessible services")
	default:
		policy.checkEnum([]string{"Cluster", "Local"})
	}
	if check.number() == 0 {
		return
	}
	if !n.checksHealth() {
		check.invalid("may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
		return
	}
	check.checkRange(1, 65535, "must be between 1 and 65535, inclusive")
}

func (n *node) checksHealth() bool {
	return n.string("type") == "LoadBalancer" && n.string("externalTrafficPolicy") == "Local"
}

// serviceUpdate refuses changes to the addresses of a service.
func serviceUpdate(n *node, _ string, _ []string) {
	spec := n.child("spec")
	old := &node{value: spec.old, path: spec.path, run: n.run}
	if spec.string("type") != "ExternalName" && old.string("type") != "ExternalName" {
		if !old.isHeadless() || !spec.isHeadless() {
			spec.checkKeptIPs(old)
		}
		if !old.isHeadless() && !spec.isHeadless() {
			spec.checkKeptFamilies(old)
		}
	}
	if class := spec.child("loadBalancerClass"); spec.string("type") == "LoadBalancer" && old.string("type") == "LoadBalancer" && !rawjson.Equal(class.value, class.old) {
		class.report(field.Invalid(class.path, class.value, "may not change once set"))
	}
	if check := spec.child("healthCheckNodePort"); spec.checksHealth() && old.checksHealth() && !rawjson.Equal(check.value, check.old) {
		check.forbidden("field is immutable")
	}
}

// shownIPs returns the addresses for errors.
func (n *node) shownIPs() any {
	list := []any{}
	for _, text := range n.ips() {
		list = append(list, text)
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

func (n *node) checkKeptIPs(old *node) {
	before, now := old.ips(), n.ips()
	refuse := func(i int, detail string) {
		n.report(field.Invalid(fmt.Sprintf("%s.clusterIPs[%d]", n.path, i), n.shownIPs(), detail))
	}
	switch {
	case len(before) == len(now):
		for i := range before {
			if before[i] != now[i] {
				refuse(i, "may not change once set")
			}
		}
	case len(now) == 0:
		refuse(0, "primary clusterIP can not be unset")
	case len(before) > 0 && before[0] != now[0]:
		refuse(0, "may not change once set")
	}
	n.checkSingleStack(len(before) > len(now) && len(now) == 1, "secondary clusterIP")
}

func (n *node) checkSingleStack(released bool, what string) {
	if policy := n.child("ipFamilyPolicy"); released && policy.text() != "SingleStack" {
		n.report(field.Invalid(policy.path, policy.value, "must be set to 'SingleStack' when releasing the "+what))
	}
}

func (n *node) checkKeptFamilies(old *node) {
	list := n.child("ipFamilies")
	before, now := old.child("ipFamilies").texts(), list.texts()
	path := list.path + "[0]"
	switch {
	case len(before) == len(now):
		for i := range before {
			if before[i] != now[i] {
				n.report(field.Invalid(path, list.value, "may not change once set"))
			}
		}
	case len(now) == 0:
		if len(n.ips()) == 0 {
			n.report(field.Invalid(path, list.value, "primary ipFamily can not be unset"))
		}
	case len(before) > 0 && before[0] != now[0]:
		n.report(field.Invalid(path, n.shownIPs(), "may not change once set"))
	}
	n.checkSingleStack(len(before) > len(now) && len(now) == 1, "secondary ipFamily")
}

// loadBalancerStatus checks the addresses of a load balancer.
func loadBalancerStatus(n *node, _ string, _ []string) {
	list := n.at("status.loadBalancer.ingress")
	if n.string("spec.type") != "LoadBalancer" {
		if !isEmpty(list.value) {
			list.forbidden("may only be used when `spec.type` is 'LoadBalancer'")
		}
		return
	}
	for _, item := range list.items() {
		address, mode, name := item.child("ip"), item.child("ipMode"), item.child("hostname")
		if address.text() != "" {
			address.format(ip)
		}
		switch {
		case mode.value == nil: // it has a default
		case address.text() == "":
			mode.forbidden("may not be specified when `ip` is not set")
		default:
			mode.checkEnum([]string{"Proxy", "VIP"})
		}
		if name.text() != "" {
			name.format(Subdomain)
			notAddress(name, "must be a DNS name, not an IP address", nil)
		}
	}
}
