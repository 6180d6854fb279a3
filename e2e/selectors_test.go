package e2e

import (
	"net/url"
	"testing"
)

// TestSelectors compares the selected objects of both servers, and their errors about invalid selectors.
func TestSelectors(t *testing.T) {
	const cm = "/api/v1/namespaces/selectors/configmaps"
	calls := []call{
		{"POST", "/api/v1/namespaces", asJSON, `{"metadata":{"name":"selectors"}}`, nil},
		{"POST", cm, asJSON, `{"metadata":{"name":"a","labels":{"n":"a","in":"notin"}}}`, nil},
		{"POST", cm, asJSON, `{"metadata":{"name":"b","labels":{"n":"2"}}}`, nil},
	}
	ask := func(parameter string, selectors []string) {
		for _, text := range selectors {
			query := "&" + parameter + "=" + url.QueryEscape(text)
			calls = append(calls, call{"GET", cm + "?limit=9" + query, "", "", []string{"message", "items"}},
				call{"DELETE", cm + "?dryRun=All" + query, "", "", []string{"message"}})
		}
	}
	ask("labelSelector", []string{
		"n=a", "n==a", "n!=a", "n", "!n", "n in (a,b)", "n notin (a)", "n>1", "n<1", "in=notin", "in in (notin)", "n in ()", "n in (,a)", "n in (a,,b)", "n=", "n!=", "n=,in", "n= a , in", "!n,in",
		"n=-", "n=a/b", "n=<>", "n in (a/b,-,c)", "n notin (é)", "a/b/c=1", "-n=1", "/n=1", "n/=1", "A.b/n=1", "é",
		"n>x", "n<", "n>-", "n>1.5", "n in", "n in a", "n in (", "n in (a", "n in (a b)", "n in (=)", "n is a", "n!", "n!!a", "n===a", "n=!a", "n=(a)", "n gt 1",
		"n=a=b", "n=a)", "n=a b", "!", "!!n", "!n=a", "!n in (a)", "n,", "n,,in", ",n", ",", "(", ")", "=a",
	})
	ask("fieldSelector", []string{
		"metadata.name=a", "metadata.name==a", "metadata.name!=a", "metadata.name=a,metadata.name=b", "metadata.name=a,,", "=", "!=", `metadata.name=a\,b`, `metadata.name!=a\=\\`,
		"metadata.name=a=b", "metadata.name===a", "metadata.name!==a", `metadata.name=a\`, `metadata.name=a\x`, `metadata.name=a\x,b`, "metadata.name", "a!b=c", "!=a", " metadata.name=a", `metadata.name\=a`,
	})
	compareSequences(t, judge(t, plainCluster(t)), []sequence{{"selectors", calls}})
}
