package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/ownership"
	"github.com/kopf-go/kopf/internal/rawjson"
)

var (
	ownershipSeeds  = flag.Uint64("ownership.seeds", 0, "how many random sequences of foreign writes are tried with each kind; 0 is 1, or 10 for a proof")
	ownershipFirst  = flag.Uint64("ownership.first", 0, "the first of them, to repeat one")
	ownershipWrites = flag.Int("ownership.writes", 30, "how many writes a sequence has")
	ownershipOnly   = flag.String("ownership.only", "", "the only kind that is tried")
)

const (
	childManager    = "kopf-things.example.com"
	childAnnotation = "example.com/applied"
	childName       = "child"
)

// TestOwnership compares the check of children with a dry run of an apply, after each of many random foreign writes, on both servers. The managed fields
// must be the same on both.
func TestOwnership(t *testing.T) {
	t.Parallel()
	servers := bothServers(t)
	last := *ownershipFirst + givenOr(*ownershipSeeds, 1, 10)
	for seed := *ownershipFirst; seed < last; seed++ {
		var traces []map[string][]traced
		for _, e := range servers {
			n := newChildNamespace(t, e, fmt.Sprintf("ownership-%d", seed))
			t.Run(fmt.Sprintf("RC-50 a child is left alone if an apply changes nothing, seed %d, %s", seed, e.name), func(t *testing.T) {
				n.t = t
				n.tryAll(seed)
			})
			traces = append(traces, n.traces)
		}
		t.Run(fmt.Sprintf("the servers agree, seed %d", seed), func(t *testing.T) {
			needSameVersion(t, theCluster(t))
			for _, kind := range slices.Sorted(maps.Keys(traces[0])) {
				compareTraces(t, kind, traces[0][kind], traces[1][kind])
			}
		})
	}
}

// bothServers returns the real server and the in-memory one.
func bothServers(t *testing.T) []*endpoint {
	t.Helper()
	served, err := kopf.NewAPIServer(nil).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := served.Close(); err != nil {
			t.Error(err)
		}
	})
	return []*endpoint{judge(t, theCluster(t)), {name: "in memory", url: served.URL, client: &http.Client{Transport: &http.Transport{}}}}
}

// traced is the result of a write, without values that differ between servers, and the whole response.
type traced struct{ text, answer string }

// compareTraces compares the results of the same writes on two servers, up to the first difference.
func compareTraces(t *testing.T, kind string, want, got []traced) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		if want[i].text != got[i].text {
			t.Errorf("%s, step %d: the servers differ (-real +in memory)\n%s\nthe answers:\n%s\n%s\nbefore:\n%s", kind, i,
				cmp.Diff(strings.Split(want[i].text, "\n"), strings.Split(got[i].text, "\n")), want[i].answer, got[i].answer, want[max(0, i-1)].text)
			return
		}
	}
}

// childNamespace is a namespace with children of one owner.
type childNamespace struct {
	t         *testing.T
	endpoint  *endpoint
	namespace string
	owner     map[string]any // a reference
	checker   *ownership.Checker
	counts    map[string]int
	needless  map[string]int      // applies, by their reasons
	traces    map[string][]traced // by kind: the result of each write
}

func newChildNamespace(t *testing.T, e *endpoint, namespace string) *childNamespace {
	t.Helper()
	n := &childNamespace{
		t: t, endpoint: e, namespace: namespace, checker: &ownership.Checker{}, counts: make(map[string]int), needless: make(map[string]int), traces: make(map[string][]traced),
	}
	n.must("POST", "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": namespace}})
	owner := n.must("POST", "/api/v1/namespaces/"+namespace+"/configmaps", map[string]any{"metadata": map[string]any{"name": "owner"}})
	uid, _ := rawjson.Lookup(owner, "metadata", "uid")
	n.owner = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "controller": true, "blockOwnerDeletion": true}
	return n
}

