package table

import (
	"net"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file has the cells of services, of resources for their traffic, and of nodes.

func callForNetwork(function string, v any) (cell any, ok bool) {
	switch function {
	case "externalIP":
		return externalIP(v), true
	case "servicePorts":
		return servicePorts(v), true
	case "endpoints":
		return endpoints(v), true
	case "slicePorts":
		return slicePorts(v), true
	case "sliceAddresses":
		return sliceAddresses(v), true
	case "hosts":
		return hosts(v), true
	case "addresses":
		return loadBalancer(v), true
	case "ingressPorts":
		if count(v) > 0 {
			return "80, 443", true
		}
		return "80", true
	case "parameters":
		return parameters(v), true
	case "nodeStatus":
		return nodeStatus(v), true
	case "nodeRoles":
		return nodeRoles(v), true
	case "internalIP":
		return nodeAddress(v, "InternalIP"), true
	case "externalAddress":
		return nodeAddress(v, "ExternalIP"), true
	case "kernel":
		kernel := or(unstructured.Word(at(v, "kernelVersion")), unknown)
		if architecture := unstructured.Word(at(v, "architecture")); architecture != "" {
			kernel += " (" + architecture + ")"
		}
		return kernel, true
	}
	return nil, false
}

func externalIP(service any) string {
	external := unstructured.Texts(at(service, "spec.externalIPs"))
	switch at(service, "spec.type") {
	case "ClusterIP", "NodePort":
		return or(strings.Join(external, ","), none)
	case "LoadBalancer":
		if balancer := loadBalancer(at(service, "status.loadBalancer.ingress")); balancer != "" {
			external = append([]string{balancer}, external...)
		}
		return or(strings.Join(external, ","), "<pending>")
	case "ExternalName":
		return unstructured.Word(at(service, "spec.externalName"))
	}
	return unknown
}

// loadBalancer returns the addresses and names of load balancers.
func loadBalancer(ingress any) string {
	var all []string
	for _, point := range items(ingress) {
		if address := or(unstructured.Word(point["ip"]), unstructured.Word(point["hostname"])); address != "" {
			all = append(all, address)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

func servicePorts(v any) string {
	var all []string
	for _, port := range items(v) {
		shown := unstructured.Word(port["port"])
		if node := unstructured.Whole(port["nodePort"]); node > 0 {
			shown += ":" + unstructured.Word(port["nodePort"])
		}
		all = append(all, shown+"/"+unstructured.Word(port["protocol"]))
	}
	return or(strings.Join(all, ","), none)
}

func endpoints(subsets any) string {
	var all []string
	for _, subset := range items(subsets) {
		addresses, ports := items(subset["addresses"]), items(subset["ports"])
		if len(ports) == 0 {
			all = append(all, each(subset["addresses"], "ip")...)
		}
		for _, port := range ports {
			for _, address := range addresses {
				all = append(all, net.JoinHostPort(unstructured.Word(address["ip"]), unstructured.Word(port["port"])))
			}
		}
	}
	if count(subsets) == 0 {
		return none
	}
	return firstOf(all, 3, ",", "")
}

func slicePorts(ports any) string {
	var all []string
	for _, port := range items(ports) {
		shown := "*"
		switch {
		case port["port"] != nil:
			shown = unstructured.Word(port["port"])
		case port["name"] != nil:
			shown = unstructured.Word(port["name"])
		}
		all = append(all, shown)
	}
	return firstOf(all, 3, ",", unset)
}

func sliceAddresses(endpoints any) string {
	var all []string
	for _, endpoint := range items(endpoints) {
		all = append(all, unstructured.Texts(endpoint["addresses"])...)
	}
	return firstOf(all, 3, ",", unset)
}

// hosts returns the hosts in the rules of an ingress. The number of omitted hosts includes rules without a host.
func hosts(rules any) string {
	all := slices.DeleteFunc(each(rules, "host"), func(host string) bool { return host == "" })
	if len(all) == 0 {
		return "*"
	}
	if len(all) > 3 {
		all = append(all[:3], make([]string, count(rules)-3)...)
	}
	return firstOf(all, 3, ",", "")
}

func parameters(v any) string {
	if v == nil {
		return none
	}
	kind := unstructured.Word(at(v, "kind"))
	if group := at(v, "apiGroup"); group != nil {
		kind += "." + unstructured.Word(group)
	}
	return kind + "/" + unstructured.Word(at(v, "name"))
}

func nodeStatus(node any) string {
	status := "Unknown"
	switch ready := condition(at(node, "status"), "Ready"); {
	case ready == nil:
	case ready["status"] == "True":
		status = "Ready"
	default:
		status = "NotReady"
	}
	if at(node, "spec.unschedulable") == true {
		status += ",SchedulingDisabled"
	}
	return status
}

func nodeRoles(v any) string {
	labels := rawjson.AsMap(v)
	var roles []string
	for key, value := range labels {
		role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/")
		switch {
		case ok && role != "":
			roles = append(roles, role)
		case key == "kubernetes.io/role" && unstructured.Word(value) != "":
			roles = append(roles, unstructured.Word(value))
		}
	}
	slices.Sort(roles)
	return or(strings.Join(slices.Compact(roles), ","), none)
}

func nodeAddress(addresses any, typ string) string {
	for _, address := range items(addresses) {
		if address["type"] == typ {
			return unstructured.Word(address["address"])
		}
	}
	return none
}
