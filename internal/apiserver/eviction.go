package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/selector"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// postEviction answers the eviction of a pod.
func (a *apiRequest) postEviction(w http.ResponseWriter, r *http.Request, object map[string]any) error {
	if unstructured.Text(rawjson.AsMap(object["metadata"]), "name") != a.name {
		return apierrors.BadRequest("name in URL does not match name in Eviction object")
	}
	if err := a.admitPosted("policy", "v1", "Eviction", object); err != nil {
		return err
	}
	pod := *a
	pod.subresource, pod.body, pod.ctx = "", nil, nil // webhooks review the eviction alone
	if err := pod.evict(object); err != nil {
		return err
	}
	a.answerDone(w, r)
	return nil
}

// modify changes the stored object, without admission and without a manager.
func (a *apiRequest) modify(mutate func(object map[string]any) error) error {
	for {
		before := a.server.db.Get(a.kind.collection(), a.key())
		if before == nil {
			return a.kind.notFound(a.name)
		}
		object := before.Object()
		if err := mutate(object); err != nil || a.dryRun {
			return err
		}
		now, ok, err := a.server.db.Put(a.kind.collection(), a.key(), before, object, 0)
		if err != nil {
			return err
		}
		if ok {
			a.server.stored(a.kind, now)
			return nil
		}
	}
}

// setPodCondition adds a condition to the status of a pod, or replaces the one of its type.
func setPodCondition(pod, condition map[string]any) {
	status := mapAt(pod, "status")
	conditions, _ := status["conditions"].([]any)
	i := slices.IndexFunc(conditions, func(c any) bool { return rawjson.AsMap(c)["type"] == condition["type"] })
	condition["lastProbeTime"], condition["lastTransitionTime"] = nil, unstructured.Timestamp(time.Now())
	if i < 0 {
		status["conditions"] = append(conditions, condition)
		return
	}
	if old := rawjson.AsMap(conditions[i]); old["status"] == condition["status"] {
		condition["lastTransitionTime"] = old["lastTransitionTime"]
	}
	conditions[i] = condition
}

