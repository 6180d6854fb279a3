package rules

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/quantity"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func resourceFunctions() map[string]function {
	return map[string]function{
		"containerResources":    func(n *node, _ string, _ []string) { n.checkResources(containerResource) },
		"podResources":          podResources,
		"overhead":              overhead,
		"podFixed":              podFixed,
		"containerResourceName": func(n *node, _ string, _ []string) { containerResource(n, n.text()) },
		"amounts":               amounts,
		"positiveAmount":        positiveAmount,
		"quotaResources":        quotaResources,
		"quotaScopes":           quotaScopes,
		"scopesChange":          scopesChange,
		"scopeSelector":         scopeSelector,
		"limitType":             limitType,
		"limits":                limits,
		"nodeResources":         nodeResources,
	}
}

var (
	containerResources = []string{"cpu", "memory", "ephemeral-storage"}
	countedResources   = []string{"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}
	promisedResources  = []string{"requests.cpu", "requests.memory", "requests.storage", "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage"}
)

// isQuotaResource reports whether a quota can limit a resource of Kubernetes.
func isQuotaResource(name string) bool {
	return slices.Contains(containerResources, name) || slices.Contains(countedResources, name) || slices.Contains(promisedResources, name)
}

func isHugePages(name string) bool { return strings.HasPrefix(name, "hugepages-") }

// isNative reports whether a resource belongs to Kubernetes.
func isNative(name string) bool {
	return !strings.Contains(name, "/") || strings.Contains(name, "kubernetes.io/")
}

// isExtended reports whether nodes advertise a resource.
func isExtended(name string) bool {
	return !isNative(name) && !strings.HasPrefix(name, "requests.") && len(QualifiedName("requests."+name)) == 0
}

// resourceName checks the name of a resource, and reports whether it is valid.
func resourceName(n *node, name string) bool {
	wrong := QualifiedName(name)
	if len(wrong) == 0 && !strings.Contains(name, "/") && !isQuotaResource(name) && name != "storage" && !isHugePages(name) && !strings.HasPrefix(name, "requests.hugepages-") {
		wrong = []string{"must be a standard resource type or fully qualified"}
	}
	for _, detail := range wrong {
		n.report(field.Invalid(n.path, name, detail))
	}
	return len(wrong) == 0
}

// containerResource checks the name of a resource of containers.
func containerResource(n *node, name string) {
	resourceName(n, name)
	switch {
	case !strings.Contains(name, "/"):
		if !slices.Contains(containerResources, name) && !isHugePages(name) {
			n.report(field.Invalid(n.path, name, "must be a standard resource for containers"))
		}
	case !isNative(name) && !isExtended(name):
		n.report(field.Invalid(n.path, name, "doesn't follow extended resource name standard"))
	}
}

// isPodResource reports whether a pod as a whole can have a resource.
func isPodResource(name string) bool { return name == "cpu" || name == "memory" || isHugePages(name) }

func podResource(n *node, name string) {
	if resourceName(n, name) && !isPodResource(name) {
		n.report(field.NotSupported(n.path, name, `supported values: "cpu", "hugepages-", "memory"`))
	}
}

func quotaResource(n *node, name string) {
	resourceName(n, name)
	if !strings.Contains(name, "/") && !isQuotaResource(name) && !strings.HasPrefix(name, "requests.hugepages-") && !isHugePages(name) {
		n.report(field.Invalid(n.path, name, "must be a standard resource for quota"))
	}
}

// checkAmount checks the amount of a resource.
func (n *node) checkAmount(name string) {
	q, ok := n.quantity()
	if !ok {
		return
	}
	if q.Sign() < 0 {
		n.report(field.Invalid(n.path, q.String(), "must be greater than or equal to 0"))
	}
	if (slices.Contains(countedResources, name) || isExtended(name)) && !q.IsWhole() {
		n.report(field.Invalid(n.path, q.String(), "must be an integer"))
	}
}

// overcommits reports whether limits may exceed the requests of a resource.
func overcommits(name string) bool { return isNative(name) && !isHugePages(name) }

// checkResources checks limits and requests.
func (n *node) checkResources(checkName func(n *node, name string)) {
	limits, requests := n.child("limits"), n.child("requests")
	huge, plain := false, false
	count := func(name string) {
		huge = huge || isHugePages(name)
		plain = plain || name == "cpu" || name == "memory"
	}
	for _, limit := range limits.entries() {
		checkName(limit, limit.key())
		limit.checkAmount(limit.key())
		limit.checkPages()
		count(limit.key())
	}
	for _, request := range n.requests() {
		name := request.key()
		checkName(request, name)
		request.checkAmount(name)
		requests.checkLimit(request, limits.child(name), name)
		request.checkPages()
		count(name)
	}
	if huge && !plain {
		n.forbidden("HugePages require cpu or memory")
	}
	for _, claim := range n.child("claims").items() {
		n.checkClaim(claim)
	}
}

// requests returns the requests. For pods, they default to the limits.
func (n *node) requests() []*node {
	requests := n.child("requests")
	if n.podSpec().path != "spec" {
		return requests.entries()
	}
	all := make(map[string]any)
	for key, value := range rawjson.AsMap(n.child("limits").value) {
		if all[key] = value; n.path == "spec.resources" {
			if !isPodResource(key) {
				delete(all, key)
			} else if sum, is := n.parent.sumOf(key); is {
				all[key] = sum
			}
		}
	}
	maps.Copy(all, rawjson.AsMap(requests.value))
	requests.value = all
	return requests.entries()
}

// checkLimit compares a request with its limit.
func (n *node) checkLimit(request, limit *node, name string) {
	q, known := request.quantity()
	most, limited := limit.quantity()
	switch {
	case !known:
	case limited && !overcommits(name) && q.Cmp(most) != 0:
		n.report(field.Invalid(n.path, q.String(), fmt.Sprintf("must be equal to %s limit of %s", name, most)))
	case limited && q.Cmp(most) > 0:
		n.report(field.Invalid(n.path, q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, most)))
	case !limited && !overcommits(name):
		limit.parent.required("Limit must be set for non overcommitable resources")
	}
}