// call sends a request and returns the bytes of the response.
func (n *childNamespace) call(ctx context.Context, method, path, contentType string, body any) (code int, answer []byte) {
	n.t.Helper()
	text, raw := body.([]byte)
	if body != nil && !raw {
		text = []byte(encode(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, n.endpoint.url+path, strings.NewReader(string(text)))
	if err != nil {
		n.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := n.endpoint.client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return resp.StatusCode, answer
}

func (n *childNamespace) must(method, path string, body any) map[string]any {
	n.t.Helper()
	code, answer := n.call(n.t.Context(), method, path, asJSON, body)
	if code >= 300 {
		n.t.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
	return rawjson.Map(answer)
}

// define creates a kind with a random schema. Not all schemas are valid.
func (n *childNamespace) define(r *rand.Rand, number int) *childKind {
	for range 20 {
		k := customChild(r, strings.ReplaceAll(n.namespace, "-", "")+".example.com", number)
		code, answer := n.call(n.t.Context(), "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", asJSON, k.definition())
		if code < 300 {
			return k
		}
		if code != http.StatusUnprocessableEntity {
			n.t.Fatalf("%d %s", code, answer)
		}
	}
	n.t.Fatal("no random definition is allowed")
	return nil
}

func (n *childNamespace) await(k *childKind) {
	collection := strings.TrimSuffix(k.path(n.namespace, ""), "/")
	eventually(n.t, k.plural+" are served", func() bool {
		code, _ := n.call(n.t.Context(), "GET", collection, "", nil)
		return code == http.StatusOK
	})
}

// tryAll tries all kinds.
func (n *childNamespace) tryAll(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 5))
	kinds := builtinChildren()
	for i := range 10 {
		kinds = append(kinds, n.define(r, i))
	}
	for i, k := range kinds {
		if *ownershipOnly == "" || *ownershipOnly == k.kind {
			n.await(k)
			n.try(rand.New(rand.NewPCG(seed, uint64(i))), k)
		}
	}
	n.report()
}

// child is an object that an operator applies.
type child struct {
	*childNamespace
	kind          *childKind
	path          string
	configuration *ownership.Configuration
	live          []byte
	taught        bool // whether the checker has got an apply of the configuration
}

func (n *childNamespace) child(k *childKind, name string) *child {
	return &child{childNamespace: n, kind: k, path: k.path(n.namespace, name)}
}

func (c *child) apply(dry bool) (code int, answer []byte) {
	query := "?force=true&fieldManager=" + childManager
	if dry {
		query += "&dryRun=All"
	}
	return c.call(c.t.Context(), "PATCH", c.path+query, asApply, c.configuration.JSON(nil))
}

func (c *child) check() ownership.Result {
	fields, apiVersion := c.fields()
	return c.checker.Check(c.configuration, rawjson.StringAt(c.live, "metadata", "annotations", childAnnotation), fields, apiVersion)
}

func (c *child) fields() (fields []byte, apiVersion string) {
	managed, _ := rawjson.Find(c.live, "metadata", "managedFields")
	return ownership.FieldsOf(managed, childManager)
}

// get reads the object again.
func (c *child) get() {
	code, answer := c.call(c.t.Context(), "GET", c.path, "", nil)
	if code != http.StatusOK {
		c.t.Fatalf("GET %s: %d %s", c.path, code, answer)
	}
	c.live = answer
}

// withoutBookkeeping decodes an object without the metadata that each write changes.
func withoutBookkeeping(data []byte) map[string]any {
	object := rawjson.Map(data)
	for _, key := range []string{"managedFields", "resourceVersion", "generation"} {
		delete(rawjson.AsMap(object["metadata"]), key)
	}
	return object
}

// try checks a child of a kind after many writes.
func (n *childNamespace) try(r *rand.Rand, k *childKind) {
	c := n.child(k, childName)
	if !c.configure(r) {
		return
	}
	var history []string
	for i := range *ownershipWrites {
		if i%10 == 9 {
			c.configure(r)
		}
		if r.IntN(20) == 0 {
			n.checker, c.taught = &ownership.Checker{}, false // as after a restart
		}
		w := &foreignWriter{Rand: r, kind: k, applied: rawjson.Map(c.configuration.JSON(nil)), live: rawjson.Map(c.live)}
		write := w.next()
		if write == nil {
			continue
		}
		n.counts["writes"]++
		text := write.String()
		code, answer := n.call(n.t.Context(), write.method, write.path(c.path), write.contentType, write.body)
		c.trace(text, code, answer)
		if code >= 300 {
			n.counts["refused writes"]++
			continue
		}
		history = append(history, text)
		c.judge(write, history)
	}
}

// configure applies a new configuration, and reports whether the server accepts one.
func (c *child) configure(r *rand.Rand) bool {
	before := c.configuration
	for range 10 {
		object := c.kind.make(r, childName)
		metadata := object["metadata"].(map[string]any)
		metadata["ownerReferences"] = []any{c.owner}
		metadata["labels"] = map[string]any{"l": "1"}
		if r.IntN(2) > 0 {
			metadata["finalizers"] = []any{}
		}
		configuration, err := ownership.New(object, childAnnotation)
		if err != nil {
			c.t.Fatal(err)
		}
		c.configuration, c.taught = configuration, false
		if c.reapply("a new configuration") {
			return true
		}
	}
	c.configuration = before
	c.counts["no configuration"]++
	return false
}

// reapply applies the configuration, passes the response to the checker, and reports whether the server accepts it. Afterwards, the check must find the
// child unchanged.
func (c *child) reapply(after string) bool {
	code, answer := c.apply(false)
	c.trace("apply "+string(c.configuration.JSON(nil)), code, answer)
	if code >= 300 {
		c.counts["refused applies"]++
		return false
	}
	c.live, c.taught = answer, true
	fields, apiVersion := c.fields()
	learnt := c.checker.Learn(c.configuration, fields, apiVersion)
	if result := c.check(); result != ownership.Owned || learnt != result {
		c.t.Errorf("%s: %v after the apply that follows %s, and %v in its answer: %s\n%s", c.kind.kind, result, after, learnt, c.configuration.JSON(nil), fields)
	}
	c.repeat()
	return true
}

// repeat applies the configuration once more if that has an effect. If an apply removes the last field of a map, kube-apiserver replaces the map by null,
// even if the same apply contains an empty map there. The next apply replaces the null by an empty map.
func (c *child) repeat() {
	code, answer := c.apply(true)
	if code >= 300 || cmp.Equal(withoutBookkeeping(c.live), withoutBookkeeping(answer)) {
		return
	}
	c.counts["applied twice"]++
	if code, answer = c.apply(false); code < 300 {
		c.live = answer
	}
}

// judge compares the check after a write with a dry run of an apply.
func (c *child) judge(write *foreignWrite, history []string) {
	c.get()
	code, answer := c.apply(true)
	if code >= 300 {
		c.counts["refused applies"]++
		return
	}
	result, before, after := c.check(), withoutBookkeeping(c.live), withoutBookkeeping(answer)
	what := c.outcome(result, write, before, after)
	c.counts[what]++
	entry, _ := c.fields()
	switch what {
	case "owned":
		return
	case "missed":
		c.t.Errorf("%s: a drift is missed (-live +applied)\n%s%s\nthe fields: %s\nthe configuration: %s",
			c.kind.kind, cmp.Diff(before, after), strings.Join(history[max(0, len(history)-4):], "\n"), entry, c.configuration.JSON(nil))
	case "needless":
		c.needless[fmt.Sprintf("%s, %s: %v", c.kind.kind, write.what, result)]++
		c.t.Logf("%s: a needless apply (%v) after %s\nthe fields: %s\nthe configuration: %s", c.kind.kind, result, history[len(history)-1], entry, c.configuration.JSON(nil))
	}
	c.reapply(write.what)
}

// outcome classifies the result of a check, given the effect of an apply.
func (c *child) outcome(result ownership.Result, write *foreignWrite, before, after map[string]any) string {
	same := cmp.Equal(before, after)
	entry, _ := c.fields()
	switch {
	case result == ownership.Owned && same:
		return "owned"
	case result == ownership.Owned && cmp.Equal(sorted(before, rawjson.Map(entry)), sorted(after, rawjson.Map(entry))):
		return "reordered"
	case result == ownership.Owned && c.sameButEmpty(before, after):
		return "empty values"
	case result == ownership.Owned && c.kind.builtin && write.what == "apply" && cmp.Equal(unique(before), unique(after)):
		return "keys by default"
	case result == ownership.Owned:
		return "missed"
	case !same:
		return "drifted"
	case entry == nil:
		return "entry lost"
	case result == ownership.Unknown && !c.taught:
		return "taught"
	}
	return "needless"
}

// sorted sorts the lists whose items are separate fields.
func sorted(value any, fields map[string]any) any {
	switch v := value.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, child := range v {
			object[key] = sorted(child, rawjson.AsMap(fields["f:"+key]))
		}
		return object
	case []any:
		below := map[string]any{}
		for element, more := range fields {
			if element != "." {
				below = rawjson.Merge(below, more).(map[string]any)
			}
		}
		list := make([]any, 0, len(v))
		for _, item := range v {
			list = append(list, sorted(item, below))
		}
		if len(fields) > 0 {
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(encode(a), encode(b)) })
		}
		return list
	}
	return value
}

