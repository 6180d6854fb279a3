package apirequest

import (
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRedactURL(t *testing.T) {
	for address, want := range map[string]string{
		"https://u:hunter2@x":              "https://x",
		"https://hunter2@x/p":              "https://x/p",
		"https://x/p?q=hunter2":            "https://x/p",
		"https://x/%2f?q=hunter2#f":        "https://x/%2f",
		"https://x/p#hunter2":              "https://x/p",
		"https://x?hunter2":                "https://x",
		"https://u:1?hunter2@x":            "[redacted]",
		"https://u:hunter2/@x":             "[redacted]",
		"https://u:hunter2@hunter2@x":      "[redacted]",
		"https://u:hunter2@ bad":           "[redacted]",
		"u:hunter2@x:6443":                 "[redacted]",
		"https:// bad?hunter2":             "[redacted]",
		"localhost:6443?q=hunter2":         "localhost:6443",
		"localhost:6443":                   "localhost:6443",
		"10.0.0.1:6443":                    "10.0.0.1:6443",
		"http://[::1]:80/p":                "http://[::1]:80/p",
		"https://10.0.0.1:6443/p":          "https://10.0.0.1:6443/p",
		"https://x/login?return=hunter2@x": "[redacted]",
		"":                                 "",
	} {
		if got := RedactURL(address); got != want {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
}

func TestWholeSeconds(t *testing.T) {
	const most = math.MaxInt64 / time.Second * time.Second
	for d, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Second, time.Second: time.Second, time.Second + 1: 2 * time.Second, -1: 0, math.MinInt64: 0,
		math.MaxInt64: most, most: most, most - 1: most, most - time.Second + 1: most, most + 1: most,
	} {
		if got := WholeSeconds(d); got != want {
			t.Errorf("got %s for %s, want %s", got, d, want)
		}
	}
}

func TestLeadsTo(t *testing.T) {
	target, err := url.Parse("https://API.example.com/api/v1")
	if err != nil {
		t.Fatal(err)
	}
	for server, want := range map[string]string{
		"https://api.example.com":      "",
		"https://api.example.com:443/": "",
		"http://api.example.com":       "the credentials are for http://api.example.com",
		"https://api.example.com:6443": "the credentials are for https://api.example.com:6443",
		"https://example.com":          "the credentials are for https://example.com",
		"https://u:hunter2@ bad":       `invalid server "[redacted]": want a URL`,
	} {
		err := LeadsTo(server, target)
		if (want == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", server, err, want)
		}
	}
}

func TestCheckType(t *testing.T) {
	type TypeMeta struct{ Kind, APIVersion string }
	type embedding struct{ TypeMeta }
	type plain struct{ Kind string }
	for _, tt := range []struct {
		object any
		remedy bool
	}{
		{&embedding{}, true}, {embedding{}, true}, {&plain{}, false}, {map[string]any{}, false}, {nil, false}, {"text", false},
	} {
		if err := CheckType("v1", "Pod", tt.object); err != nil {
			t.Errorf("%T: got %v of a type", tt.object, err)
		}
		for _, missing := range [][2]string{{"", ""}, {"v1", ""}, {"", "Pod"}} {
			err := CheckType(missing[0], missing[1], tt.object)
			if err == nil || !strings.HasPrefix(err.Error(), "invalid apiVersion ") || strings.HasSuffix(err.Error(), ": set its TypeMeta") != tt.remedy {
				t.Errorf("%T: got %v of %q, and whether there is a remedy is to be %t", tt.object, err, missing, tt.remedy)
			}
		}
	}
}

func TestChanges(t *testing.T) {
	for request, want := range map[string]bool{
		"GET /api/v1/namespaces/a/pods":                                                     false,
		"HEAD /version":                                                                     false,
		"POST /api/v1/namespaces/a/pods":                                                    true,
		"PUT /apis/apps/v1/namespaces/a/deployments/x":                                      true,
		"DELETE /apis/coordination.k8s.io/v1/namespaces/a/leases/x":                         true,
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews":                       false,
		"POST /apis/authentication.k8s.io/v1/tokenreviews":                                  false,
		"POST /k8s/clusters/c-1/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":      false,
		"POST /k8s/clusters/c-1/api/v1/namespaces/a/configmaps":                             true,
		"POST /apis/example.com/v1/namespaces/a/things/apis/authorization.k8s.io/v1/x":      true,
		"POST /api/v1/namespaces/a/services/x/proxy/apis/authorization.k8s.io/v1/whatever":  true,
		"POST /c/api/v1/namespaces/a/services/x/proxy/apis/authentication.k8s.io/v1/orders": true,
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := Changes(method, path); got != want {
			t.Errorf("got %t for %s, want %t", got, request, want)
		}
	}
}

func TestDeleteOptions(t *testing.T) {
	grace := 1500 * time.Millisecond
	for want, o := range map[string]DeleteOptions{
		`{"apiVersion":"v1","kind":"DeleteOptions"}`: {},
		`{"apiVersion":"v1","dryRun":["All"],"gracePeriodSeconds":2,"kind":"DeleteOptions","preconditions":{"resourceVersion":"7","uid":"u"},"propagationPolicy":"Orphan"}`: {
			GracePeriod: &grace, Propagation: "Orphan", UID: "u", ResourceVersion: "7", DryRun: true,
		},
	} {
		if got, err := o.Encode(); err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	header := http.Header{"Warning": {`299 - "plain"`, `299 - "a \"b\" \\c" "Wed, 21 Oct 2015 07:28:00 GMT"`, "299"}}
	if diff := cmp.Diff([]string{"plain", `a "b" \c`, ""}, Warnings(header)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