// checkPages requires amounts of whole memory pages.
func (n *node) checkPages() {
	size, ok := strings.CutPrefix(n.key(), "hugepages-")
	page, known := (&node{value: size}).quantity()
	q, is := n.quantity()
	if !ok || !known || !is || page.Sign() == 0 {
		return
	}
	if pages := new(big.Rat).Quo(q.Rat(), page.Rat()); !pages.IsInt() {
		n.report(field.Invalid(n.path, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q, n.key())))
	}
}

func (n *node) checkClaim(claim *node) {
	name, names := claim.string("name"), n.podSpec().child("resourceClaims").names()
	if name == "" {
		claim.required("")
		return
	}
	for _, other := range claim.before() {
		if other.string("name") == name && (other.string("request") == claim.string("request") || other.string("request") == "" || claim.string("request") == "") {
			n.report(field.Duplicate(claim.path, name))
			break
		}
	}
	if !slices.Contains(names, name) {
		e := field.NotFound(claim.path, name)
		e.Detail = "must be one of the names in pod.spec.resourceClaims"
		if len(names) == 0 {
			e.Detail += " which is empty"
		} else {
			slices.Sort(names)
			e.Detail += ": " + strings.Join(names, ", ")
		}
		n.report(e)
	}
}

func podResources(n *node, _ string, _ []string) {
	n.checkResources(podResource)
	spec := n.parent
	for _, request := range n.child("requests").entries() {
		text, _ := spec.sumOf(request.key())
		sum, summed := (&node{value: text}).quantity()
		if q, ok := request.quantity(); ok && summed && sum.Cmp(q) > 0 {
			n.report(field.Invalid(request.path, q.String(), "must be greater than or equal to aggregate container requests of "+text))
		}
	}
	for _, container := range spec.child("containers").items() {
		for _, limit := range container.at("resources.limits").entries() {
			most, limited := n.child("limits").child(limit.key()).quantity()
			if q, ok := limit.quantity(); ok && limited && q.Cmp(most) > 0 {
				n.report(field.Invalid(fmt.Sprintf("%s.containers[%d][%s].limits", n.path, container.index, limit.key()), q.String(), "must be less than or equal to pod limits of "+most.String()))
			}
		}
	}
}

