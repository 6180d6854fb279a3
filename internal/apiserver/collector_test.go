package apiserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// objects are config maps on a server.
type objects struct {
	*testing.T
	server    *Server
	namespace string // the namespace of the config maps, "" for default
}

// do sends a request about config maps, and returns the answer.
func (o objects) do(method, path, contentType, body string) (int, []byte) {
	o.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, "/api/v1/namespaces/"+cmp.Or(o.namespace, "default")+"/configmaps"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	o.server.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

func (o objects) uid(name string) string {
	_, object := o.do("GET", "/"+name, "", "")
	return cmp.Or(rawjson.StringAt(object, "metadata", "uid"), "of-none")
}

// add creates an object with owners, whose deletion it blocks.
func (o objects) add(name, finalizers string, owners ...string) {
	o.Helper()
	var references []string
	for _, owner := range owners {
		references = append(references, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q,"blockOwnerDeletion":true}`, owner, o.uid(owner)))
	}
	body := fmt.Sprintf(`{"metadata":{"name":%q,"finalizers":[%s],"ownerReferences":[%s]}}`, name, finalizers, strings.Join(references, ","))
	if code, answer := o.do("POST", "", "application/json", body); code != 201 {
		o.Fatalf("creating %s: %d %s", name, code, answer)
	}
}

func (o objects) remove(name, policy string) {
	o.Helper()
	if code, answer := o.do("DELETE", "/"+name+"?propagationPolicy="+policy, "", ""); code != 200 {
		o.Fatalf("deleting %s: %d %s", name, code, answer)
	}
}

// want compares the remaining objects and the numbers of their owners.
func (o objects) want(left string) {
	o.Helper()
	var all []string
	items, _ := o.server.db.List("configmaps.")
	for _, i := range items {
		text := fmt.Sprintf("%s:%d", i.Name, len(ownersOf(i.Raw)))
		if isDeleted(i.Raw) {
			text += "!"
		}
		all = append(all, text)
	}
	if got := strings.Join(all, " "); got != left {
		o.Errorf("what is left is %q, want %q", got, left)
	}
}

func TestGarbageCollector(t *testing.T) {
	begin := func(t *testing.T) objects { return objects{T: t, server: New(Options{})} }
	t.Run("dependents of all degrees go with their owner", func(t *testing.T) {
		o := begin(t)
		o.add("owner", "")
		o.add("child", "", "owner")
		o.add("grandchild", "", "child")
		o.add("other", "")
		o.remove("owner", "Background")
		o.want("other:0")
	})
	t.Run("a dependent of two owners goes with the last one", func(t *testing.T) {
		o := begin(t)
		o.add("a", "")
		o.add("b", "")
		o.add("child", "", "a", "b")
		o.remove("a", "Background")
		o.want("b:0 child:1")
		o.remove("b", "Background")
		o.want("")
	})
	t.Run("an owner in the foreground waits for its dependents", func(t *testing.T) {
		o := begin(t)
		o.add("owner", "")
		o.add("child", `"example.com/f"`, "owner")
		o.add("easy", "", "owner")
		o.remove("owner", "Foreground")
		o.want("child:1! owner:0!")
		o.do("PATCH", "/child", "application/merge-patch+json", `{"metadata":{"finalizers":null}}`)
		o.want("")
	})
	t.Run("an owner in the foreground does not wait for those that do not block it", func(t *testing.T) {
		o := begin(t)
		o.add("owner", "")
		o.add("child", `"example.com/f"`, "owner")
		o.do("PATCH", "/child", "application/json-patch+json", `[{"op":"remove","path":"/metadata/ownerReferences/0/blockOwnerDeletion"}]`)
		o.remove("owner", "Foreground")
		o.want("child:1!")
	})
	t.Run("owners of each other go together", func(t *testing.T) {
		o := begin(t)
		o.add("a", "")
		o.add("b", "", "a")
		o.add("c", "", "b")
		o.do("PATCH", "/a", "application/merge-patch+json", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":%q,"blockOwnerDeletion":true}]}}`, o.uid("c")))
		o.want("a:1 b:1 c:1")
		o.remove("a", "Foreground")
		o.want("")
	})
	t.Run("orphans stay without their owner", func(t *testing.T) {
		o := begin(t)
		o.add("owner", "")
		o.add("child", "", "owner")
		o.remove("owner", "Orphan")
		o.want("child:0")
	})
	t.Run("an object of an owner that never was goes at once", func(t *testing.T) {
		o := begin(t)
		o.add("child", "", "owner")
		o.want("")
	})
	t.Run("an object of an owner with the name of another one goes at once", func(t *testing.T) {
		o := begin(t)
		o.add("owner", "")
		o.do("POST", "", "application/json", `{"metadata":{"name":"child","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"of-another"}]}}`)
		o.want("owner:0")
	})
	t.Run("an owner that is named twice does not take the place of others", func(t *testing.T) {
		o := begin(t)
		o.add("owner", "")
		o.add("a", "", "owner", "owner")
		o.add("b", "", "owner")
		o.remove("a", "Background")
		o.remove("owner", "Background")
		o.want("")
	})
	t.Run("an owner in the foreground does not wait for those that are its dependents no more", func(t *testing.T) {
		for _, references := range []string{"null", `[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"UID","blockOwnerDeletion":false}]`} {
			o := begin(t)
			o.add("owner", "")
			o.add("child", `"example.com/f"`, "owner")
			references = strings.ReplaceAll(references, "UID", o.uid("owner"))
			o.remove("owner", "Foreground")
			o.do("PATCH", "/child", "application/merge-patch+json", `{"metadata":{"ownerReferences":`+references+`}}`)
			if o.uid("owner") != "of-none" {
				o.Errorf("the owner is still there after its child has the owners %s", references)
			}
		}
	})
	t.Run("nothing goes if it is switched off", func(t *testing.T) {
		o := objects{T: t, server: New(Options{DisableGarbageCollector: true})}
		o.add("owner", "")
		o.add("child", "", "owner")
		o.remove("owner", "Background")
		o.want("child:1")
	})
	t.Run("a namespace with an owner in the foreground ends", func(t *testing.T) {
		o := begin(t)
		o.namespace = "kube-node-lease"
		o.add("owner", "")
		o.add("child", "", "owner")
		o.remove("owner", "Foreground")
		r := httptest.NewRequest("DELETE", "/api/v1/namespaces/kube-node-lease", nil)
		o.server.ServeHTTP(httptest.NewRecorder(), r)
		o.want("")
		if o.server.db.Get("namespaces.", "kube-node-lease") != nil {
			t.Error("the namespace is still there")
		}
	})
}

