package contract

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kopf-go/kopf"
)

// This suite sends malformed requests to an operator's server. The server must refuse them with a reason, or answer them, and use at most a few times
// their size in memory.

var _ = SerialSuite("endpoint_limits", func(t *testing.T, c *C) {
	c.Run(t, "AC-12 reviews that are no reviews are refused by the operator, and it goes on", proveAbuse)
	c.Run(t, "AC-12 a review that is cut off anywhere is refused", proveCuts)
})

// validReview is a review of the creation of a KopfExample.
func (c *C) validReview(spec string) string {
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1",`+
		`"resource":{"group":"kopf.dev","version":"v1","resource":"kopfexamples"},"operation":"CREATE","namespace":%q,"name":"a","userInfo":{"username":"me"},`+
		`"object":{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"name":"a","namespace":%q},"spec":%s}}}`, c.Namespace, c.Namespace, spec)
}

// reviewed runs an operator with a validating handler that reads the spec, and returns a function that sends requests to it.
func (c *C) reviewed() (send func(body string) (int, string), op *Running) {
	c.Helper()
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, func(_ context.Context, a *kopf.Admission) error {
		_ = a.Spec().String("a.b")
		_ = len(a.Body.Map())
		return nil
	}, &kopf.AdmissionOptions{ID: "check"})
	s := &Served{c: c, listener: c.listener()}
	op = c.Operator(registry, func(op *kopf.Operator) {
		op.Settings.Admission.Server = &kopf.WebhookServer{Listener: s.listener, Insecure: true}
	})
	send = func(body string) (int, string) {
		c.Helper()
		code, text, err := post(s.Client(kopf.WebhookClientConfig{}), "http://localhost/check", body)
		if err != nil {
			c.Fatal(err)
		}
		return code, told(code, text)
	}
	c.WaitFor("the server", func() bool {
		code, _ := send(c.validReview("{}"))
		return code == http.StatusOK
	})
	return send, op
}

func proveAbuse(c *C) {
	c.NotShort("the reviews are many")
	send, op := c.reviewed()
	const deep = 1 << 20
	for _, tt := range []struct {
		name, body string
		codes      string
	}{
		{"nothing", "", "400"},
		{"null", "null", "500"},
		{"no object", "[]", "400"},
		{"text", "hello", "400"},
		{"two values", c.validReview("{}") + "{}", "400"},
		{"wrong types", `{"request":{"resource":7}}`, "400"},
		{"no resource", `{"request":{}}`, "500"},
		{"bytes that are no text", "\xff\xfe{\x00}", "400"},
		{"deep lists", strings.Repeat("[", deep), "400"},
		{"deep objects", strings.Repeat(`{"a":`, deep), "400"},
		{"a deep spec", c.validReview(strings.Repeat(`{"a":`, deep) + "1" + strings.Repeat("}", deep)), "400"},
		{"a deep list in the spec", c.validReview(`{"a":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + "}"), "400"},
		{"a spec that is a list", c.validReview("[]"), "200 400"},
		{"an endless number", c.validReview(`{"a":` + strings.Repeat("9", deep) + "}"), "200 400"},
		{"a huge exponent", c.validReview(`{"a":1e999999999}`), "200 400"},
		{"many keys", c.validReview(`{` + strings.Repeat(`"a":1,`, deep) + `"a":{"b":"c"}}`), "200 400"},
		{"much space", c.validReview(strings.Repeat(" ", 4<<20) + "{}"), "200"},
		{"a long text", c.validReview(`{"a":"` + strings.Repeat(`\u0000`, deep) + `"}`), "200"},
	} {
		before := allocated()
		code, text := send(tt.body)
		took := allocated() - before
		c.Logf("%s: %d bytes, %d allocated, %d %.100q", tt.name, len(tt.body), took, code, text)
		if !strings.Contains(tt.codes, fmt.Sprint(code)) || text == "" {
			c.Errorf("%s: got %d %.200q, want %s", tt.name, code, text, tt.codes)
		}
		if limit := uint64(1<<20 + 16*len(tt.body)); took > limit {
			c.Errorf("%s: %d bytes were allocated for %d, want %d at most", tt.name, took, len(tt.body), limit)
		}
	}
	if code, text := send(c.validReview("{}")); code != 200 || !strings.Contains(text, `"allowed":true`) {
		c.Errorf("after all that, a good review got %d %q", code, text)
	}
	if lines := op.Logs.Find("panic"); len(lines) > 0 {
		c.Errorf("the operator has panicked: %+v", lines)
	}
}

func proveCuts(c *C) {
	send, _ := c.reviewed()
	whole := c.validReview(`{"size":1,"name":"é"}`)
	for n := 0; n < len(whole); n++ {
		if code, text := send(whole[:n]); code != 400 || strings.Contains(text, "allowed") {
			c.Fatalf("cut off after %d bytes: got %d %q", n, code, text)
		}
	}
	first, want := send(whole)
	if again, got := send(whole); first != 200 || again != 200 || !bytes.Equal([]byte(want), []byte(got)) {
		c.Errorf("replayed: got %d %q, want %d %q", again, got, first, want)
	}
}
