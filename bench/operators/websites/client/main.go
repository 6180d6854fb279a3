// The minimal program for the work of the operators of websites. It watches the widgets and their children without decoding them, and sends the same
// requests as kopf. It applies the children of each new widget, and pages that another client has changed. It keeps only uids and sizes.
package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/bench/operators/requests"
	"github.com/kopf-go/kopf/bench/operators/websites"
)

const path = "/apis/bench.kopf.dev/v1/"

// widget is the state of a widget.
type widget struct{ uid, size string }

type operator struct {
	*requests.Client
	pages int

	mu      sync.Mutex // guards all below
	widgets map[string]widget
}

func main() {
	requests.Run(func(c *requests.Client) map[string]func(event []byte) {
		o := &operator{Client: c, pages: websites.Pages(), widgets: make(map[string]widget)}
		all := map[string]func(event []byte){path + "widgets": o.website, "/api/v1/configmaps": o.page}
		if o.pages == 0 {
			all["/apis/apps/v1/deployments"], all["/api/v1/services"] = func([]byte) {}, func([]byte) {}
		}
		return all
	})
}

// website creates the children of a new or resized widget.
func (o *operator) website(event []byte) {
	_, rest, _ := bytes.Cut(event, []byte(`"spec":{`))
	spec, status, _ := bytes.Cut(rest, []byte(`"status":{`))
	name, w := requests.Text(event, `"name":"`), widget{requests.Text(event, `"uid":"`), requests.Number(spec, `"size":`)}
	if name == "" { // a bookmark
		return
	}
	o.mu.Lock()
	known := o.widgets[name]
	o.widgets[name] = w
	o.mu.Unlock()
	if known == w || w.size == requests.Number(status, `"size":`) {
		return
	}
	version, generation := requests.Text(event, `"resourceVersion":"`), requests.Number(event, `"generation":`)
	o.Do(func(ctx context.Context) error {
		if err := o.make(ctx, name, w); err != nil {
			return err
		}
		return o.Patch(ctx, path+"namespaces/default/widgets/"+name+"/status", "application/json-patch+json", statusPatch(name, version, generation, w.size))
	})
}

// page applies a page again after a change by another client.
func (o *operator) page(event []byte) {
	if !bytes.HasPrefix(event, []byte(`{"type":"MODIFIED"`)) || bytes.Contains(event, []byte("A page of size")) {
		return
	}
	_, owner, _ := bytes.Cut(event, []byte(`"ownerReferences":[`))
	name, parent := requests.Text(event, `"name":"`), requests.Text(owner, `"name":"`)
	precondition := `"uid":"` + requests.Text(event, `"uid":"`) + `"`
	o.mu.Lock()
	w, ok := o.widgets[parent]
	o.mu.Unlock()
	if !ok {
		return
	}
	o.Do(func(ctx context.Context) error { return o.applyPage(ctx, name, parent, w, precondition) })
}

// isNew is the metadata of an apply that must not find an object.
const isNew = `"resourceVersion":"1"`

func (o *operator) make(ctx context.Context, name string, w widget) error {
	for i := range o.pages {
		if err := o.applyPage(ctx, fmt.Sprint(name, "-", i), name, w, isNew); err != nil {
			return err
		}
	}
	if o.pages > 0 {
		return nil
	}
	if err := o.applyPage(ctx, name, name, w, isNew); err != nil {
		return err
	}
	label := `{"website":"` + name + `"}`
	err := o.apply(ctx, "/apis/apps/v1/namespaces/default/deployments/"+name, `"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":`+w.size+`,"selector":{"matchLabels":`+label+
		`},"template":{"metadata":{"labels":`+label+`},"spec":{"containers":[{"image":"nginx","name":"web","volumeMounts":[{"mountPath":"/usr/share/nginx/html","name":"page"}]}],`+
		`"volumes":[{"configMap":{"name":"`+name+`"},"name":"page"}]}}}`, name, name, w, isNew)
	if err != nil {
		return err
	}
	return o.apply(ctx, "/api/v1/namespaces/default/services/"+name, `"apiVersion":"v1","kind":"Service","spec":{"clusterIP":"None","ports":[{"port":80}],"selector":`+label+`}`, name, name, w, isNew)
}

func (o *operator) applyPage(ctx context.Context, name, parent string, w widget, precondition string) error {
	size, err := strconv.ParseInt(w.size, 10, 64)
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(websites.Page(size), "\n", `\n`)
	return o.apply(ctx, "/api/v1/namespaces/default/configmaps/"+name, `"apiVersion":"v1","data":{"index.html":"`+text+`"},"kind":"ConfigMap"`, name, parent, w, precondition)
}

// apply applies a child, with annotations and owner references like kopf.
func (o *operator) apply(ctx context.Context, path, fields, name, parent string, w widget, precondition string) error {
	return o.Patch(ctx, path+"?fieldManager=client&force=true", "application/apply-patch+yaml", `{`+fields+`,"metadata":{"annotations":{"kopf.zalando.org/wanted":"00000000000000000000"},"labels":{},"name":"`+name+
		`","namespace":"default","ownerReferences":[{"apiVersion":"bench.kopf.dev/v1","blockOwnerDeletion":true,"controller":true,"kind":"Widget","name":"`+parent+`","uid":"`+w.uid+`"}],`+precondition+`}}`)
}

// statusPatch returns a status with a condition about the children. The website never becomes ready, because no controller handles Deployments.
func statusPatch(name, version, generation, size string) string {
	condition := func(kind, status, reason, message string) string {
		return `{"lastTransitionTime":"` + time.Now().UTC().Format(time.RFC3339) + `","message":"` + message + `","observedGeneration":` + generation + `,"reason":"` + reason + `","status":"` + status + `","type":"` + kind + `"}`
	}
	waiting := "Deployment " + name + ": Replicas: 0/" + size
	return `[{"op":"test","path":"/metadata/resourceVersion","value":"` + version + `"},{"op":"add","path":"/status","value":{"conditions":[` + condition("Ready", "False", "ChildNotReady", waiting) + `,` +
		condition("Reconciling", "True", "ChildNotReady", waiting) + `,` + condition("Stalled", "False", "Succeeded", "") + `],"handled":true,"observedGeneration":` + generation + `,"size":` + size + `}}]`
}
