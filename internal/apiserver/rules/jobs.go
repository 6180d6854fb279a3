package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func jobFunctions() map[string]function {
	return map[string]function{
		"generatedSelector": generatedSelector,
		"jobSelector":       jobSelector,
		"indexedName":       indexedName,
		"jobUpdate":         jobUpdate,
		"domainPath":        domainPath,
		"failedIndexes":     failedIndexes,
		"manyCompletions":   manyCompletions,
		"successPolicyMode": successPolicyMode,
		"jobRestartPolicy":  jobRestartPolicy,
		"failIndex":         failIndex,
		"omitted":           omitted,
		"knownContainer":    knownContainer,
		"exitCodes":         exitCodes,
		"successRule":       successRule,
		"jobStatus":         jobStatus,
		"schedule":          schedule,
		"timeZone":          timeZone,
		"manualSelector":    manualSelector,
		"cronJobName":       cronJobName,
	}
}

// generatedSelector checks that the selector of a job is the generated one.
func generatedSelector(n *node, _ string, _ []string) {
	const prefix = "batch.kubernetes.io/"
	selector := n.at("spec.selector")
	if selector.value == nil || n.at("spec.manualSelector").value == true {
		return
	}
	meta := n.at("spec.template.metadata")
	labels := rawjson.AsMap(meta.child("labels").value)
	uid, name := n.string("metadata.uid"), n.string("metadata.name")
	expected := make(map[string]any)
	for _, l := range [][2]string{{"controller-uid", uid}, {"job-name", name}, {prefix + "controller-uid", uid}, {prefix + "job-name", name}} {
		key, want := l[0], l[1]
		expected[key] = want
		path, detail := meta.path+".labels["+key+"]", fmt.Sprintf("must be '%s'", want)
		switch value, found := labels[key]; {
		case !found:
			n.report(field.Required(path, detail))
		case value != want:
			n.report(field.Invalid(path, labels, detail))
		}
	}
	if selects, valid := selector.selects(expected); valid && !selects {
		selector.invalid("`selector` not auto-generated")
	}
}

// jobSelector requires that the selector of a job selects its pods. A missing selector is generated.
func jobSelector(n *node, _ string, _ []string) {
	selector, labels := n.child("selector"), n.at("template").labelsOf()
	if selector.value == nil {
		if n.child("manualSelector").value == true {
			selector.required("")
			n.report(field.Invalid(n.path+".template.metadata.labels", labelsShown(labels), notSelected))
		}
		return
	}
	if selects, valid := selector.selects(labels); valid && !selects {
		n.report(field.Invalid(n.path+".template.metadata.labels", labelsShown(labels), notSelected))
	}
}

// indexedName refuses names that are too long for the names of the pods.
func indexedName(n *node, _ string, _ []string) {
	completions := n.at("spec.completions").number()
	if n.run.update || n.string("spec.completionMode") != "Indexed" || completions < 1 {
		return
	}
	pod := fmt.Sprintf("%s-%d", n.string("metadata.name"), completions-1)
	if len(Label(pod)) > 0 {
		n.at("metadata.name").invalid("will not able to create pod with invalid DNS label: " + pod)
	}
}

// jobUpdate refuses changes to the immutable fields of a job.
func jobUpdate(n *node, _ string, _ []string) {
	if !n.run.update {
		return
	}
	completions := n.child("completions")
	switch {
	case n.string("completionMode") != "Indexed":
		completions.checkImmutable("")
	case completions.value != nil && !same(completions.value, completions.old) && completions.number() != n.child("parallelism").number():
		completions.invalid("can only be modified in tandem with spec.parallelism")
	}
	n.child("selector").checkImmutable("")
	jobTemplateUpdate(n)
	for _, name := range []string{"completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"} {
		n.child(name).checkImmutable("")
	}
}