// evict deletes the pod, unless a disruption budget forbids it. See
// https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
func (a *apiRequest) evict(eviction map[string]any) error {
	o, err := readDeleteOptions(rawjson.AsMap(eviction["deleteOptions"]))
	if err != nil {
		return err
	}
	a.verb = "delete"
	a.dryRun = a.dryRun || slices.Contains(o.DryRun, "All")
	item := a.server.db.Get(a.kind.collection(), a.key())
	if item == nil {
		return a.kind.notFound(a.name)
	}
	pod := item.Object()
	if err := a.disrupt(pod); err != nil {
		return err
	}
	if err := a.precondition(o, pod); err != nil {
		return err
	}
	if !a.dryRun {
		err := a.modify(func(pod map[string]any) error {
			setPodCondition(pod, map[string]any{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"})
			return nil
		})
		if err != nil {
			return err
		}
		o.Preconditions.ResourceVersion = nil // checked above, and changed since
	}
	return a.deleteObject(o)
}

// disrupt checks the disruption budget of a pod, and takes one disruption from it.
func (a *apiRequest) disrupt(pod map[string]any) error {
	status := rawjson.AsMap(pod["status"])
	if phase := unstructured.Text(status, "phase"); phase != "Running" && phase != "Unknown" || rawjson.AsMap(pod["metadata"])["deletionTimestamp"] != nil {
		return nil
	}
	budgets := a.server.kindOf("policy/v1", "PodDisruptionBudget")
	items, _ := a.server.db.List(budgets.collection())
	var names []string
	for _, item := range items {
		s := rawjson.AsMap(unstructured.View(item.Raw).Get("spec.selector"))
		if item.Namespace == a.namespace && s != nil && selector.MatchesLabels(s, pod) {
			names = append(names, item.Name)
		}
	}
	if len(names) > 1 {
		return apierrors.New(500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", nil)
	}
	if len(names) == 0 {
		return nil
	}
	budget := &apiRequest{server: a.server, kind: budgets, namespace: a.namespace, name: names[0], dryRun: a.dryRun}
	err := budget.modify(func(object map[string]any) error {
		if !isReady(status) && sparesUnhealthy(object) {
			return errSpared
		}
		return takeDisruption(object, a.name)
	})
	if errors.Is(err, errSpared) {
		return nil
	}
	return err
}

// errSpared is the reason why a budget stays unchanged: the pod does not count.
var errSpared = errors.New("the pod is not healthy, and does not count")

// isReady reports whether the status of a pod says that it is ready.
func isReady(status map[string]any) bool {
	conditions, _ := status["conditions"].([]any)
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition := rawjson.AsMap(c)
		return condition["type"] == "Ready" && condition["status"] == "True"
	})
}

// sparesUnhealthy reports whether a budget allows the eviction of pods that are not ready.
func sparesUnhealthy(budget map[string]any) bool {
	if rawjson.AsMap(budget["spec"])["unhealthyPodEvictionPolicy"] == "AlwaysAllow" {
		return true
	}
	status := rawjson.AsMap(budget["status"])
	desired := unstructured.Whole(status["desiredHealthy"])
	return desired > 0 && unstructured.Whole(status["currentHealthy"]) >= desired
}

// takeDisruption takes one disruption from a budget, or returns the error if it allows none.
func takeDisruption(budget map[string]any, pod string) error {
	meta, status := rawjson.AsMap(budget["metadata"]), mapAt(budget, "status")
	name := unstructured.Text(meta, "name")
	allowed := unstructured.Whole(status["disruptionsAllowed"])
	switch {
	case unstructured.Whole(status["observedGeneration"]) < unstructured.Whole(meta["generation"]):
		return tooManyEvictions(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", name))
	case allowed < 0:
		return apierrors.New(403, "Forbidden", fmt.Sprintf("poddisruptionbudget.policy %q is forbidden: pdb disruptions allowed is negative", name),
			map[string]any{"name": name, "group": "policy", "kind": "poddisruptionbudget"})
	case allowed == 0:
		return tooManyEvictions(0, fmt.Sprintf("The disruption budget %s %s", name, noneAllowed(status)))
	}
	status["disruptionsAllowed"] = json.Number(strconv.FormatInt(allowed-1, 10))
	if allowed == 1 {
		condition := map[string]any{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": ""}
		if g := status["observedGeneration"]; g != nil {
			condition["observedGeneration"] = g
		}
		setPodCondition(budget, condition)
		delete(condition, "lastProbeTime")
	}
	mapAt(status, "disruptedPods")[pod] = unstructured.Timestamp(time.Now())
	return nil
}

// noneAllowed returns the reason why a budget allows no disruptions.
func noneAllowed(status map[string]any) string {
	conditions, _ := status["conditions"].([]any)
	reason, message := "", ""
	for _, c := range conditions {
		if condition := rawjson.AsMap(c); condition["type"] == "DisruptionAllowed" && condition["status"] == "False" {
			reason, message = unstructured.Text(condition, "reason"), unstructured.Text(condition, "message")
		}
	}
	desired, current := unstructured.Whole(status["desiredHealthy"]), unstructured.Whole(status["currentHealthy"])
	switch {
	case message != "" && reason == "SyncFailed":
		return "does not allow evicting pods currently because it failed sync: " + message
	case current <= desired:
		return fmt.Sprintf("needs %d healthy pods and has %d currently", desired, current)
	case message != "":
		return fmt.Sprintf("does not allow evicting pods currently (%s): %s", reason, message)
	}
	return "does not allow evicting pods currently"
}

// tooManyEvictions refuses an eviction because of a disruption budget.
func tooManyEvictions(retryAfter int, why string) error {
	details := map[string]any{"causes": []any{map[string]any{"reason": "DisruptionBudget", "message": why}}}
	if retryAfter > 0 {
		details["retryAfterSeconds"] = json.Number(strconv.Itoa(retryAfter))
	}
	return apierrors.New(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", details)
}
