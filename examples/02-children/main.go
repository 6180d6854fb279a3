// Command 02-children creates a pod for each object from a template. The object owns the pod, so that Kubernetes deletes the pod with the object.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"text/template"

	"github.com/kopf-go/kopf"
)

//go:embed pod.yaml
var manifest string

var pod = template.Must(template.New("pod.yaml").Parse(manifest))

func main() {
	// The result goes to status.create_fn, where the columns of "kubectl get" look for it.
	kopf.OnCreate("kopfexamples", create, &kopf.ChangeOptions{ID: "create_fn"})
	kopf.Needs("pods", "create", "patch") // create uses them by its client
	kopf.Main()
}

func create(ctx context.Context, c *kopf.Change) error {
	var rendered bytes.Buffer
	if err := pod.Execute(&rendered, c.Spec().Map()); err != nil {
		return kopf.Permanent(err)
	}
	children, err := kopf.ParseManifests(rendered.Bytes())
	if err != nil {
		return kopf.Permanent(err)
	}
	// Adopt sets the owner reference, the name, the namespace and the labels of the children. There is nothing to do on deletion.
	if err := c.Adopt(children, &kopf.HierarchyOptions{Strict: true}); err != nil {
		return err
	}
	var uids []string
	for _, child := range children {
		// The fixed name leads to the same object if the handler is called again.
		if err := c.Client.Apply(ctx, child, nil); err != nil {
			return err
		}
		uids = append(uids, child["metadata"].(map[string]any)["uid"].(string))
	}
	c.SetResult(map[string]any{"children": uids})
	return nil
}
