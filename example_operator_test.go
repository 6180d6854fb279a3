package kopf_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/kopf-go/kopf"
)

// teamManifests has two namespaces, each with a config map.
const teamManifests = `
{apiVersion: v1, kind: Namespace, metadata: {name: team-a}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: private}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: team-a, name: theme}, data: {color: green}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: private, name: theme}, data: {color: black}}
`

// announceColor handles new config maps.
func announceColor(ctx context.Context, c *kopf.Change) error {
	fmt.Println("the color of", c.Namespace(), "is", c.Body.View("data").String("color"))
	c.Patch.Set("metadata.labels.announced", "true")
	return nil
}

// An Operator is for programs that do more than to run an operator, or that run several. Else use [kopf.Main].
func ExampleOperator() {
	registry := new(kopf.Registry)
	registry.OnCreate("configmaps", announceColor, nil)
	settings := kopf.NewSettings()
	settings.Persistence.Finalizer = "example.com/finalizer"
	server := kopf.NewAPIServer(nil) // embedded. For a cluster, leave the Connection out
	if err := server.Apply([]byte(teamManifests)); err != nil {
		log.Fatal(err)
	}
	operator := &kopf.Operator{
		Registry:   registry,
		Settings:   settings,
		Namespaces: []string{"team-*"},
		Connection: server.ConnectionInfo(),
		Logger:     slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // for signals, see the example of Operator.Run
	ended := make(chan error)
	go func() { ended <- operator.Run(ctx) }()

	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	theme := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "team-a", Name: "theme"}
	announced := func(b *kopf.Body) bool { return b.Labels()["announced"] == "true" }
	if _, err := kopf.WaitFor(ctx, client, theme, "to be announced", announced); err != nil {
		log.Fatal(err)
	}

	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// the color of team-a is green
	// ended: <nil>
}
