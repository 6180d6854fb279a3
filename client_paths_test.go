package kopf

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/watchstream"
)

// TestClientPaths checks that no name leads to another URL than the one it names.
func TestClientPaths(t *testing.T) {
	object := func(name, namespace string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": namespace}}
	}
	ref := func(name, namespace string) ObjectReference {
		return ObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, Namespace: namespace}
	}
	calls := map[string]func(c *Client, bad string) error{
		"the namespace of a list": func(c *Client, bad string) (err error) {
			for _, err = range c.List(t.Context(), ObjectReference{APIVersion: "v1", Kind: "Pod"}, &ListOptions{Namespace: bad}) {
			}
			return err
		},
		"the namespace of a watch": func(c *Client, bad string) (err error) {
			for _, err = range c.Watch(t.Context(), ObjectReference{APIVersion: "v1", Kind: "Pod"}, &ListOptions{Namespace: bad}) {
			}
			return err
		},
		"the namespace of an object": func(c *Client, bad string) error { return c.Get(t.Context(), ref("p", bad), &Body{}, nil) },
		"the name of an object":      func(c *Client, bad string) error { return c.Get(t.Context(), ref(bad, "ns"), &Body{}, nil) },
		"the name of what is deleted": func(c *Client, bad string) error {
			return c.Delete(t.Context(), ref(bad, "ns"), nil)
		},
		"the subresource of a read": func(c *Client, bad string) error {
			return c.Get(t.Context(), ref("p", "ns"), &Body{}, &GetOptions{Subresource: bad})
		},
		"the end of a subresource": func(c *Client, bad string) error {
			return c.Get(t.Context(), ref("p", "ns"), &Body{}, &GetOptions{Subresource: "proxy/" + bad})
		},
		"the subresource of a creation": func(c *Client, bad string) error {
			return c.Create(t.Context(), object("p", "ns"), &WriteOptions{Subresource: bad})
		},
		"the subresource of an update": func(c *Client, bad string) error {
			return c.Update(t.Context(), object("p", "ns"), &WriteOptions{Subresource: bad})
		},
		"the subresource of a patch": func(c *Client, bad string) error {
			_, err := c.Patch(t.Context(), ref("p", "ns"), map[string]any{}, &PatchOptions{Subresource: bad})
			return err
		},
		"the version of a resource": func(c *Client, bad string) error {
			c.kinds.Set([]discovery.Resource{{Version: bad, Plural: "pods", Kind: "Pod", Namespaced: true}})
			return c.Get(t.Context(), ObjectReference{APIVersion: bad, Kind: "Pod", Name: "p", Namespace: "ns"}, &Body{}, nil)
		},
		"the plural of a resource": func(c *Client, bad string) error {
			c.kinds.Set([]discovery.Resource{{Version: "v1", Plural: bad, Kind: "Pod", Namespaced: true}})
			return c.Get(t.Context(), ref("p", "ns"), &Body{}, nil)
		},
		"the namespace of a stream": func(c *Client, bad string) (err error) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h := &endedStream{end: cancel}
			c.stream(testPods, bad, "", h).Run(ctx)
			return h.err
		},
		"the name of a peering": func(c *Client, bad string) error {
			_, err := writePeering(t.Context(), c, testPods, "ns", bad, "", map[string]any{})
			return err
		},
		"the namespace of a peering": func(c *Client, bad string) error {
			_, err := writePeering(t.Context(), c, testPods, bad, "default", "", map[string]any{})
			return err
		},
		"the name of what is patched": func(c *Client, bad string) error {
			_, err := c.patchObject(t.Context(), testPods, "ns", bad, "", string(MergePatch), []byte("{}"))
			return err
		},
	}
	for what, call := range calls {
		names := []string{".", "..", "%2e%2e", "a/../b", "%2F"}
		if strings.Contains(what, "subresource") || strings.Contains(what, "of a resource") { // these are not escaped
			names = append(names, "p?dryRun=All", "p#", "a%zz", "a//b")
		}
		for _, bad := range names {
			t.Run(fmt.Sprintf("DF-28 %s: %q", what, bad), func(t *testing.T) {
				requested := make(chan string, 10)
				c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					select {
					case requested <- r.URL.RequestURI():
					default:
					}
					_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
				}), func(s *Settings) { s.Networking.ErrorBackoffs = []time.Duration{time.Hour} })
				if err := call(c, bad); err == nil {
					t.Error("it is not refused")
				}
				select {
				case path := <-requested:
					t.Errorf("the server was asked for %q", path)
				default:
				}
			})
		}
	}
	for _, good := range []string{"/api/v1/pods", "/apis/apps/v1/namespaces/ns/deployments/.hidden", "/api/v1/namespaces/ns/services/http:web:80/proxy/a..b", "/api/v1/nodes/caf%C3%A9"} {
		if err := apirequest.CheckPath(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

func TestMissingNamespaces(t *testing.T) {
	c, _ := clientOf(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") }), nil)
	ref := ObjectReference{APIVersion: "v1", Kind: "Pod", Name: "x"}
	object := func(key string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{key: "x"}}
	}
	const creation = `invalid namespace "" of the Pod "x": want metadata.namespace, which Adopt sets to that of the owner`
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"a creation":                {c.Create(t.Context(), object("name"), nil), creation},
		"a creation without a name": {c.Create(t.Context(), object("generateName"), nil), creation},
		"a read":                    {c.Get(t.Context(), ref, &Body{}, nil), `invalid namespace "" of the Pod "x": want that of the object`},
		"a deletion":                {c.Delete(t.Context(), ref, nil), `invalid namespace "" of the Pod "x": want that of the object`},
	} {
		if tt.err == nil || tt.err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", name, tt.err, tt.want)
		}
	}
}

func TestNamespaceNames(t *testing.T) {
	for pattern, fine := range map[string]bool{
		"default": true, "a": true, "0": true, "team-*,!team-x": true, "[ab]?": true, strings.Repeat("a", 63): true,
		"..": false, ".": false, "a/b": false, "Upper": false, "a b": false, "-a": false, "a-": false, "a,!B": false, strings.Repeat("a", 64): false,
	} {
		t.Run("DF-28 at the start, "+pattern, func(t *testing.T) {
			if _, err := namespaces.Check([]string{pattern}); (err == nil) != fine {
				t.Errorf("got %v", err)
			} else if !fine && !strings.Contains(err.Error(), "want a name") {
				t.Errorf("the error does not tell what is wanted: %v", err)
			}
		})
	}
}

// endedStream ends its stream at the first list or failure.
type endedStream struct {
	watchstream.Ignore
	end context.CancelFunc
	err error
}

func (h *endedStream) OnListed(string) { h.end() }
func (h *endedStream) OnStatus(err error) {
	h.err = err
	h.end()
}
