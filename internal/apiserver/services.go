package apiserver

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/rules"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Services get addresses and node ports when they are stored, from ranges that many clusters have. Values are in use if a stored service has them, or
// one that is being stored. See https://kubernetes.io/docs/concepts/services-networking/cluster-ip-allocation/

const (
	firstPort, lastPort = 30000, 32767
	staticPorts         = 86  // at the start of the range, for services that request a port
	staticAddresses     = 256 // likewise
	addressBits         = 20
)

// service is a service that is being stored.
type service struct {
	*apiRequest
	live, object map[string]any // live is nil for a new one
	old, spec    map[string]any
	oldType, typ string
	current      bool // whether the uses of the reservations are those of the stored services
}

// settleService allocates the addresses and the ports of a service. It keeps those that a client omits, and drops those that the new type does not have.
func (a *apiRequest) settleService(live, object map[string]any) error {
	s := &service{apiRequest: a, live: live, object: object, old: rawjson.AsMap(live["spec"]), spec: rawjson.AsMap(object["spec"])}
	if s.spec == nil {
		return nil
	}
	s.oldType, s.typ = unstructured.Text(s.old, "type"), unstructured.Text(s.spec, "type")
	if live != nil {
		s.keep()
		s.drop()
	}
	s.syncAddresses()
	a.server.reservations.mu.Lock()
	defer a.server.reservations.mu.Unlock()
	var faults []field.Error
	if s.typ != "ExternalName" {
		if faults = rules.ValidateAddresses(live, object); len(faults) == 0 {
			faults = s.initFamilies()
		}
		if len(faults) == 0 {
			faults = s.allocateAddresses()
		}
	}
	var err error
	if len(faults) == 0 {
		faults, err = s.allocatePorts()
	}
	if len(faults) > 0 {
		return a.kind.invalid(a.name, faults)
	}
	if err != nil {
		return err
	}
	if err := s.checkHealthPort(); err != nil {
		return err
	}
	s.reserve()
	return nil
}

// reserve reserves unused values until the service is stored. The caller holds the lock of the reservations.
func (s *service) reserve() {
	own := make(map[string]bool)
	for _, what := range usesOf(s.old) {
		own[what] = true
	}
	for _, what := range usesOf(s.spec) {
		if !own[what] {
			s.server.reservations.takeLocked(s.apiRequest, what)
		}
	}
}

