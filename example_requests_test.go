package kopf_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/kopf-go/kopf"
)

// The examples in this file show requests to the API server, and the embedded API server.

func ExampleClient_Apply() {
	client, err := kopf.NewClient(kopf.NewAPIServer(nil).ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, data := range []map[string]any{{"a": "1", "b": "2"}, {"a": "3"}} {
		object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"}, "data": data}
		if err := client.Apply(context.Background(), object, &kopf.WriteOptions{FieldManager: "example"}); err != nil {
			log.Fatal(err)
		}
		fmt.Println(object["data"]) // fields that the manager leaves out are removed
	}
	// Output:
	// map[a:1 b:2]
	// map[a:3]
}

func ExampleClient_List() {
	client, err := kopf.NewClient(kopf.NewAPIServer(nil).ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for _, name := range []string{"a", "b"} {
		labels := map[string]any{"app": "web", "name": name}
		object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default", "labels": labels}}
		if err := client.Create(ctx, object, nil); err != nil {
			log.Fatal(err)
		}
	}
	configMaps := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap"}
	for found, err := range client.List(ctx, configMaps, &kopf.ListOptions{LabelSelector: "app=web,name!=b"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(found.Reference())
	}
	// Output:
	// default/a
}

func ExampleClient_Patch() {
	client, err := kopf.NewClient(kopf.NewAPIServer(nil).ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	namespace := kopf.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "default"}
	patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "web", "former": nil}}} // nil removes a field
	stored, err := client.Patch(context.Background(), namespace, patch, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stored.Labels()["team"])
	// Output:
	// web
}

func ExampleClient_Delete() {
	client, err := kopf.NewClient(kopf.NewAPIServer(nil).ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"}}
	if err := client.Create(ctx, object, nil); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		err := client.Delete(ctx, object, nil)
		fmt.Println(kopf.StatusCode(err), kopf.IgnoreNotFound(err))
	}
	// Output:
	// 0 <nil>
	// 404 <nil>
}

func ExampleClient_Watch() {
	client, err := kopf.NewClient(kopf.NewAPIServer(nil).ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"}}
	if err := client.Create(ctx, object, nil); err != nil {
		log.Fatal(err)
	}
	for event, err := range client.Watch(ctx, object, nil) { // of all config maps in the namespace
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Type, event.Body.Reference())
		if event.Type == kopf.Deleted {
			break
		}
		if err := client.Delete(ctx, object, nil); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// ADDED default/a
	// DELETED default/a
}

func ExampleIgnoreNotFound() {
	client, err := kopf.NewClient(kopf.NewAPIServer(nil).ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	ref := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "gone"}
	err = client.Delete(context.Background(), ref, nil)
	fmt.Println(kopf.StatusCode(err), kopf.IgnoreNotFound(err))
	// Output:
	// 404 <nil>
}

func ExampleLoginWithKubeconfig() {
	ctx := context.Background()
	info, err := kopf.LoginWithKubeconfig(ctx, &kopf.Login{KubeContext: "staging"})
	if err != nil {
		log.Fatal(err)
	}
	if info == nil {
		log.Fatal("there is no kubeconfig")
	}
	client, err := kopf.NewClient(info, nil)
	if err != nil {
		log.Fatal(err)
	}
	for node, err := range client.List(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "Node"}, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(node.Name())
	}
}

func ExampleWaitFor() {
	server := kopf.NewAPIServer(nil)
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	go func() { // another client
		err := server.Apply([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"key": "value"}}`))
		if err != nil {
			log.Fatal(err)
		}
	}()
	ref := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}
	found, err := kopf.WaitFor(context.Background(), client, ref, "to be created", func(b *kopf.Body) bool { return b != nil })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.Get("data"))
	// Output:
	// map[key:value]
}

func ExampleAPIServer_Listen() {
	server := kopf.NewAPIServer(nil)
	served, err := server.Listen("127.0.0.1:0") // for kubectl and others. The operator of this process needs no network
	if err != nil {
		log.Fatal(err)
	}
	defer served.Close()
	response, err := http.Get(served.URL + "/api/v1/namespaces/default")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output:
	// 200 OK
}

func ExampleAPIServer_Fail() {
	server := kopf.NewAPIServer(nil)
	remove := server.Fail(kopf.APIServerFault{Verb: "get", Resource: "namespaces", Status: http.StatusForbidden})
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	ref := kopf.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "default"}
	var body kopf.Body
	fmt.Println(kopf.StatusCode(client.Get(context.Background(), ref, &body, nil)))
	remove()
	fmt.Println(client.Get(context.Background(), ref, &body, nil), body.Name())
	// Output:
	// 403
	// <nil> default
}

func ExampleAPIServer_Apply() {
	server := kopf.NewAPIServer(nil)
	// The output of kubectl get -o yaml on another cluster. The server ignores the UIDs and resource versions in it.
	err := server.Apply([]byte(`
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Namespace
    metadata: {name: default, uid: 1-2-3, resourceVersion: "12"}
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: a, namespace: default, uid: 4-5-6, resourceVersion: "3456", labels: {env: prod}}
`))
	if err != nil {
		log.Fatal(err)
	}
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	var object kopf.Body
	ref := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}
	if err := client.Get(context.Background(), ref, &object, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(object.Labels(), object.UID() == "4-5-6")
	// Output:
	// map[env:prod] false
}
