package kopf

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/credtransport"
)

func listening(t *testing.T) *APIServerListener {
	t.Helper()
	served, err := NewAPIServer(nil).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = served.Close() })
	return served
}

func TestOtherOrigins(t *testing.T) {
	served := listening(t)
	host := strings.TrimPrefix(served.URL, "http://")
	for _, tt := range []struct {
		name         string
		origin, site string
		allowed      bool
	}{
		{"kubectl", "", "", true},
		{"a page of another site", "http://evil.example", "cross-site", false},
		{"an old browser with a page of another site", "http://evil.example", "", false},
		{"a page of another port", "http://127.0.0.1:1", "same-site", false},
		{"an old browser with a page of another port", "http://127.0.0.1:1", "", false},
		{"a page by another protocol", "https://" + host, "", false},
		{"a page without an origin", "null", "", false},
		{"a request without an origin by a page of another site", "", "cross-site", false},
		{"an origin that cannot be read", "http://%zz", "", false},
		{"a page of the server", "http://" + host, "same-origin", true},
		{"an old browser with a page of the server", "http://" + host, "", true},
		{"an address that was typed in", "", "none", true},
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			t.Run("DF-20 "+tt.name+": "+method, func(t *testing.T) {
				body, path := "", "/api/v1/namespaces/default/configmaps/none"
				if method == http.MethodPost {
					path, body = "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"a-"}}`
				}
				req, err := http.NewRequestWithContext(t.Context(), method, served.URL+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				for header, value := range map[string]string{"Origin": tt.origin, "Sec-Fetch-Site": tt.site} {
					if value != "" {
						req.Header.Set(header, value)
					}
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				credtransport.Drain(resp.Body)
				if refused := resp.StatusCode == http.StatusForbidden; refused == tt.allowed {
					t.Errorf("got HTTP %d, want it allowed: %t", resp.StatusCode, tt.allowed)
				}
			})
		}
	}
}