// sameButEmpty reports whether two objects differ only in empty values: an empty list, which may be missing with all its defaults, or an empty map and a
// null, which may replace each other.
func (c *child) sameButEmpty(before, after map[string]any) bool {
	configuration := content(rawjson.Map(c.configuration.JSON(nil)))
	for _, path := range pathsBelow(configuration, nil) {
		value, _ := at(configuration, path)
		x, inX := at(before, path)
		y, inY := at(after, path)
		if hollow(value) || inX && inY && rawjson.IsEmpty(value) && rawjson.IsEmpty(x) && rawjson.IsEmpty(y) {
			if inX {
				removed(before, path)
			}
			if inY {
				removed(after, path)
			}
		}
	}
	return cmp.Equal(withoutEmptyLists(before), withoutEmptyLists(after))
}

// unique removes duplicate items from lists. kube-apiserver records the fields of an apply before it sets defaults. Therefore an item with an empty key can
// get the key of another item, which no client has changed.
func unique(value any) any {
	switch v := value.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, child := range v {
			object[key] = unique(child)
		}
		return object
	case []any:
		list := make([]any, 0, len(v))
		for _, item := range v {
			if item = unique(item); !slices.ContainsFunc(list, func(other any) bool { return cmp.Equal(item, other) }) {
				list = append(list, item)
			}
		}
		return list
	}
	return value
}