// Manifests refer to owners by the uids of another server.
func TestLoadOwners(t *testing.T) {
	const child = `
apiVersion: v1
kind: ConfigMap
metadata:
  {name: child, namespace: default, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: of-another-server}]}
`
	s := New(Options{})
	if err := s.Apply([]byte(child)); err == nil || !strings.Contains(err.Error(), `"owner", does not exist`) {
		t.Errorf("the error of a child without its owner is %v", err)
	}
	if err := s.Apply([]byte(child + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: owner, namespace: default}\n")); err != nil {
		t.Fatal(err)
	}
	o := objects{T: t, server: s}
	o.want("child:1 owner:0")
	o.remove("owner", "Background")
	o.want("")
}

// Custom resources that are dependents are deleted with their CRD, and orphaned only if the server can store that.
func TestCollectCustomResources(t *testing.T) {
	const thing = "/apis/example.com/v1/namespaces/default/things"
	definition := func(extra string) string {
		return `{"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","names":{"plural":"things","kind":"Thing"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object"` + extra + `,"properties":{"spec":{"type":"object"}}}}}]}}`
	}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	do := func(s *Server, method, path, body string) (int, []byte) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[method == "PATCH"])
		s.ServeHTTP(w, r)
		return w.Code, w.Body.Bytes()
	}
	t.Run("a definition goes", func(t *testing.T) {
		o := objects{T: t, server: New(Options{})}
		do(o.server, "POST", definitions, definition(""))
		_, owner := do(o.server, "POST", thing, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}}`)
		o.do("POST", "", "application/json", fmt.Sprintf(`{"metadata":{"name":"child","ownerReferences":[{"apiVersion":"example.com/v1","kind":"Thing","name":"a","uid":%q}]}}`, rawjson.StringAt(owner, "metadata", "uid")))
		o.want("child:1")
		do(o.server, "DELETE", definitions+"/things.example.com", "")
		o.want("")
	})
	t.Run("an orphan that cannot be stored", func(t *testing.T) {
		o := objects{T: t, server: New(Options{})}
		o.add("owner", "")
		do(o.server, "POST", definitions, definition(""))
		do(o.server, "POST", thing, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q}]}}`, o.uid("owner")))
		do(o.server, "PATCH", definitions+"/things.example.com", definition(`,"required":["spec"]`))
		o.remove("owner", "Orphan")
		if code, answer := do(o.server, "GET", thing+"/a", ""); code != 200 {
			t.Errorf("getting the orphan is answered with %d %s, want it to be there", code, answer)
		}
		o.want("owner:0!")
	})
}

// The finalizers in the spec of a namespace block its deletion, as those in its metadata do.
func TestNamespaceFinalizers(t *testing.T) {
	s := New(Options{})
	do := func(method, path, body string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, "/api/v1/namespaces"+path, strings.NewReader(body))
		s.ServeHTTP(w, r)
		return w.Code
	}
	do("POST", "", `{"metadata":{"name":"held"},"spec":{"finalizers":["example.com/hold"]}}`)
	do("DELETE", "/held", "")
	if code := do("GET", "/held", ""); code != 200 {
		t.Errorf("getting the held namespace is answered with %d, want 200", code)
	}
	do("PUT", "/held/finalize", `{"metadata":{"name":"held"},"spec":{}}`)
	if code := do("GET", "/held", ""); code != 404 {
		t.Errorf("getting the namespace that is released is answered with %d, want 404", code)
	}
}