// sumOf returns the sum of the requests of a pod's containers, and reports whether there are any.
func (n *node) sumOf(resource string) (text string, requested bool) {
	sum, binary := new(big.Rat), false
	for _, container := range n.child("containers").items() {
		for _, request := range container.child("resources").requests() {
			if q, ok := request.quantity(); ok && request.key() == resource {
				sum.Add(sum, q.Rat())
				binary, requested = binary || strings.HasSuffix(q.String(), "i"), true
			}
		}
	}
	return amountOf(sum, binary), requested
}

// overhead checks the overhead of a pod, in addition to its containers.
func overhead(n *node, _ string, _ []string) {
	limits := *n
	limits.path = join(n.path, "limits")
	for _, limit := range limits.entries() {
		limit.parent = &limits
		containerResource(limit, limit.key())
		limit.checkAmount(limit.key())
	}
}

func podFixed(n *node, _ string, _ []string) {
	moved := *n
	moved.path = n.parent.path
	overhead(&moved, "", nil)
}

func amounts(n *node, _ string, _ []string) {
	for _, entry := range n.entries() {
		if q, ok := entry.quantity(); ok && q.Sign() < 0 {
			n.report(field.Invalid(entry.path, entry.value, "must be a valid resource quantity"))
		}
	}
}

func positiveAmount(n *node, detail string, _ []string) {
	if q, ok := n.quantity(); ok && q.Sign() <= 0 {
		n.report(field.Invalid(n.path, q.String(), detail))
	}
}

func quotaResources(n *node, _ string, _ []string) {
	for _, entry := range n.entries() {
		quotaResource(entry, entry.key())
		entry.checkAmount(entry.key())
	}
}

