package contract

import (
	"strings"
	"testing"

	"github.com/kopf-go/kopf"
)

// This suite proves what the client says of arguments that make no sense.

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
})