// The server drops large request bodies earlier than small ones.
func TestRequestsAreBounded(t *testing.T) {
	s := New(Options{})
	body := `{"metadata":{"name":"large"},"data":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`
	for range 40 {
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/api/v1/namespaces/default/configmaps", strings.NewReader(body)))
	}
	size := 0
	for _, r := range s.Requests() {
		size += len(r.Body)
	}
	if size > maxRequestBytes || size < maxRequestBytes/4 {
		t.Errorf("the requests that are kept have %d bytes, want at most %d and not much less", size, maxRequestBytes)
	}
	if got := s.Requests(); got[len(got)-1].Status != 409 {
		t.Errorf("the last request has the status %d, want 409", got[len(got)-1].Status)
	}
}

// No dependent remains without its owner if both are created and deleted concurrently.
func TestCollectConcurrently(t *testing.T) {
	o := objects{T: t, server: New(Options{})}
	for round := range 20 {
		owner := fmt.Sprint("owner-", round)
		o.add(owner, "")
		uid := o.uid(owner)
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				name := fmt.Sprintf("child-%d-%d", round, i)
				o.do("POST", "", "application/json", fmt.Sprintf(`{"metadata":{"name":%q,"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}]}}`, name, owner, uid))
				for n := range 5 {
					o.do("PATCH", "/"+name, "application/merge-patch+json", fmt.Sprintf(`{"data":{"n":"%d"}}`, n))
				}
			})
		}
		policy := []string{"Background", "Foreground"}[round%2]
		group.Go(func() { o.do("DELETE", "/"+owner+"?propagationPolicy="+policy, "", "") })
		group.Wait()
		o.want("")
	}
	if left := len(o.server.collector.owners) + len(o.server.collector.dependents); left > 0 {
		t.Errorf("%d objects are remembered that are gone", left)
	}
}

// Each of an owner's dependents is changed or deleted once when the owner is deleted.
func TestCollectOnce(t *testing.T) {
	for _, policy := range []string{"Orphan", "Foreground", "Background"} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := objects{T: t, server: New(Options{Logger: slog.New(slog.DiscardHandler)})}
				reviews := make(map[string]int)
				reviewDependents(t, o.server, func(name string) bool {
					reviews[name]++
					return name != "child-00"
				})
				o.add("owner", "")
				for i := range 50 {
					o.add(fmt.Sprintf("child-%02d", i), "", "owner")
				}
				o.remove("owner", policy)
				for i := range 50 {
					// the refused one is tried twice, because the others have changed in the meantime
					if name := fmt.Sprintf("child-%02d", i); reviews[name] != 1 && (i > 0 || reviews[name] != 2) {
						t.Errorf("there are %d reviews of %s", reviews[name], name)
					}
				}
				if left := len(o.server.processing.dirty); left > 0 {
					t.Errorf("%d objects are still worked on", left)
				}
			})
		})
	}
}

// A dependent that loses its owner by another request, while the others are orphaned, is not changed again.
func TestOrphanMeanwhile(t *testing.T) {
	o := objects{T: t, server: New(Options{})}
	var reviews []string
	reviewDependents(t, o.server, func(name string) bool {
		if reviews = append(reviews, name); name == "child-0" {
			o.do("PATCH", "/child-1", "application/merge-patch+json", `{"metadata":{"ownerReferences":null}}`)
		}
		return true
	})
	o.add("owner", "")
	o.add("child-0", "", "owner")
	o.add("child-1", "", "owner")
	o.remove("owner", "Orphan")
	o.want("child-0:0 child-1:0")
	if got := fmt.Sprint(reviews); got != "[child-0 child-1]" {
		t.Errorf("the reviews are %s, want one of each", got)
	}
}

// The collector repeats its work after a webhook in this process has panicked.
func TestCollectAfterPanic(t *testing.T) {
	s, n := New(Options{}), 0
	work := func() {
		if n++; n == 1 {
			panic(http.ErrAbortHandler)
		}
	}
	object := objectKey{"configmaps.", "default/a"}
	func() {
		defer func() { _ = recover() }()
		s.process(object, work)
	}()
	if s.process(object, work); n != 2 {
		t.Errorf("the work is done %d times, want 2", n)
	}
}

// reviewDependents has a webhook call a function for the changes and deletions of config maps whose names begin with child.
func reviewDependents(t *testing.T, s *Server, allow func(name string) bool) {
	t.Helper()
	url, end := s.HandleReviews(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct{ UID, Name string }
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		allowed := !strings.HasPrefix(review.Request.Name, "child") || allow(review.Request.Name)
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":%t}}`, review.Request.UID, allowed)
	}))
	t.Cleanup(end)
	configuration := fmt.Sprintf(`{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com","clientConfig":{"url":%q},"admissionReviewVersions":["v1"],"sideEffects":"None",
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["UPDATE","DELETE"],"resources":["configmaps"]}]}]}`, url)
	if code, text := send(s, "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "", configuration); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
}
