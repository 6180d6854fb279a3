package contract

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kopf-go/kopf"
)

// This suite proves that a slow loop over a list sees each object, although the API server forgets
// the state of the list meanwhile.

var _ = Suite("client_list_expired", func(t *testing.T, c *C) {
	// listing returns a client, and a function that lets the tokens of the next pages expire.
	// A new list has a new one, unless they always expire.
	listing := func(c *C, always bool) (client *kopf.Client, expire func()) {
		wire := &Wire{base: c.transport()}
		info := c.ConnectionInfo()
		info.HTTPClient.Transport = wire
		client, err := kopf.NewClient(info, nil)
		if err != nil {
			c.Fatal(err)
		}
		expired := false
		wire.Fault(func(r *Request) (*http.Response, error) {
			switch later := strings.Contains(r.Path, "continue="); {
			case later && (always || expired):
				return Answer(http.StatusGone, "Expired", "The provided continue parameter is too old"), nil
			case strings.Contains(r.Path, "limit="):
				expired = expired && later
			}
			return nil, nil
		})
		return client, func() { expired = true }
	}
	all := func(c *C, client *kopf.Client, visit func(name string)) (names []string, err error) {
		for o, err := range client.List(c.Context(), c.Ref(""), &kopf.ListOptions{Namespace: c.Namespace, PageSize: 2}) {
			if err != nil {
				return names, err
			}
			names = append(names, o.Name())
			visit(o.Name())
		}
		return names, nil
	}
	c.Run(t, "DF-58 a loop over pages that outlives the history goes on, and sees each object once", func(c *C) {
		client, expire := listing(c, false)
		for i := range 7 {
			c.Create(fmt.Sprint("o", i), nil)
		}
		names, err := all(c, client, func(name string) {
			c.Patch(name, map[string]any{"metadata": map[string]any{"labels": map[string]any{"seen": "yes"}}})
			expire()
		})
		if want := []string{"o0", "o1", "o2", "o3", "o4", "o5", "o6"}; err != nil || !slices.Equal(names, want) {
			c.Errorf("got %q and the error %v, want %q", names, err, want)
		}
	})
	c.Run(t, "DF-58 objects that go and come during the loop are those of the present state", func(c *C) {
		client, expire := listing(c, false)
		for i := range 5 {
			c.Create(fmt.Sprint("o", i), nil)
		}
		names, err := all(c, client, func(name string) {
			if name == "o1" {
				c.Delete("o0")
				c.Delete("o3")
				c.Create("o5", nil)
				expire()
			}
		})
		if want := []string{"o0", "o1", "o2", "o4", "o5"}; err != nil || !slices.Equal(names, want) {
			c.Errorf("got %q and the error %v, want %q", names, err, want)
		}
	})
	c.Run(t, "DF-58 a server whose lists always expire gives an error, not requests for ever", func(c *C) {
		for i := range 5 {
			c.Create(fmt.Sprint("o", i), nil)
		}
		client, _ := listing(c, true)
		names, err := all(c, client, func(string) {})
		if kopf.StatusCode(err) != http.StatusGone || len(names) != 2 {
			c.Errorf("got %q and the error %v, want two names and the code 410", names, err)
		}
	})
})
