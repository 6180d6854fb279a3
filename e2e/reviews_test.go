package e2e

import (
	"fmt"
	"testing"
)

// TestReviews compares the responses to reviews of access and of tokens, which are not stored. Responses about the users of a server may differ.
func TestReviews(t *testing.T) {
	const (
		access     = "/apis/authorization.k8s.io/v1/"
		tokens     = "/apis/authentication.k8s.io/v1/"
		self       = access + "selfsubjectaccessreviews"
		local      = access + "namespaces/default/localsubjectaccessreviews"
		attributes = `"resourceAttributes":{"verb":"get","resource":"pods"}`
	)
	var calls []call
	ask := func(path, body string) {
		for _, query := range []string{"", "?fieldValidation=Strict"} {
			calls = append(calls, call{"POST", path + query, asJSON, body, []string{causes, "details", "message", "kind", "metadata.name", "spec"}})
		}
	}
	for _, body := range []string{
		`{}`, `{"spec":{}}`, `{"spec":null}`, `{"spec":{` + attributes + `}}`, `{"spec":{"user":"a",` + attributes + `}}`, `{"spec":{"groups":["a"],"foo":1,` + attributes + `},"bar":2}`,
		`{"spec":{"user":"a",` + attributes + `,"nonResourceAttributes":{"path":"/"}}}`, `{"spec":{"user":"a","nonResourceAttributes":{}}}`, `{"spec":{"user":5}}`, `{"kind":"x"}`,
		`{"metadata":{"namespace":"default"},"spec":{"user":"a","resourceAttributes":{"namespace":"default"}}}`, `{"metadata":{"namespace":"b"},"spec":{"user":"a",` + attributes + `}}`,
	} {
		for _, path := range []string{self, access + "subjectaccessreviews", local} {
			ask(path, body)
		}
	}
	for _, selector := range []string{
		`{}`, `{"requirements":[]}`, `{"rawSelector":"a in"}`, `{"rawSelector":"a","requirements":[{"key":"a","operator":"Exists"}]}`, `{"requirements":[{}]}`,
		`{"requirements":[{"key":"a","operator":"In"},{"key":"b","operator":"Exists","values":["c"]},{"key":"a b","operator":"NotIn","values":["c d"]},{"key":"a","operator":"x"}]}`,
	} {
		for _, name := range []string{"fieldSelector", "labelSelector"} {
			ask(self, fmt.Sprintf(`{"spec":{"resourceAttributes":{"verb":"list","resource":"pods",%q:%s}}}`, name, selector))
		}
	}
	for _, body := range []string{`{}`, `{"spec":{"namespace":""}}`, `{"metadata":{"name":"a"},"spec":{"namespace":"x"}}`} {
		ask(access+"selfsubjectrulesreviews", body)
		ask(tokens+"selfsubjectreviews", body)
	}
	for _, body := range []string{`{}`, `{"spec":{"token":""}}`, `{"metadata":{"name":"a"},"spec":{"token":"x","audiences":["y"]},"status":{"authenticated":true}}`} {
		ask(tokens+"tokenreviews", body)
	}
	calls = append(calls, call{"POST", tokens + "tokenreviews", asJSON, `{"spec":{"token":"x"},"status":{"authenticated":true}}`, []string{"status.authenticated"}})
	compareSequences(t, judge(t, plainCluster(t)), []sequence{{"reviews", calls}})
}