// withoutEmptyLists removes members that are empty lists, and maps that contain nothing else.
func withoutEmptyLists(value any) any {
	switch v := value.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, child := range v {
			if !hollow(child) {
				object[key] = withoutEmptyLists(child)
			}
		}
		return object
	case []any:
		list := make([]any, 0, len(v))
		for _, item := range v {
			list = append(list, withoutEmptyLists(item))
		}
		return list
	}
	return value
}

// hollow reports whether a value is an empty list, or contains only such lists.
func hollow(value any) bool {
	switch v := value.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, child := range v {
			if !hollow(child) {
				return false
			}
		}
		return len(v) > 0
	}
	return false
}

// trace records the result of a write: whether it was accepted, and the managers of the fields.
func (c *child) trace(write string, code int, answer []byte) {
	lines := []string{write, fmt.Sprint(code)}
	managed, _ := rawjson.ValueAt(answer, "metadata", "managedFields").([]any)
	for _, entry := range managed {
		delete(entry.(map[string]any), "time")
		lines = append(lines, encode(entry))
	}
	slices.Sort(lines[2:])
	text := strings.ReplaceAll(strings.Join(lines, "\n"), fmt.Sprint(c.owner["uid"]), "UID")
	c.traces[c.kind.kind] = append(c.traces[c.kind.kind], traced{variable.ReplaceAllString(text, "$1$2"), string(answer)})
}

// variable matches values that differ between servers.
var variable = regexp.MustCompile(`("(?:resourceVersion|uid|creationTimestamp|time|example\.com/applied)":)"[^"]*"|("generation":)\d+|\b10\.\d+\.\d+\.\d+`)

// report fails if there are too many needless applies. Other clients may cause some, if they write another value that defaults make equal.
func (n *childNamespace) report() {
	n.t.Logf("%v", n.counts)
	for _, reason := range slices.Sorted(maps.Keys(n.needless)) {
		n.t.Logf("needless, %d times: %s", n.needless[reason], reason)
	}
	if checks := n.counts["owned"] + n.counts["drifted"]; n.counts["needless"]*50 > checks {
		n.t.Errorf("%d of %d applies are needless", n.counts["needless"], checks)
	}
	if *ownershipOnly == "" && (n.counts["owned"] == 0 || n.counts["drifted"] == 0) {
		n.t.Errorf("nothing was compared: %v", n.counts)
	}
}
