package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// TestWebsite runs the operator on an in-memory server, which gets the kind from its CRD.
func TestWebsite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kopf.NewAPIServer(nil)
		kopf.NewRunner(t, &kopf.Operator{Registry: registered(), Connection: server.ConnectionInfo()}, nil)
		client, err := kopf.NewClient(server.ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		site := &Website{Spec: WebsiteSpec{HTML: "hello"}}
		site.APIVersion, site.Kind, site.Name, site.Namespace = "example.com/v1", "Website", "a", "default"
		if err := client.Create(t.Context(), site, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := client.Get(t.Context(), site, site, nil); err != nil {
			t.Fatal(err)
		}
		if s := site.Status; site.Spec.Replicas != 1 || s.URL != "http://a.default" || s.Bytes != 5 || len(s.Conditions) != 1 || s.Conditions[0].ObservedGeneration != 1 {
			t.Errorf("got %+v", site)
		}
		var child ConfigMap
		ref := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}
		if err := client.Get(t.Context(), ref, &child, nil); err != nil || child.Data["index.html"] != "hello" {
			t.Errorf("got %+v, %v", child, err)
		}
		site.Spec.Class, site.Spec.Replicas = "huge", 101
		if err := client.Update(t.Context(), site, nil); kopf.StatusCode(err) != 422 {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}

// registered returns the default registry with the handlers.
func registered() *kopf.Registry {
	register(kopf.DefaultRegistry())
	return kopf.DefaultRegistry()
}
