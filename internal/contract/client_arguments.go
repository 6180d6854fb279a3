package contract

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves the errors of the client about invalid arguments.

var _ = Suite("client_arguments", func(t *testing.T, c *C) {
	c.Run(t, "DF-33 what cannot take an object is an error before anything is sent", func(c *C) {
		type typed struct{ Spec map[string]any }
		wire := &Wire{base: c.transport()}
		info := c.ConnectionInfo()
		info.HTTPClient.Transport = wire
		client, err := kopf.NewClient(info, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Create("a", nil)
		if _, err := client.Resources(c.Context()); err != nil {
			c.Fatal(err)
		}
		before := len(wire.Requests())
		var text string
		for name, into := range map[string]any{
			"body": (*kopf.Body)(nil), "struct": (*typed)(nil), "map": map[string]any(nil), "pointer to a map": (*map[string]any)(nil),
			"struct as a value": typed{}, "text": text,
		} {
			if err := client.Get(c.Context(), c.Ref("a"), into, nil); err == nil || !strings.Contains(err.Error(), "cannot take an object") {
				c.Errorf("%s: got the error %v", name, err)
			}
			if err := client.Create(c.Context(), into, nil); err == nil {
				c.Errorf("%s: there is no error of a creation", name)
			}
		}
		if n := len(wire.Requests()) - before; n != 0 {
			c.Errorf("%d requests were made", n)
		}
		var fresh *kopf.Body
		if err := client.Get(c.Context(), c.Ref("a"), &fresh, nil); err != nil || fresh.Name() != "a" {
			c.Errorf("a pointer to a nil *Body: got %v, %v", fresh, err)
		}
		if err := client.Get(c.Context(), c.Ref("a"), nil, nil); err != nil {
			c.Errorf("no place for the object: got the error %v", err)
		}
	})
	c.Run(t, "an object without apiVersion or kind is named by its Go type, before anything is sent", func(c *C) {
		wire := &Wire{base: c.transport()}
		info := c.ConnectionInfo()
		info.HTTPClient.Transport = wire
		client, err := kopf.NewClient(info, nil)
		if err != nil {
			c.Fatal(err)
		}
		for _, tt := range []struct {
			object any
			want   string
		}{
			{&configMap{}, `invalid apiVersion "" and kind "" of a *contract.configMap: want both, such as "v1" and "Pod": set its TypeMeta`},
			{&configMap{TypeMeta: TypeMeta{Kind: "ConfigMap"}}, `invalid apiVersion "" and kind "ConfigMap" of a *contract.configMap: want both`},
			{map[string]any{"apiVersion": "v1"}, `invalid apiVersion "v1" and kind "" of a map[string]interface {}: want both, such as "v1" and "Pod"`},
		} {
			errs := map[string]error{
				"create": client.Create(c.Context(), tt.object, nil), "update": client.Update(c.Context(), tt.object, nil),
				"apply": client.Apply(c.Context(), tt.object, &kopf.WriteOptions{FieldManager: "contract"}), "delete": client.Delete(c.Context(), tt.object, nil),
				"get": client.Get(c.Context(), tt.object, nil, nil),
			}
			for verb, err := range errs {
				if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
					c.Errorf("%s: got the error %v, want %q", verb, err, tt.want)
				}
			}
		}
		if n := len(wire.Requests()); n != 0 {
			c.Errorf("%d requests were made", n)
		}
	})
	c.Run(t, "DF-61 an object whose name has characters of selectors is found", func(c *C) {
		role := map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
			"metadata": map[string]any{"name": `a=b,c\d`, "namespace": c.Namespace},
		}
		if err := c.Client.Create(c.Context(), role, nil); err != nil {
			c.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(c.Context(), 20*time.Second)
		defer cancel()
		var changing sync.WaitGroup
		defer changing.Wait()
		changing.Go(func() {
			c.Pass(time.Second)
			patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "y"}}}
			if _, err := c.Client.Patch(ctx, role, patch, nil); err != nil {
				c.Error(err)
			}
		})
		if _, err := kopf.WaitFor(ctx, c.Client, role, "to be labeled", func(b *kopf.Body) bool {
			_, labeled := b.Label("x")
			return labeled
		}); err != nil {
			c.Error(err)
		}
	})
	c.Run(t, "a kind that does not exist is answered with the one that was probably meant", func(c *C) {
		for _, tt := range []struct{ apiVersion, kind, want string }{
			{"v1", "configmaps", `there is no kind "configmaps" in v1: its kind is ConfigMap`},
			{"v1", "configmap", `there is no kind "configmap" in v1: its kind is ConfigMap`},
			{"v1", "cm", `there is no kind "cm" in v1: its kind is ConfigMap`},
			{"v1", "ConfigMpa", `there is no kind "ConfigMpa" in v1: did you mean ConfigMap?`},
			{"kopf.dev/v1", "KopfExamples", `there is no kind "KopfExamples" in kopf.dev/v1: its kind is KopfExample`},
			{"v1", "Nothing", `there is no kind "Nothing" in v1`},
			{"nowhere.dev/v1", "ConfigMap", `there is no kind "ConfigMap" in nowhere.dev/v1`},
		} {
			err := c.Client.Get(c.Context(), kopf.ObjectReference{APIVersion: tt.apiVersion, Kind: tt.kind, Namespace: c.Namespace, Name: "a"}, nil, nil)
			if err == nil || err.Error() != tt.want {
				c.Errorf("got the error %v, want %q", err, tt.want)
			}
		}
	})
})

// TypeMeta is as in client-go.
type TypeMeta struct {
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
}

// configMap embeds its TypeMeta, like the structs of client-go.
type configMap struct {
	TypeMeta `json:",inline"`
	Metadata map[string]any `json:"metadata"`
}
