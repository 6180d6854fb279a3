package apiserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// warningWebhook admits each review with the same warnings.
type warningWebhook []string

func (h warningWebhook) RoundTrip(r *http.Request) (*http.Response, error) {
	var review struct{ Request struct{ UID string } }
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"response": map[string]any{"uid": review.Request.UID, "allowed": true, "warnings": []string(h)},
	})
	header := http.Header{"Content-Type": {jsonType}}
	return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(bytes.NewReader(text))}, err
}

func TestWarnings(t *testing.T) {
	// many returns distinct texts of a length.
	many := func(n, length int) (texts []string) {
		for i := range n {
			texts = append(texts, strings.Repeat("é", length-1)+string(rune('A'+i)))
		}
		return texts
	}
	whole, cutEach := strings.Repeat("é", 300), strings.Repeat("é", 256)
	for name, tt := range map[string]struct{ texts, want []string }{
		"signs":               {[]string{`a "b" \c`, "日本\u00a0é"}, []string{`a \"b\" \\c`, "日本\u00a0é"}},
		"repeated ones":       {[]string{"a", "b", "a"}, []string{"a", "b"}},
		"an empty one":        {[]string{"", "a"}, []string{"a"}},
		"a line end":          {[]string{"a\nb", "c"}, []string{"c"}},
		"a tab":               {[]string{"a\tb", "c"}, []string{"c"}},
		"an escape sequence":  {[]string{"\x1b[31ma", "c"}, []string{"c"}},
		"a C1 control":        {[]string{"a\u0085", "c"}, []string{"c"}},
		"a long one":          {[]string{whole}, []string{whole}},
		"as many as fit":      {many(16, 256), many(16, 256)},
		"more than fit":       {many(20, 256), many(17, 256)}, // the one that exceeds the limit is sent
		"many long ones":      {slices.Concat(many(14, 300), []string{"b"}), slices.Concat(slices.Repeat([]string{cutEach}, 14), []string{"b"})},
		"many after long one": {slices.Concat([]string{strings.Repeat("é", 4000)}, many(20, 256)), slices.Concat([]string{cutEach}, many(15, 256))},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Options{WebhookTransport: warningWebhook(tt.texts)})
			try := func(path, body string) *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				r := httptest.NewRequest("POST", path, strings.NewReader(body))
				r.Header.Set("Content-Type", jsonType)
				s.ServeHTTP(w, r)
				if w.Code != 201 {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
				return w
			}
			try("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"metadata":{"name":"w"},"webhooks":[{
				"name":"w.example.com","clientConfig":{"url":"https://127.0.0.1:1/"},"admissionReviewVersions":["v1"],"sideEffects":"None",
				"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]}]}`)
			got := try(coreOf+"configmaps", `{"metadata":{"name":"a"}}`).Header().Values("Warning")
			var want []string
			for _, text := range tt.want {
				want = append(want, `299 - "`+text+`"`)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestDeliverable(t *testing.T) {
	if got := deliverable([]string{"latin-1: \xe9", "a"}); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %q, want no invalid UTF-8", got)
	}
}
