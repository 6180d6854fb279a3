package e2e

import "testing"

const (
	podsPath    = "/api/v1/namespaces/default/pods"
	accountPath = "/api/v1/namespaces/default/serviceaccounts"
	podToBind   = `{"metadata": {"name": "p", "labels": {"a": "1"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}`
)

var bindings = sequence{"bindings", []call{
	{"POST", podsPath, asJSON, podToBind, []string{"metadata.name"}},
	{"POST", podsPath, asJSON, `{"metadata": {"name": "gated"}, "spec": {"schedulingGates": [{"name": "example.com/g"}], "containers": [{"name": "a", "image": "b"}]}}`, []string{"metadata.name"}},
	{"GET", podsPath + "/p/log", "", "", nil},
	{"GET", podsPath + "/nothing/log", "", "", nil},
	{"POST", podsPath + "/p/binding", asJSON, `{"metadata": {"name": "q"}, "target": {"kind": "Node", "name": "n"}}`, nil},
	{"POST", podsPath + "/p/binding", asJSON, `{"metadata": {"name": "p"}, "target": {"kind": "Pod", "name": "n"}}`, nil},
	{"POST", podsPath + "/p/binding", asJSON, `{"metadata": {"name": "p"}, "target": {"kind": "Node"}}`, nil},
	{"POST", podsPath + "/nothing/binding", asJSON, `{"metadata": {"name": "nothing"}, "target": {"kind": "Node", "name": "n"}}`, nil},
	{"POST", podsPath + "/gated/binding", asJSON, `{"metadata": {"name": "gated"}, "target": {"kind": "Node", "name": "n"}}`, nil},
	{"POST", podsPath + "/p/binding", asJSON, `{"metadata": {"name": "p", "uid": "other"}, "target": {"kind": "Node", "name": "n"}}`, []string{onlyCode}},
	{"POST", podsPath + "/p/binding?dryRun=All", asJSON, `{"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}`, []string{"status"}},
	{"GET", podsPath + "/p", "", "", []string{"spec.nodeName"}},
	{"POST", podsPath + "/p/binding", asJSON, `{"metadata": {"name": "p", "annotations": {"b": "2"}, "labels": {"a": "3"}}, "target": {"kind": "Node", "name": "n"}}`, []string{"kind", "status", "code"}},
	{"GET", podsPath + "/p", "", "", []string{"spec.nodeName", "status.conditions", "metadata.annotations", "metadata.labels", "metadata.generation"}},
	{"GET", podsPath + "/p/log", "", "", nil},
	{"POST", podsPath + "/p/binding", asJSON, `{"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "m"}}`, nil},
	{"POST", podsPath, asJSON, `{"metadata": {"name": "r"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}`, []string{"metadata.name"}},
	{"POST", "/api/v1/namespaces/default/bindings", asJSON, `{"metadata": {"name": "r"}, "target": {"name": "n"}}`, []string{"kind", "status"}},
	{"GET", podsPath + "/r", "", "", []string{"spec.nodeName"}},
}}

var tokens = sequence{"tokens", []call{
	{"POST", accountPath, asJSON, `{"metadata": {"name": "robot"}}`, []string{"metadata.name"}},
	{"POST", accountPath + "/nothing/token", asJSON, `{}`, nil},
	{"POST", accountPath + "/robot/token", asJSON, `{}`, []string{"kind", "apiVersion", "metadata.name", "metadata.namespace", "spec"}},
	{"POST", accountPath + "/robot/token", asJSON, `{"spec": {"audiences": ["a"], "expirationSeconds": 7200}}`, []string{"spec"}},
	{"POST", accountPath + "/robot/token", asJSON, `{"spec": {"expirationSeconds": 10}}`, nil},
	{"POST", accountPath + "/robot/token", asJSON, `{"metadata": {"name": "other"}}`, nil},
	{"POST", accountPath + "/robot/token", asJSON, `{"metadata": {"namespace": "other"}}`, nil},
}}

// TestSubresources posts bindings of pods and requests for tokens to both servers.
func TestSubresources(t *testing.T) {
	t.Parallel()
	compareSequences(t, judge(t, ownCluster(t, nil)), []sequence{bindings, tokens})
}