var (
	scopes         = []string{"Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "VolumeAttributesClass", "CrossNamespacePodAffinity"}
	existingScopes = []string{"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"}
	contradictions = [][2]string{{"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}}
)

// scopeCovers reports whether a scope applies to a resource.
func scopeCovers(scope, resource string) bool {
	switch scope {
	case "Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity":
		return resource == "pods" || slices.Contains([]string{"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}, resource)
	case "BestEffort":
		return resource == "pods"
	case "VolumeAttributesClass":
		return resource == "persistentvolumeclaims" || resource == "requests.storage"
	}
	return true
}

// checkScope checks the name of a scope, and whether it applies to the resources of the quota.
func (n *node) checkScope(scope string, hard *node, list, shown *node) {
	if !slices.Contains(scopes, scope) {
		n.report(field.Invalid(n.path, shown.value, "unsupported scope"))
	}
	for _, resource := range hard.sortedKeys() {
		if isQuotaResource(resource) && !scopeCovers(scope, resource) {
			n.report(field.Invalid(list.path, list.value, "unsupported scope applied to resource"))
		}
	}
}

func (n *node) checkContradictions(names []string, shown any) {
	for _, pair := range contradictions {
		if slices.Contains(names, pair[0]) && slices.Contains(names, pair[1]) {
			n.report(field.Invalid(n.path, shown, "conflicting scopes"))
		}
	}
}

func quotaScopes(n *node, _ string, _ []string) {
	for _, scope := range n.texts() {
		n.checkScope(scope, n.parent.child("hard"), n, n)
	}
	n.checkContradictions(n.texts(), n.value)
}

func scopesChange(n *node, _ string, _ []string) {
	before, now := (&node{value: n.old}).texts(), n.texts()
	slices.Sort(before)
	slices.Sort(now)
	if !slices.Equal(slices.Compact(before), slices.Compact(now)) {
		n.invalid("field is immutable")
	}
}

func scopeSelector(n *node, _ string, _ []string) {
	list := n.child("matchExpressions")
	var names []string
	for _, requirement := range list.items() {
		requirement.path = list.path // as in kube-apiserver
		scope, operator, values := requirement.child("scopeName"), requirement.child("operator"), requirement.child("values")
		names = append(names, scope.text())
		scope.checkScope(scope.text(), n.parent.child("hard"), list, scope)
		if slices.Contains(existingScopes, scope.text()) && operator.text() != "Exists" {
			operator.invalidText("must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity")
		}
		switch operator.text() {
		case "In", "NotIn":
			if isEmpty(values.value) {
				values.required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
			}
		case "Exists", "DoesNotExist":
			if !isEmpty(values.value) {
				values.invalid("must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
			}
		default:
			operator.invalidText("not a valid selector operator")
		}
	}
	list.checkContradictions(names, n.parent.child("scopes").value)
}

func limitType(n *node, _ string, _ []string) {
	wrong := QualifiedName(n.text())
	if len(wrong) == 0 && !strings.Contains(n.text(), "/") && !slices.Contains([]string{"Pod", "Container", "PersistentVolumeClaim"}, n.text()) {
		wrong = []string{"must be a standard limit type or fully qualified"}
	}
	for _, detail := range wrong {
		n.invalidText(detail)
	}
}

// limits checks one item of a limit range.
func limits(n *node, _ string, _ []string) {
	kind := n.string("type")
	names := []string{"max", "min", "default", "defaultRequest", "maxLimitRequestRatio"}
	var resources []string
	for _, name := range names {
		list := n.child(name)
		if kind == "Pod" && strings.HasPrefix(name, "default") {
			if !isEmpty(list.value) {
				list.forbidden("may not be specified when `type` is 'Pod'")
			}
			continue
		}
		if name == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" && !n.has("min.storage") && !n.has("max.storage") {
			n.child("limits").required("either minimum or maximum storage value is required, but neither was provided")
		}
		for _, entry := range list.entries() {
			if kind == "Pod" || kind == "Container" {
				containerResource(entry, entry.key())
			} else {
				resourceName(entry, entry.key())
			}
			resources = append(resources, entry.key())
		}
	}
	slices.Sort(resources)
	for _, resource := range slices.Compact(resources) {
		n.compareLimits(resource, kind)
	}
}

// compareLimits compares the limits of one resource.
func (n *node) compareLimits(resource, kind string) {
	get := func(name string) (q *quantity.Quantity, path string, ok bool) {
		if kind == "Pod" && strings.HasPrefix(name, "default") {
			return q, "", false
		}
		list := n.child(name)
		q, ok = list.child(resource).quantity()
		return q, list.path + "[" + resource + "]", ok
	}
	for _, c := range [...][5]string{ // smaller, larger, the field of the error, the value of the error, its detail
		{"min", "max", "min", "min", "min value %s is greater than max value %s"},
		{"min", "defaultRequest", "defaultRequest", "defaultRequest", "min value %s is greater than default request value %s"},
		{"defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value %s is greater than max value %s"},
		{"defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value %s is greater than default limit value %s"},
		{"min", "default", "default", "min", "min value %s is greater than default value %s"},
		{"default", "max", "default", "max", "default value %s is greater than max value %s"},
	} {
		small, _, has := get(c[0])
		large, _, both := get(c[1])
		_, path, _ := get(c[2])
		shown, _, _ := get(c[3])
		if has && both && small.Cmp(large) > 0 {
			n.report(field.Invalid(path, shown.String(), fmt.Sprintf(c[4], small, large)))
		}
	}
	n.compareRatio(resource, get)
	def, _, has := get("default")
	request, path, both := get("defaultRequest")
	if !overcommits(resource) && has && both && def.Cmp(request) != 0 {
		n.report(field.Invalid(path, request.String(), fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", def, request, resource)))
	}
}

func (n *node) compareRatio(resource string, get func(string) (*quantity.Quantity, string, bool)) {
	ratio, path, ok := get("maxLimitRequestRatio")
	if !ok {
		return
	}
	if ratio.Rat().Cmp(big.NewRat(1, 1)) < 0 {
		n.report(field.Invalid(path, ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio)))
	}
	least, _, has := get("min")
	most, _, both := get("max")
	if !has || !both || least.Sign() == 0 {
		return
	}
	if limit := new(big.Rat).Quo(most.Rat(), least.Rat()); ratio.Rat().Cmp(limit) > 0 {
		f, _ := limit.Float64()
		n.report(field.Invalid(path, ratio.String(), fmt.Sprintf("ratio %s is greater than max/min = %f", ratio, f)))
	}
}

func nodeResources(n *node, _ string, _ []string) {
	for _, name := range []string{"capacity", "allocatable"} {
		list := n.child(name)
		if name == "allocatable" && list.value == nil { // it has a default
			list.value = n.child("capacity").value
		}
		for _, entry := range list.entries() {
			key := entry.key()
			entry.path = join(list.path, key)
			entry.checkAmount(key)
		}
	}
}