// jobTemplateUpdate refuses changes to the template. Before its start, a suspended job may change the resources and the scheduling of its pods.
func jobTemplateUpdate(n *node) {
	template := n.child("template")
	old, _ := rawjson.Clone(template.old).(map[string]any)
	now := rawjson.AsMap(template.value)
	job, live := n.parent, rawjson.AsMap(n.parent.old)
	suspended := rawjson.AsMap(live["spec"])["suspend"] == true
	_, started := rawjson.Lookup(live, "status", "startTime")
	if old == nil || now == nil || job == nil {
		return
	}
	spec, current := rawjson.AsMap(old["spec"]), rawjson.AsMap(now["spec"])
	if suspended && !started && spec != nil {
		restoreAffinity(spec, current)
		for _, name := range []string{"nodeSelector", "tolerations", "schedulingGates"} {
			restoreField(spec, current, name)
		}
		meta := map[string]any{}
		for key, value := range rawjson.AsMap(old["metadata"]) {
			meta[key] = value
		}
		restoreField(meta, rawjson.AsMap(now["metadata"]), "labels")
		restoreField(meta, rawjson.AsMap(now["metadata"]), "annotations")
		old["metadata"] = meta
		restoreResources(spec, current)
		if !same(spec, current) {
			n.report(field.Invalid(template.path+".spec", template.child("spec").value, "field is immutable"))
		}
		return
	}
	if !same(old, template.value) {
		template.invalid("field is immutable")
	}
}

func restoreAffinity(spec, current map[string]any) {
	mine, theirs := rawjson.AsMap(spec["affinity"]), rawjson.AsMap(current["affinity"])
	if mine == nil {
		mine = make(map[string]any)
	}
	restoreField(mine, theirs, "nodeAffinity")
	spec["affinity"] = mine
	if len(mine) == 0 && theirs == nil {
		delete(spec, "affinity")
	}
}

// restoreResources copies the resources of the containers.
func restoreResources(spec, current map[string]any) {
	for _, name := range []string{"containers", "initContainers"} {
		mine, _ := spec[name].([]any)
		theirs, _ := current[name].([]any)
		for i := range mine {
			a := rawjson.AsMap(mine[i])
			if i < len(theirs) && len(mine) == len(theirs) {
				if b := rawjson.AsMap(theirs[i]); rawjson.Equal(a["name"], b["name"]) {
					restoreField(a, b, "resources")
				}
			}
		}
	}
}

// domainPath checks a path such as "example.com/a/b".
func domainPath(n *node, _ string, _ []string) {
	domain, path, _ := strings.Cut(n.text(), "/")
	switch {
	case n.text() == "":
		n.required("")
		return
	case domain == "" || path == "":
		n.invalid(`must be a domain-prefixed path (such as "acme.io/foo")`)
		return
	}
	for _, detail := range Subdomain(domain) {
		n.report(field.Invalid(n.path, domain, detail))
	}
	if !consistsOf(path, letters+digits+"/-._~%!$&'()*+,;=:") {
		n.report(field.Invalid(n.path, path, `Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')`))
	}
}

// failedIndexes compares the numbers of a job whose pods have indexes.
func failedIndexes(n *node, _ string, _ []string) {
	if completions := n.parent.child("completions"); completions.value != nil && n.number() > completions.number() {
		n.invalid("must be less than or equal to completions")
	}
}

// manyCompletions checks the numbers of a job with very many indexes.
func manyCompletions(n *node, _ string, _ []string) {
	const most, limit = 100000, 10000
	failed, parallelism := n.child("maxFailedIndexes"), n.child("parallelism")
	if n.child("completions").number() <= most || !n.has("backoffLimitPerIndex") {
		return
	}
	if failed.value == nil {
		failed.required(fmt.Sprintf("must be specified when completions is above %d", most))
	}
	for _, f := range []*node{parallelism, failed} {
		if f.number() > limit {
			f.invalid(fmt.Sprintf("must be less than or equal to %d when completions are above %d and used with backoff limit per index", limit, most))
		}
	}
}

