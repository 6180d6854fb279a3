package e2e

import (
	"fmt"
	"testing"
)

// TestDefinitionOptions compares how both servers handle options, duplicate keys, nulls and scales of custom resources and config maps.
func TestDefinitionOptions(t *testing.T) {
	t.Parallel()
	const stems, stemA = "/apis/example.com/v1/namespaces/default/stems", "/apis/example.com/v1/namespaces/default/stems/a"
	const definition = `{"metadata": {"name": "stems.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "stems", "kind": "Stem"}, "versions": [
		{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
		"schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": {"type": "object", "properties": {"n": {"type": "integer"}}}, "spec": {"type": "object", "properties": {
			"n": {"type": "integer"}, "color": {"type": "string", "default": "red", "enum": ["red", "blue"]}, "nullable": {"type": "string", "nullable": true, "default": "x"}, "plain": {"type": "string"},
			"list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}, "any": {"x-kubernetes-preserve-unknown-fields": true},
			"inner": {"type": "object", "properties": {"a": {"type": "string", "default": "y"}}}}}}}}}]}}`
	stem := func(name, spec string) string {
		return fmt.Sprintf(`{"apiVersion": "example.com/v1", "kind": "Stem", "metadata": {"name": %q, "labels": {"x": "1"}}, "spec": %s}`, name, spec)
	}
	sequences := []sequence{{"prepare", []call{
		{"POST", definitionsPath, asJSON, definition, nil},
		{"GET", stems, "", "", []string{"kind", settles}},
		{"POST", stems, asJSON, stem("a", `{}`), []string{"spec"}},
		{"POST", configmaps, asJSON, `{"metadata": {"name": "a"}}`, nil},
	}}}

	var nulls []call
	for _, spec := range []string{`{"color": null}`, `{"nullable": null}`, `{"plain": null}`, `{"inner": null}`, `{"inner": {"a": null}}`, `{"n": null}`, `{"any": null}`, `{"any": {"x": null}}`, `{"list": [{"a": null}]}`, `{"list": null}`, `null`} {
		nulls = append(nulls,
			call{"PATCH", stems + "/new?fieldManager=m&dryRun=All", asApply, stem("new", spec), []string{"spec"}},
			call{"PATCH", stemA + "?fieldManager=m&force=true&dryRun=All", asApply, stem("a", spec), []string{"spec"}},
			call{"POST", stems + "?dryRun=All", asJSON, stem("new", spec), []string{"spec"}},
			call{"PATCH", stemA + "?dryRun=All", asMerge, `{"spec": ` + spec + `}`, []string{"spec"}})
	}

	var scales []call
	for _, body := range []string{`{}`, `{"spec": {}}`, `{"metadata": {}}`, `{"spec": {"replicas": null}}`, `{}`, `{"spec": {"replicas": 3}}`, `{}`} {
		scales = append(scales, call{"PATCH", stemA + "/scale", asMerge, body, []string{"spec", "status"}})
	}

	const twice = `{"apiVersion": "example.com/v1", "kind": "Stem", "metadata": {"name": "new", "labels": {"x": "1", "x": "2"}},
		"spec": {"n": 1, "n": 2, "list": [{"a": "1", "a": "2"}], "nope": 1, "nope": 2, "any": {"q": 1, "q": 1, "q": 2}}, "more": 1, "more": 2}`
	const twiceData = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", "labels": {"x": "1", "x": "2"}}, "data": {"n": "1", "n": "2"}}`
	var duplicates []call
	for _, mode := range []string{"Warn", "Strict", "Ignore"} {
		query := "?dryRun=All&fieldManager=m&fieldValidation=" + mode
		same := []string{"spec", "data", "metadata.labels", warnings}
		duplicates = append(duplicates,
			call{"POST", stems + query, asJSON, twice, same},
			call{"POST", configmaps + query, asJSON, twiceData, same},
			call{"PATCH", stems + "/new" + query, asApply, "{\"apiVersion\": \"example.com/v1\", \"kind\": \"Stem\",\n\"spec\": {\"n\": 1,\n\"n\": 2},\n\"metadata\": {\"name\": \"new\"}}", same},
			call{"PATCH", configmaps + "/new" + query, asApply, twiceData, same})
		if mode != "Strict" { // its message contains the whole object
			duplicates = append(duplicates,
				call{"PATCH", stemA + query, asMerge, `{"spec": {"n": 1, "n": 2, "any": {"a": 1, "a": 2}}}`, same},
				call{"PATCH", configmaps + "/a" + query, asMerge, `{"data": {"n": "1", "n": "2"}}`, same},
				call{"PATCH", configmaps + "/a" + query, "application/strategic-merge-patch+json", `{"data": {"n": "1", "n": "2"}}`, same},
				call{"PATCH", stemA + query, "application/json-patch+json", `[{"op": "add", "op": "add", "path": "/spec/n", "value": 1}]`, same})
		}
	}

	var versions, deletions []call
	for _, path := range []string{stemA, configmaps + "/a"} {
		for _, query := range []string{"resourceVersion=abc", "resourceVersion=18446744073709551616", "resourceVersion=0", "resourceVersion=1", "resourceVersionMatch=Exact", "resourceVersion=1&resourceVersionMatch=X"} {
			versions = append(versions, call{"GET", path + "?" + query, "", "", []string{"kind"}})
		}
	}
	for _, path := range []string{stems, configmaps} {
		for _, query := range []string{"sendInitialEvents=true", "watch=1&resourceVersionMatch=NotOlderThan", "watch=1&resourceVersion=1&resourceVersionMatch=Exact", "watch=1&sendInitialEvents=true",
			"watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", "watch=1&resourceVersion=abc", "resourceVersionMatch=Exact", "resourceVersion=0&resourceVersionMatch=Exact"} {
			versions = append(versions, call{"GET", path + "?timeoutSeconds=1&" + query, "", "", nil})
		}
		for _, body := range []string{`{"kind": "Nope"}`, `{"kind": "DeleteOptions", "apiVersion": "v1"}`, `{"kind": "DeleteOptions", "apiVersion": "example.com/v1"}`, `{"nope": 1}`, `{"gracePeriodSeconds": "x"}`,
			`{"propagationPolicy": "X"}`, `{"orphanDependents": true, "propagationPolicy": "Orphan"}`, `{"dryRun": ["X"]}`, `null`, `x`} {
			deletions = append(deletions, call{"DELETE", path + "/nope", asJSON, body, nil})
		}
		for _, query := range []string{"dryRun=X", "gracePeriodSeconds=x", "propagationPolicy=X"} {
			deletions = append(deletions, call{"DELETE", path + "/nope?" + query, asJSON, `{"dryRun": ["All"]}`, nil}, call{"DELETE", path + "/nope?" + query, "", "", nil})
		}
	}
	for _, name := range []string{"l1", "l2", "l3"} {
		deletions = append(deletions, call{"POST", stems, asJSON, stem(name, `{}`), nil})
	}
	page := []string{"kind", "metadata.remainingItemCount"}
	deletions = append(deletions, call{"DELETE", stems + "?limit=2", "", "", page}, call{"GET", stems + "/l1", "", "", nil}, call{"GET", stems + "/l2", "", "", []string{"kind"}},
		call{"DELETE", stems + "?limit=1&labelSelector=x%3D1", "", "", page}, call{"GET", stems + "/l2", "", "", nil}, call{"DELETE", stems, "", "", page}, call{"GET", stems + "/l3", "", "", nil})

	sequences = append(sequences, sequence{"nulls", nulls}, sequence{"scales", scales}, sequence{"duplicate keys", duplicates}, sequence{"versions", versions}, sequence{"deletions", deletions})
	compareSequences(t, judge(t, ownCluster(t, nil)), sequences)
}
