package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// TestTypes has the real server check CRDs from structs: those of the golden files, and those of types with all tags. The contract tests their objects, on
// both servers.
func TestTypes(t *testing.T) {
	c := theCluster(t)
	server := judge(t, c)
	files, err := filepath.Glob("../internal/contract/testdata/definitions/*.json")
	if err != nil || len(files) < 2 {
		t.Fatalf("got the files %v, %v", files, err)
	}
	for _, file := range files {
		t.Run("TD-9 "+filepath.Base(file), func(t *testing.T) {
			definition, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := accepted(t, server, definition)
			t.Cleanup(func() { c.Kubectl(t, "delete", "crd", name) })
			waitForOpenAPI(t, server, definition)
			if out := c.Kubectl(t, "explain", name, "--recursive"); !strings.Contains(out, "spec") {
				t.Errorf("kubectl explains %s", out)
			}
		})
	}
	t.Run("TD-26 columns", func(t *testing.T) {
		definition := (&seenSite{}).define(t)
		name := accepted(t, server, definition)
		t.Cleanup(func() { c.Kubectl(t, "delete", "crd", name) })
		manifest := filepath.Join(t.TempDir(), "site.json")
		object := `{"apiVersion":"types.example.com/v1","kind":"SeenSite","metadata":{"name":"a","namespace":"default"},"spec":{"text":"x"}}`
		if err := os.WriteFile(manifest, []byte(object), 0o600); err != nil {
			t.Fatal(err)
		}
		c.Kubectl(t, "apply", "-f", manifest)
		if out := c.Kubectl(t, "apply", "-f", manifest); !strings.Contains(out, "unchanged") {
			t.Errorf("a second apply says %q", out)
		}
		out := c.Kubectl(t, "get", "seensites.types.example.com", "a")
		if got := strings.Join(strings.Fields(out), " "); !strings.HasPrefix(got, "NAME TEXT SIZE AGE a x 3 ") {
			t.Errorf("kubectl prints %q", got)
		}
		if out := c.Kubectl(t, "get", "seensites.types.example.com", "-o", "name", "--field-selector", "spec.text=x"); !strings.Contains(out, "/a") {
			t.Errorf("kubectl selects %q", out)
		}
		c.Kubectl(t, "scale", "seensites.types.example.com/a", "--replicas=5")
		if out := c.Kubectl(t, "get", "seensites.types.example.com", "a", "-o", "jsonpath={.spec.size}"); out != "5" {
			t.Errorf("it is scaled to %q", out)
		}
		if out := c.Kubectl(t, "explain", "seensites.types.example.com.spec.text"); !strings.Contains(out, "what it says") {
			t.Errorf("kubectl explains %q", out)
		}
	})
}

// seenSite is a kind with columns.
type seenSite struct {
	kopf.Meta
	Spec struct {
		Text string `json:"text" maxLength:"9" column:"Text" selectable:"true" doc:"what it says" rule:"self != 'never'"`
		Size int32  `json:"size,omitempty" default:"3" column:"Size"`
	} `json:"spec"`
	Status struct {
		Size int32 `json:"size,omitempty"`
	} `json:"status,omitzero"`
}

// define returns the CRD of the kind.
func (*seenSite) define(t *testing.T) []byte {
	t.Helper()
	k := kopf.DefineIn[seenSite](&kopf.Registry{}, &kopf.Definition{Group: "types.example.com", Version: "v1", Kind: "SeenSite", Scale: &kopf.Scale{Replicas: "spec.size", StatusReplicas: "status.size"}})
	return k.Manifest()
}

func stringAt(t *testing.T, object []byte, path ...string) string {
	t.Helper()
	body, err := kopf.ParseBody(object)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(body.Get(kopf.Path(path...)))
}

// waitForOpenAPI waits until the OpenAPI documents of the server and their index, which kubectl explain uses, contain all versions of a kind. They follow a CRD
// after some seconds, one after another: the index, which the aggregator serves, may be the last.
func waitForOpenAPI(t *testing.T, server *endpoint, definition []byte) {
	t.Helper()
	body, err := kopf.ParseBody(definition)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range body.Spec().Views("versions") {
		group, name, kind := body.Spec().String("group"), version.String("name"), body.Spec().String("names.kind")
		waitForDocument(t, server, "/openapi/v3/apis/"+group+"/"+name, fmt.Sprintf("map[group:%s kind:%s version:%s]", group, kind, name))
		waitForDocument(t, server, "/openapi/v3", "apis/"+group+"/"+name+":")
	}
}

func waitForDocument(t *testing.T, server *endpoint, path, text string) {
	t.Helper()
	for range 300 {
		document, err := server.send(t.Context(), &request{method: "GET", path: path}, newSightings())
		if err == nil && strings.Contains(fmt.Sprint(document.Body), text) {
			return
		}
		time.Sleep(100 * time.Millisecond) // polls an API server, whose documents cannot be watched
	}
	t.Errorf("the OpenAPI document %s does not have %s", path, text)
}

// accepted creates a CRD. It fails unless the server accepts it strictly, serves it, and finds its schema valid.
func accepted(t *testing.T, server *endpoint, definition []byte) (name string) {
	t.Helper()
	name = stringAt(t, definition, "metadata", "name")
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	created, err := server.send(t.Context(), &request{method: "POST", path: path + "?fieldValidation=Strict", contentType: "application/json", body: string(definition)}, newSightings())
	if err != nil || created.Code != 201 || len(created.Warnings) > 0 {
		t.Fatalf("got %+v, %v", created, err)
	}
	conditions := make(map[string]string)
	for range 100 {
		got, err := server.send(t.Context(), &request{method: "GET", path: path + "/" + name}, newSightings())
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		body, err := kopf.ParseBody(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range body.Status().Views("conditions") {
			conditions[condition.String("type")] = condition.String("status")
		}
		if conditions["Established"] == "True" {
			break
		}
		time.Sleep(100 * time.Millisecond) // polls an API server, at most 100 times
	}
	if conditions["Established"] != "True" || conditions["NonStructuralSchema"] == "True" || conditions["NamesAccepted"] != "True" {
		t.Errorf("got the conditions %v", conditions)
	}
	return name
}
