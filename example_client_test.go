package kopf_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kopf-go/kopf"
)

// ConfigMap is what the program reads of a config map. The types of k8s.io/api work the same way.
type ConfigMap struct {
	Data map[string]string `json:"data"`
}

// Handlers have a client of their operator: c.Client, for example. This program makes one of its own.
func ExampleClient() {
	server := kopf.NewAPIServer(nil) // embedded. For a cluster, see the example of LoginWithKubeconfig
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	theme := map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"namespace": "default", "name": "theme"},
		"data":       map[string]string{"color": "green"},
	}
	if err := client.Create(ctx, theme, nil); err != nil { // theme is now as the API server has stored it
		log.Fatal(err)
	}
	if _, err := client.Patch(ctx, theme, map[string]any{"data": map[string]any{"size": "large"}}, nil); err != nil {
		log.Fatal(err)
	}
	var stored ConfigMap
	if err := client.Get(ctx, theme, &stored, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(stored.Data)

	configMaps := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap"}
	for found, err := range client.List(ctx, configMaps, &kopf.ListOptions{Namespace: "default"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(found.Name(), found.View("data").String("color"))
	}

	if err := client.Delete(ctx, theme, nil); err != nil {
		log.Fatal(err)
	}
	err = client.Get(ctx, theme, &stored, nil)
	fmt.Println(kopf.StatusCode(err), kopf.IgnoreNotFound(err))
	// Output:
	// map[color:green size:large]
	// theme green
	// 404 <nil>
}