// checkHealthPort refuses a requested port for health checks that the service cannot have.
func (s *service) checkHealthPort() error {
	port := s.spec["healthCheckNodePort"]
	if n := unstructured.Whole(port); !checksHealth(s.spec) || n < 1 || n > 65535 || rawjson.Equal(port, s.old["healthCheckNodePort"]) {
		return nil // the validation refuses it
	}
	why := ""
	if faults := s.checkPort("", port); len(faults) > 0 {
		why = faults[0].Detail
	} else if slices.Contains(nodePorts(s.spec), unstructured.Word(port)) {
		why = "provided port is already allocated"
	}
	if why != "" {
		return apierrors.Internal(fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %s", port, why))
	}
	return nil
}

// hasAddress reports whether services of a type have an address.
func hasAddress(typ string) bool { return typ == "ClusterIP" || hasPorts(typ) }

// hasPorts reports whether services of a type have node ports.
func hasPorts(typ string) bool { return typ == "NodePort" || typ == "LoadBalancer" }

// isExternal reports whether a service is reachable from outside of the cluster.
func isExternal(spec map[string]any) bool {
	typ := unstructured.Text(spec, "type")
	return hasPorts(typ) || typ == "ClusterIP" && !rawjson.IsEmpty(spec["externalIPs"])
}

// checksHealth reports whether a service has a port for health checks.
func checksHealth(spec map[string]any) bool {
	return spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

// keep keeps allocated values that a client omits.
func (s *service) keep() {
	if hasAddress(s.oldType) && hasAddress(s.typ) {
		if unstructured.Text(s.spec, "clusterIP") == "" && s.old["clusterIP"] != nil {
			s.spec["clusterIP"] = s.old["clusterIP"]
		}
		if rawjson.IsEmpty(s.spec["clusterIPs"]) && !rawjson.IsEmpty(s.old["clusterIPs"]) {
			s.spec["clusterIPs"] = rawjson.Clone(s.old["clusterIPs"])
		}
	}
	if hasPorts(s.oldType) && hasPorts(s.typ) {
		byName, taken := make(map[string]any), make(map[any]bool)
		for _, p := range portsOf(s.old) {
			byName[unstructured.Text(p, "name")] = p["nodePort"]
		}
		for _, p := range portsOf(s.spec) {
			taken[p["nodePort"]] = true
		}
		for _, p := range portsOf(s.spec) {
			if v := byName[unstructured.Text(p, "name")]; isZero(p["nodePort"]) && !isZero(v) && !taken[v] {
				p["nodePort"] = v
			}
		}
	}
	if checksHealth(s.old) && checksHealth(s.spec) && isZero(s.spec["healthCheckNodePort"]) {
		s.spec["healthCheckNodePort"] = s.old["healthCheckNodePort"]
	}
}

// drop removes the values that the new type does not have, if the client has not changed them.
func (s *service) drop() {
	same := func(key string) bool { return rawjson.Equal(s.old[key], s.spec[key]) }
	drop := func(when bool, keys ...string) {
		for _, key := range keys {
			if when && same(key) {
				delete(s.spec, key)
			}
		}
	}
	if hasAddress(s.oldType) && !hasAddress(s.typ) {
		if same("clusterIP") && same("clusterIPs") {
			drop(true, "clusterIP", "clusterIPs")
		}
		drop(true, "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
	}
	if hasPorts(s.oldType) && !hasPorts(s.typ) && slices.Equal(nodePorts(s.old), nodePorts(s.spec)) {
		for _, p := range portsOf(s.spec) {
			delete(p, "nodePort")
		}
	}
	drop(checksHealth(s.old) && !checksHealth(s.spec), "healthCheckNodePort")
	drop(s.oldType == "LoadBalancer" && s.typ != "LoadBalancer", "allocateLoadBalancerNodePorts", "loadBalancerClass")
	drop(isExternal(s.old) && !isExternal(s.spec), "externalTrafficPolicy")
	if s.typ != "LoadBalancer" {
		s.object["status"] = map[string]any{"loadBalancer": map[string]any{}}
	}
}

// syncAddresses updates the list of addresses from the single address, which is the only one that older clients set.
func (s *service) syncAddresses() {
	address, before := unstructured.Text(s.spec, "clusterIP"), unstructured.Text(s.old, "clusterIP")
	list := unstructured.Texts(s.spec["clusterIPs"])
	unchanged := s.live != nil && rawjson.Equal(s.old["clusterIPs"], s.spec["clusterIPs"])
	switch {
	case address != "" && (len(list) == 0 || unchanged && address != before):
		s.spec["clusterIPs"] = []any{address}
	case address == "" && before != "" && unchanged:
		delete(s.spec, "clusterIPs")
	}
}

// isHeadless reports whether the service has no address.
func (s *service) isHeadless() bool { return s.spec["clusterIP"] == "None" }

// initFamilies sets the IP families.
func (s *service) initFamilies() (faults []field.Error) {
	unselected := s.isHeadless() && rawjson.IsEmpty(s.spec["selector"])
	if s.spec["ipFamilyPolicy"] == nil {
		switch {
		case s.old["ipFamilyPolicy"] != nil:
			s.spec["ipFamilyPolicy"] = s.old["ipFamilyPolicy"]
		case unselected:
			s.spec["ipFamilyPolicy"] = "RequireDualStack"
		default:
			s.spec["ipFamilyPolicy"] = "SingleStack"
		}
	}
	policy := s.spec["ipFamilyPolicy"]
	families := unstructured.Texts(s.spec["ipFamilies"])
	for i, text := range unstructured.Texts(s.spec["clusterIPs"]) {
		address, err := netip.ParseAddr(text)
		if err == nil && i >= len(families) && address.Is4() {
			families = append(families, "IPv4")
		} else if err == nil && i >= len(families) {
			faults = append(faults, field.Invalid("spec.clusterIPs["+strconv.Itoa(i)+"]", s.spec["clusterIPs"], "IPv6 is not configured on this cluster"))
		}
	}
	if len(families) == 0 {
		families = []string{"IPv4"}
	}
	switch {
	case unselected && len(families) == 1 && policy != "SingleStack":
		families = append(families, map[string]string{"IPv4": "IPv6"}[families[0]])
		if families[1] == "" {
			families[1] = "IPv4"
		}
	case !unselected && policy == "RequireDualStack":
		faults = append(faults, field.Invalid("spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services"))
	}
	for i, family := range families {
		if !unselected && family != "IPv4" {
			faults = append(faults, field.Invalid("spec.ipFamilies["+strconv.Itoa(i)+"]", family, "not configured on this cluster"))
		}
	}
	s.spec["ipFamilies"] = anys(families)
	return faults
}

// allocateAddresses gives the service an address, or checks the requested one.
func (s *service) allocateAddresses() []field.Error {
	if s.isHeadless() {
		return nil
	}
	wanted := unstructured.Text(s.spec, "clusterIP")
	if wanted == "" {
		wanted = s.server.nextAddress(s.isUsed)
		s.spec["clusterIP"], s.spec["clusterIPs"] = wanted, []any{wanted}
		return nil
	}
	if wanted != s.old["clusterIP"] && s.isUsed(wanted) {
		return []field.Error{field.Invalid("spec.clusterIPs", s.spec["clusterIPs"], fmt.Sprintf("failed to allocate IP %s: provided IP is already allocated", wanted))}
	}
	return nil
}

// allocatePorts gives the ports of the service node ports, or checks the requested ones.
func (s *service) allocatePorts() (faults []field.Error, err error) {
	ports := portsOf(s.spec)
	byPort := make(map[string]any) // TCP and UDP share a port
	own := make(map[string]bool)   // the node ports of the service so far
	asked := make(map[string]any)  // the requested ones, with the index of the port
	for _, p := range ports {
		v := p["nodePort"]
		if isZero(v) {
			continue
		}
		own[unstructured.Word(v)] = true
		if byPort[unstructured.Word(p["port"])] == nil {
			byPort[unstructured.Word(p["port"])] = v
		}
	}
	next := func(what string) any {
		port, ok := s.server.nextPort(func(port string) bool { return own[port] || s.isUsed(port) })
		if !ok && err == nil {
			err = apierrors.Internal(fmt.Errorf("failed to allocate a %s: range is full", what))
		}
		own[port] = true
		return json.Number(port)
	}
	old := nodePorts(s.old)
	for i, p := range ports {
		switch {
		case !hasPorts(s.typ):
		case !isZero(p["nodePort"]):
			word := unstructured.Word(p["nodePort"])
			number, twice := asked[word]
			if asked[word] = p["port"]; twice && unstructured.Word(number) != unstructured.Word(p["port"]) {
				faults = append(faults, field.Invalid("spec.ports["+strconv.Itoa(i)+"].nodePort", p["nodePort"], "provided port is already allocated"))
			} else if !slices.Contains(old, word) {
				faults = append(faults, s.checkPort("spec.ports["+strconv.Itoa(i)+"].nodePort", p["nodePort"])...)
			}
		case s.typ == "LoadBalancer" && s.spec["allocateLoadBalancerNodePorts"] == false:
		case s.live == nil && byPort[unstructured.Word(p["port"])] != nil:
			p["nodePort"] = byPort[unstructured.Word(p["port"])]
		default:
			p["nodePort"] = next("nodePort")
			byPort[unstructured.Word(p["port"])] = p["nodePort"]
		}
	}
	if checksHealth(s.spec) && isZero(s.spec["healthCheckNodePort"]) {
		s.spec["healthCheckNodePort"] = next("HealthCheck NodePort 0")
	}
	return faults, err
}

// checkPort validates a requested port.
func (s *service) checkPort(at string, port any) []field.Error {
	if n, err := strconv.Atoi(unstructured.Word(port)); err != nil || n < firstPort || n > lastPort {
		return []field.Error{field.Invalid(at, port, fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", firstPort, lastPort))}
	}
	if s.isUsed(unstructured.Word(port)) {
		return []field.Error{field.Invalid(at, port, "provided port is already allocated")}
	}
	return nil
}

// isUsed reports whether another service uses an address or a port. The caller holds the lock of the reservations.
func (s *service) isUsed(what string) bool {
	r := &s.server.reservations
	if !s.current {
		r.catchUpLocked(s.server.db, s.kind.collection())
		s.current = true
	}
	others := r.uses[what]
	if s.live != nil {
		for _, own := range r.byService[s.key()] {
			if own == what {
				others--
			}
		}
	}
	return others > 0 || r.taken[what]
}

// nextAddress returns an unused address. No two requests get the same one.
func (s *Server) nextAddress(isUsed func(string) bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		n := staticAddresses + s.services%(1<<addressBits-staticAddresses-1)
		s.services++
		b := [4]byte{10, 96, 0, 0}
		b[1], b[2], b[3] = b[1]|byte(n>>16), byte(n>>8), byte(n)
		if text := netip.AddrFrom4(b).String(); !isUsed(text) {
			return text
		}
	}
}

// nextPort returns an unused node port, and reports whether there is one. It prefers ports that services do not request explicitly. No two requests
// get the same one.
func (s *Server) nextPort(isUsed func(string) bool) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const dynamic = lastPort - firstPort + 1 - staticPorts
	for range dynamic {
		port := strconv.Itoa(firstPort + staticPorts + s.nodePorts%dynamic)
		s.nodePorts++
		if !isUsed(port) {
			return port, true
		}
	}
	for n := range staticPorts {
		if port := strconv.Itoa(firstPort + n); !isUsed(port) {
			return port, true
		}
	}
	return "0", false
}

// portsOf returns the ports of a service.
func portsOf(spec map[string]any) (ports []map[string]any) {
	list, _ := spec["ports"].([]any)
	for _, p := range list {
		if port := rawjson.AsMap(p); port != nil {
			ports = append(ports, port)
		}
	}
	return ports
}

// nodePorts returns the node ports of a service.
func nodePorts(spec map[string]any) (all []string) {
	for _, p := range portsOf(spec) {
		if !isZero(p["nodePort"]) {
			all = append(all, unstructured.Word(p["nodePort"]))
		}
	}
	return all
}

// usesOf returns the addresses and the node ports of a service, which are distinguishable. A port occurs as often as the service uses it.
func usesOf(spec map[string]any) (all []string) {
	all = nodePorts(spec)
	if port := spec["healthCheckNodePort"]; !isZero(port) {
		all = append(all, unstructured.Word(port))
	}
	for _, address := range unstructured.Texts(spec["clusterIPs"]) {
		if address != "" && address != "None" {
			all = append(all, address)
		}
	}
	return all
}

// isZero reports whether a number is missing or zero.
func isZero(v any) bool { return v == nil || v == json.Number("0") }
