package kopf_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/kopf-go/kopf"
)

// The examples in this file show data and errors. Those in the other files start an operator or make requests.

func ExampleTemporary() {
	create := func(ready bool) error {
		if !ready {
			return kopf.Temporary(errors.New("the volume is not there yet"), 10*time.Second)
		}
		return nil
	}
	err := fmt.Errorf("creating: %w", create(false))
	fmt.Println(err)
	if again := (*kopf.TemporaryError)(nil); errors.As(err, &again) {
		fmt.Println("again in", again.Delay)
	}
	// Output:
	// creating: the volume is not there yet
	// again in 10s
}

func ExamplePermanent() {
	err := fmt.Errorf("creating: %w", kopf.Permanent(errors.New("the size makes no sense")))
	permanent := (*kopf.PermanentError)(nil)
	fmt.Println(errors.As(err, &permanent), err)
	// Output:
	// true creating: the size makes no sense
}

func ExampleDeny() {
	err := kopf.Deny("the size is above 100", 422)
	denied := (*kopf.AdmissionError)(nil)
	fmt.Println(errors.As(err, &denied), denied.Code, denied.Message)
	// Output:
	// true 422 the size is above 100
}

func ExampleBody() {
	body, err := kopf.ParseBody([]byte(`{
		"apiVersion": "kopf.dev/v1", "kind": "KopfExample",
		"metadata": {"name": "example", "namespace": "default", "labels": {"env": "prod"}},
		"spec": {"size": 3, "parts": {"door": "red"}}}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(body.Reference(), body.Labels()["env"])
	fmt.Println(body.Spec().Int("size"), body.Spec().String("parts.door"), body.Spec().Has("parts.roof"))
	var typed struct {
		Spec struct{ Size int }
	}
	if err := body.Decode(&typed); err != nil {
		panic(err)
	}
	fmt.Println(typed.Spec.Size)
	// Output:
	// default/example prod
	// 3 red false
	// 3
}

func ExampleView() {
	body, err := kopf.NewBody(map[string]any{"spec": map[string]any{"size": 3, "items": []string{"a", "b"}, "parts": map[string]any{"door": "red"}}})
	if err != nil {
		panic(err)
	}
	spec := body.Spec()
	fmt.Println(spec.Keys(), spec.Strings("items"), spec.View("parts").Map())
	fmt.Println(spec.Int("nothing"), spec.String("nothing") == "", spec.View("nothing").Len()) // missing fields are zero
	// Output:
	// [items parts size] [a b] map[door:red]
	// 0 true 0
}

func ExampleView_Views() {
	body, err := kopf.ParseBody([]byte(`{"spec": {"ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}]}}`))
	if err != nil {
		panic(err)
	}
	for _, port := range body.Spec().Views("ports") {
		fmt.Println(port.String("name"), port.Int("port"))
	}
	// Output:
	// http 80
	// https 443
}

func ExampleView_StringMap() {
	body, err := kopf.ParseBody([]byte(`{"spec": {"selector": {"app": "web", "tier": "front"}}}`))
	if err != nil {
		panic(err)
	}
	selector := body.Spec().StringMap("selector")
	fmt.Println(selector["app"], selector["tier"], len(body.Spec().StringMap("nothing")))
	// Output:
	// web front 0
}

func ExampleIsReady() {
	for _, available := range []int{1, 2} {
		body, err := kopf.NewBody(map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "web", "generation": 3},
			"spec":     map[string]any{"replicas": 2},
			"status": map[string]any{"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": available, "conditions": []any{
				map[string]any{"type": "Available", "status": "True"},
				map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
			}},
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(available, "of 2 are available:", kopf.IsReady(body))
	}
	// Output:
	// 1 of 2 are available: false
	// 2 of 2 are available: true
}

func ExampleReferenceOf() {
	ref, err := kopf.ReferenceOf(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "default"},
	})
	fmt.Println(ref.APIVersion, ref.Kind, ref, err)
	// Output:
	// apps/v1 Deployment default/web <nil>
}

func ExamplePatch() {
	var patch kopf.Patch
	patch.Set("status.phase", "Ready")
	patch.Set("spec.parts", map[string]any{"door": "green"})
	patch.SetPath("yes", "metadata", "annotations", "example.com/seen") // keys with dots
	patch.Remove("spec.size")
	text, err := json.MarshalIndent(patch.Map(), "", "  ")
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
	// Output:
	// {
	//   "metadata": {
	//     "annotations": {
	//       "example.com/seen": "yes"
	//     }
	//   },
	//   "spec": {
	//     "parts": {
	//       "door": "green"
	//     },
	//     "size": null
	//   },
	//   "status": {
	//     "phase": "Ready"
	//   }
	// }
}

func ExamplePatch_Transform() {
	body, err := kopf.NewBody(map[string]any{"spec": map[string]any{"items": []string{"a", "b"}}})
	if err != nil {
		panic(err)
	}
	var patch kopf.Patch
	patch.Transform(func(object map[string]any) error {
		spec := object["spec"].(map[string]any)
		spec["items"] = append(spec["items"].([]any), "c")
		return nil
	})
	for _, operation := range patch.JSONPatch(body) {
		fmt.Println(operation.Op, operation.Path, operation.Value)
	}
	// Output:
	// add /spec/items/2 c
}

func ExamplePatch_Replace() {
	type status struct {
		Phase string   `json:"phase"`
		Items []string `json:"items,omitempty"` // a merge patch would keep missing items
	}
	body, err := kopf.ParseBody([]byte(`{"status": {"phase": "Working", "items": ["a", "b"]}}`))
	if err != nil {
		panic(err)
	}
	var patch kopf.Patch
	patch.Replace("status", status{Phase: "Done"})
	for _, operation := range patch.JSONPatch(body) {
		fmt.Println(operation.Op, operation.Path, operation.Value)
	}
	// Output:
	// remove /status/items <nil>
	// replace /status/phase Done
}

func ExamplePatch_SetCondition() {
	body, err := kopf.ParseBody([]byte(`{"status": {"conditions": [{"type": "Scheduled", "status": "True"}]}}`))
	if err != nil {
		panic(err)
	}
	var patch kopf.Patch
	patch.SetCondition(kopf.Condition{Type: "Ready", Status: kopf.ConditionFalse, Reason: "Waiting", Message: "the volume is not bound"})
	for _, operation := range patch.JSONPatch(body) { // the conditions of other clients stay
		condition := operation.Value.(map[string]any)
		fmt.Println(operation.Op, operation.Path, condition["type"], condition["status"], condition["reason"])
	}
	// Output:
	// add /status/conditions/1 Ready False Waiting
}

func ExamplePath() {
	path := kopf.Path("metadata", "annotations", "example.com/seen")
	fmt.Println(len(path.Keys()), path)
	// Output:
	// 3 metadata.annotations.example.com/seen
}

func ExampleDiff_Reduce() {
	diff := kopf.Diff{
		{Operation: kopf.DiffChange, Path: []string{"spec", "size"}, Old: 1, New: 2},
		{Operation: kopf.DiffAdd, Path: []string{"metadata", "labels"}, New: map[string]any{"env": "prod"}},
	}
	fmt.Println(diff.Reduce("spec"))
	fmt.Println(diff.Reduce("metadata.labels.env"))
	// Output:
	// [change size: 1 -> 2]
	// [add : <nil> -> prod]
}

func ExampleParseManifests() {
	objects, err := kopf.ParseManifests([]byte(`
apiVersion: v1
kind: Namespace
metadata: {name: one}
---
apiVersion: v1
kind: Namespace
metadata: {name: two}
`))
	fmt.Println(len(objects), objects[1]["metadata"], err)
	// Output:
	// 2 map[name:two] <nil>
}

func ExampleAdopt() {
	owner, err := kopf.NewBody(map[string]any{
		"apiVersion": "kopf.dev/v1", "kind": "KopfExample",
		"metadata": map[string]any{"name": "example", "namespace": "team", "uid": "1-2-3", "labels": map[string]any{"env": "prod"}},
	})
	if err != nil {
		panic(err)
	}
	child := map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	if err := kopf.Adopt(owner, child, nil); err != nil {
		panic(err)
	}
	metadata := child["metadata"].(map[string]any)
	fmt.Println(metadata["namespace"], metadata["generateName"], metadata["labels"])
	// Output:
	// team example- map[env:prod]
}

func ExampleNewSettings() {
	settings := kopf.NewSettings()
	settings.Persistence.Finalizer = "example.com/finalizer"
	fmt.Println(settings.Queueing.ExitTimeout, settings.Execution.DefaultBackoff, settings.Networking.MaxInFlight)
	// Output:
	// 2s 1m0s 64
}

func ExampleConnectionInfo() {
	info := &kopf.ConnectionInfo{Server: "https://kubernetes.example.com", Token: "secret"}
	fmt.Println(info) // without the token
	// Output:
	// {https://kubernetes.example.com, token}
}

func ExampleNewLogHandler() {
	logger := slog.New(kopf.NewLogHandler(&kopf.LogOptions{Format: kopf.LogPlain, Output: os.Stdout}))
	// Loggers of handlers have their object with them.
	logger = logger.With("object", kopf.ObjectReference{Namespace: "default", Name: "example"})
	logger.Info("Resized", "old", 1, "new", 2)
	// Output:
	// [default/example] Resized  old=1 new=2
}

func ExampleCommand() {
	code := kopf.Command(context.Background(), []string{"help", "resume"}, os.Stdout, os.Stderr)
	fmt.Println(code)
}