func successPolicyMode(n *node, _ string, _ []string) {
	var rules []string
	for _, rule := range n.child("rules").items() {
		rules = append(rules, string(goForm(rule.value, "SucceededIndexes SucceededCount")))
	}
	n.report(field.Invalid(n.path, json.RawMessage(`{"Rules":[`+strings.Join(rules, ",")+`]}`), "requires indexed completion mode"))
}

func jobRestartPolicy(n *node, _ string, _ []string) {
	policy := n.at("template.spec.restartPolicy")
	switch text := policy.text(); {
	case text == "" || text == "Always":
		policy.required(`valid values: "OnFailure", "Never"`)
	case text != "OnFailure" && text != "Never":
		policy.unsupported("OnFailure", "Never")
	case n.has("podFailurePolicy") && text != "Never":
		policy.invalid(`only "Never" is supported when podFailurePolicy is specified`)
	}
}

// jobSpec returns the spec of the job that contains a value.
func (n *node) jobSpec() *node {
	for ; n.parent != nil; n = n.parent {
		if n.has("template") {
			break
		}
	}
	return n
}

func failIndex(n *node, _ string, _ []string) {
	if !n.jobSpec().has("backoffLimitPerIndex") {
		n.child("action").invalid("requires the backoffLimitPerIndex to be set")
	}
}

// omitted reports an invalid value that the error does not contain.
func omitted(n *node, detail string, _ []string) {
	n.report(field.Invalid(n.path, field.Omitted{}, detail))
}

func knownContainer(n *node, _ string, _ []string) {
	spec := n.jobSpec().at("template.spec")
	if spec.child("containers").named(n.text()) == nil && spec.child("initContainers").named(n.text()) == nil {
		n.invalid("must be one of the container or initContainer names in the pod template")
	}
}

func exitCodes(n *node, _ string, _ []string) {
	codes := n.items()
	switch {
	case len(codes) == 0:
		n.report(field.Invalid(n.path, []any{}, "at least one value is required"))
	case len(codes) > 255:
		n.checkItems(255)
	}
	ordered := true
	for i, code := range codes {
		if n.parent.string("operator") == "In" && code.number() == 0 {
			code.invalid("must not be 0 for the In operator")
		}
		if slices.ContainsFunc(code.before(), func(other *node) bool { return other.number() == code.number() }) {
			n.report(field.Duplicate(code.path, code.value))
		}
		ordered = ordered && (i == 0 || codes[i-1].number() <= code.number())
	}
	if !ordered {
		n.invalid("must be ordered")
	}
}

func successRule(n *node, _ string, _ []string) {
	completions := n.jobSpec().child("completions").number()
	indexes, count := n.child("succeededIndexes"), n.child("succeededCount")
	if indexes.value == nil && count.value == nil {
		n.required("at least one of succeededCount or succeededIndexes must be specified")
	}
	total, err := countIndexes(indexes.text(), completions)
	if err != nil {
		indexes.invalid("error parsing succeededIndexes: " + err.Error())
	}
	if count.value == nil {
		return
	}
	count.checkRange(0, -1, "must be greater than or equal to 0")
	if count.number() > completions {
		count.invalid(fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions))
	}
	if indexes.value != nil && count.number() > total {
		count.invalid(fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", total))
	}
}

// countIndexes returns the number of indexes in a list such as "1,3-5".
func countIndexes(text string, completions int64) (total int64, err error) {
	if text == "" {
		return 0, nil
	}
	last := int64(-1)
	for i, interval := range strings.Split(text, ",") {
		first, end, err := indexInterval(interval, completions)
		if err != nil {
			return 0, err
		}
		if i > 0 && last >= first {
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", last, first)
		}
		total += end - first + 1
		last = end
	}
	return total, nil
}

// overlapOf returns the first index that is in both lists.
func overlapOf(a, b string, completions int64) (int64, bool) {
	for _, x := range strings.Split(a, ",") {
		for _, y := range strings.Split(b, ",") {
			first, last, err := indexInterval(x, completions)
			start, end, other := indexInterval(y, completions)
			if err == nil && other == nil && first <= end && start <= last {
				return max(first, start), true
			}
		}
	}
	return 0, false
}

