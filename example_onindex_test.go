package kopf_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"slices"
	"time"

	"github.com/kopf-go/kopf"
)

// nodeManifests has a node with two pods.
const nodeManifests = `
{apiVersion: v1, kind: Pod, metadata: {namespace: default, name: web}, spec: {nodeName: worker, containers: [{name: main, image: nginx}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: default, name: db}, spec: {nodeName: worker, containers: [{name: main, image: postgres}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: worker}}
`

// indexPod returns what the index has of a pod: its name, under the name of its node.
func indexPod(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
	return map[string]string{i.Spec().String("nodeName"): i.Name()}, nil
}

// podCounter has the index, from which its handler reads.
type podCounter struct{ podsByNode *kopf.Index[string, string] }

// count handles nodes. kopf calls no handler before the index has all pods, so count needs no request.
func (p *podCounter) count(ctx context.Context, c *kopf.Change) error {
	pods := slices.Sorted(slices.Values(p.podsByNode.Get(c, c.Name())))
	fmt.Println(c.Name(), "has the pods", pods)
	c.Patch.Set("metadata.labels.pods", fmt.Sprint(len(pods)))
	return nil
}

func ExampleOnIndex() {
	kopf.SetDefaultRegistry(new(kopf.Registry)) // without handlers of other examples
	counter := &podCounter{podsByNode: kopf.OnIndex("pods", indexPod, nil)}
	kopf.OnCreate("nodes", counter.count, &kopf.ChangeOptions{ID: "count"})

	// A program for a cluster calls kopf.Main here. This one runs on an embedded API server.
	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(nodeManifests)); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error)
	go func() {
		operator := &kopf.Operator{Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}
		ended <- operator.Run(ctx)
	}()

	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	node := kopf.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "worker"}
	labelled := func(b *kopf.Body) bool { return b.Labels()["pods"] == "2" }
	if _, err := kopf.WaitFor(ctx, client, node, "to be labelled", labelled); err != nil {
		log.Fatal(err)
	}

	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// worker has the pods [db web]
}
