// Command 20-typed works with structs instead of maps: the object is decoded into one, its status is made of one, and
// so is its child.
package main

import (
	"context"
	"time"

	"github.com/kopf-go/kopf"
)

// KopfExample is the part of the objects that the operator works with. With the types of k8s.io/api it goes the same way.
type KopfExample struct {
	Spec struct {
		Duration string   `json:"duration"`
		Field    string   `json:"field"`
		Items    []string `json:"items"`
	} `json:"spec"`
	Status KopfExampleStatus `json:"status"`
}

// KopfExampleStatus is what the operator tells about them.
type KopfExampleStatus struct {
	Phase string    `json:"phase"`
	Items int       `json:"items"`
	Until time.Time `json:"until"`
}

// ConfigMap is what is made for each of them.
type ConfigMap struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]any    `json:"metadata"`
	Data       map[string]string `json:"data"`
}

func main() {
	kopf.OnCreate("kopfexamples", create, nil)
	kopf.OnField("kopfexamples", "spec.field", rewrite, nil)
	kopf.Main()
}

func create(ctx context.Context, c *kopf.Change) error {
	var example KopfExample
	if err := c.Decode(&example); err != nil {
		return kopf.Permanent(err) // for example, the items are no list of strings
	}
	lifetime, err := time.ParseDuration(example.Spec.Duration)
	if err != nil {
		return kopf.Permanent(err)
	}
	c.Patch.Replace("status", KopfExampleStatus{
		Phase: "Ready",
		Items: len(example.Spec.Items),
		Until: c.Body.CreationTimestamp().Add(lifetime),
	})
	return nil
}

// rewrite is called for new objects as well as for changed ones.
func rewrite(ctx context.Context, c *kopf.Change) error {
	child := ConfigMap{APIVersion: "v1", Kind: "ConfigMap", Data: map[string]string{"field": c.New.String("")}}
	if err := c.Adopt(&child, &kopf.HierarchyOptions{Strict: true}); err != nil {
		return err
	}
	if err := c.Client.Apply(ctx, &child, nil); err != nil {
		return err
	}
	c.Logger.Info("The child is written.", "version", child.Metadata["resourceVersion"])
	return nil
}