func indexInterval(text string, completions int64) (first, last int64, err error) {
	parts := strings.Split(text, "-")
	if len(parts) > 2 {
		return 0, 0, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	numbers := make([]int64, len(parts))
	for i, part := range parts {
		number, err := strconv.Atoi(part)
		if err != nil {
			return 0, 0, fmt.Errorf("cannot convert string to integer for index: %q", part)
		}
		if numbers[i] = int64(number); numbers[i] >= completions {
			return 0, 0, fmt.Errorf("too large index: %q", part)
		}
	}
	first, last = numbers[0], numbers[len(numbers)-1]
	if len(parts) > 1 && first >= last {
		return 0, 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", first, last)
	}
	return first, last, nil
}

// conditionIsTrue reports whether a condition of a status is true.
func conditionIsTrue(status *node, name string) bool {
	return slices.ContainsFunc(status.child("conditions").items(), func(c *node) bool {
		return c.string("type") == name && c.string("status") == "True"
	})
}

// jobStatus checks the fields of a job's status against each other.
func jobStatus(n *node, _ string, _ []string) {
	status := n.child("status")
	before := &node{value: status.old, path: status.path, run: n.run}
	conditions, completed, started := status.child("conditions"), status.child("completionTime"), status.child("startTime")
	is := func(name string) bool { return conditionIsTrue(status, name) }
	was := func(name string) bool { return conditionIsTrue(before, name) }
	complete, failed := is("Complete"), is("Failed")
	refuse := func(when bool, detail string) {
		if when {
			omitted(conditions, detail, nil)
		}
	}
	changed := !same(status.value, status.old)
	if !changed {
		return
	}
	uncountedPods(status.child("uncountedTerminatedPods"))
	refuse(complete && failed, "cannot set Complete=True and Failed=true conditions")
	refuse(complete && is("FailureTarget"), "cannot set Complete=True and FailureTarget=true conditions")
	switch {
	case completed.value != nil && !complete:
		completed.invalid("cannot set completionTime when there is no Complete=True condition")
	case completed.value == nil && complete:
		completed.required("completionTime is required for Complete jobs")
	}
	if earlier(completed, started) {
		completed.invalid("must be equal to or after `startTime`")
	}
	refuse(failed && !is("FailureTarget"), "cannot set Failed=True condition without the FailureTarget=true condition")
	refuse(complete && !is("SuccessCriteriaMet"), "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	finishedJob(n, status, complete || failed)
	refuse(is("SuccessCriteriaMet") && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
	refuse(is("SuccessCriteriaMet") && is("FailureTarget"), "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	for _, name := range []string{"Failed", "Complete", "FailureTarget"} {
		refuse(was(name) && !is(name), fmt.Sprintf("cannot disable the terminal %s=True condition", name))
	}
	for _, name := range []string{"failed", "succeeded"} {
		if counter := status.child(name); counter.number() < before.child(name).number() {
			counter.invalidNumber("cannot decrease the " + name + " counter")
		}
	}
	if completed.value != nil && completed.old != nil && !rawjson.Equal(completed.value, completed.old) {
		completed.invalid("field is immutable")
	}
	if started.old != nil && !rawjson.Equal(started.value, started.old) && n.at("spec.suspend").value != true {
		started.invalid("field is immutable for unsuspended job once set")
	}
	refuse(was("SuccessCriteriaMet") && !is("SuccessCriteriaMet"), "cannot disable the SuccessCriteriaMet=True condition")
}

// uncountedPods checks the UIDs of pods that are not counted yet.
func uncountedPods(n *node) {
	seen := make(map[string]bool)
	for _, name := range []string{"succeeded", "failed"} {
		for _, uid := range n.child(name).items() {
			switch {
			case uid.text() == "":
				uid.invalidText("must not be empty")
			case seen[uid.text()]:
				n.report(field.Duplicate(uid.path, uid.text()))
			}
			seen[uid.text()] = true
		}
	}
}

// earlier reports whether the first of two times is before the second.
func earlier(a, b *node) bool {
	x, err := time.Parse(time.RFC3339, a.text())
	y, other := time.Parse(time.RFC3339, b.text())
	return errors.Join(err, other) == nil && x.Before(y)
}

// finishedJob checks the numbers in the status of a job.
func finishedJob(n, status *node, finished bool) {
	active, terminating, ready := status.child("active"), status.child("terminating"), status.child("ready")
	if finished && active.number() > 0 {
		active.invalid("active>0 is invalid for finished job")
	}
	if started := status.child("startTime"); finished && started.value == nil {
		started.required("startTime is required for finished job")
	}
	indexed := n.string("spec.completionMode") == "Indexed"
	completed, failed := status.child("completedIndexes"), status.child("failedIndexes")
	if completions := n.child("spec").completions(); completions >= 0 {
		if _, err := countIndexes(completed.text(), completions); err != nil {
			completed.invalid("error parsing completedIndexes: " + err.Error())
		}
	}
	if completions := n.child("spec").completions(); completions >= 0 && n.has("spec.backoffLimitPerIndex") && failed.value != nil {
		if _, err := countIndexes(failed.text(), completions); err != nil {
			failed.invalid("error parsing failedIndexes: " + err.Error())
		}
	}
	if i, overlap := overlapOf(completed.text(), failed.text(), n.child("spec").completions()); overlap {
		failed.invalid(fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", i))
	}
	if completed.text() != "" && !indexed {
		completed.invalid("cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if failed.value != nil && !n.has("spec.backoffLimitPerIndex") {
		failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if finished && terminating.number() > 0 {
		terminating.invalid("terminating>0 is invalid for finished job")
	}
	if ready.value != nil && ready.number() > active.number() {
		ready.invalid("cannot set more ready pods than active")
	}
}

// completions returns the number of pods that must succeed, -1 if it is not specified. It is one for jobs without a number of pods.
func (n *node) completions() int64 {
	completions := n.child("completions")
	switch {
	case completions.value != nil:
		return completions.number()
	case n.child("parallelism").value == nil:
		return 1
	}
	return -1
}

func schedule(n *node, _ string, _ []string) {
	s := n.child("schedule")
	text := s.text()
	if text == "" {
		return
	}
	if err := parseSchedule(text); err != nil {
		s.invalid(err.Error())
	}
	before, _ := s.old.(string)
	switch allowed := strings.Contains(before, "TZ"); {
	case !strings.Contains(text, "TZ"):
	case !allowed:
		s.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	case n.has("timeZone"):
		s.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule")
	}
}

func timeZone(n *node, _ string, _ []string) {
	zone := n.text()
	if n.run.update && rawjson.Equal(n.value, n.old) {
		return
	}
	if zone == "" {
		n.invalid("timeZone must be nil or non-empty string")
		return
	}
	for _, part := range strings.Split(zone, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || len(part) > 14 || !consistsOf(part, letters+digits+".-_+") {
			n.invalid("unknown time zone " + zone)
			return
		}
	}
	if strings.EqualFold(zone, "Local") {
		n.invalid("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	}
	if _, err := time.LoadLocation(zone); err != nil && hasTimeZones() {
		n.invalid(err.Error())
	}
}

// hasTimeZones reports whether this machine has a database of time zones. Slim images do not.
func hasTimeZones() bool {
	_, err := time.LoadLocation("Europe/London")
	return err == nil
}

func manualSelector(n *node, _ string, _ []string) {
	if n.value == true {
		n.unsupported("nil", "false")
	}
}

// cronJobName refuses names that are too long for the names of the jobs.
func cronJobName(n *node, _ string, _ []string) {
	if !n.run.update && len(n.text()) > 52 {
		n.invalid("must be no more than 52 characters")
	}
}
