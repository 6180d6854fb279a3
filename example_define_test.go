package kopf_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/kopf-go/kopf"
)

// Page is a custom resource. kopf makes its CustomResourceDefinition of this struct.
type Page struct {
	kopf.Meta `json:",inline"`
	Spec      PageSpec   `json:"spec"`
	Status    PageStatus `json:"status,omitzero"`
}

// PageSpec is what users request.
type PageSpec struct {
	HTML     string `json:"html" doc:"The text of the page." maxLength:"65536"`
	Replicas int    `json:"replicas,omitempty" minimum:"0" maximum:"100" default:"1"`
}

// PageStatus is what the operator reports.
type PageStatus struct {
	Bytes int `json:"bytes,omitempty"`
}

// servePage handles new pages. kopf sends its changes of the status.
func servePage(ctx context.Context, c *kopf.Change, page *Page) error {
	fmt.Println("serving", page.Name, "with", page.Spec.Replicas, "replicas")
	page.Status.Bytes = len(page.Spec.HTML)
	return nil
}

func ExampleDefine() {
	kopf.SetDefaultRegistry(new(kopf.Registry)) // without handlers of other examples
	pages := kopf.Define[Page](&kopf.Definition{Group: "example.com", Version: "v1"})
	kopf.OnCreate(pages.Selector(), kopf.Typed(servePage), nil)

	// A program for a cluster calls kopf.Main here. This one runs on an embedded API server, which knows the kind from the definition.
	server := kopf.NewAPIServer(nil)
	ready := make(chan struct{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error)
	go func() {
		operator := &kopf.Operator{Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler), Ready: func() { close(ready) }}
		ended <- operator.Run(ctx)
	}()
	<-ready

	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	page := &Page{Spec: PageSpec{HTML: "hello"}}
	page.APIVersion, page.Kind, page.Namespace, page.Name = "example.com/v1", "Page", "default", "home"
	if err := client.Create(ctx, page, nil); err != nil {
		log.Fatal(err)
	}
	served, err := kopf.WaitFor(ctx, client, page, "to be served", func(b *kopf.Body) bool { return b.Status().Has("bytes") })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(served.Status().Int("bytes"), "bytes")

	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// serving home with 1 replicas
	// 5 bytes
}
