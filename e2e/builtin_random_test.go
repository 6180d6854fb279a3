package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf/internal/proof"
)

// Random requests about built-in kinds are sent to both servers, and the codes of the answers compared.

var (
	builtinSeeds = flag.Uint64("builtins.seeds", 0, "how many random sequences of requests about built-in kinds are tried; 0 is 150, or 2000 for a proof")
	builtinFirst = flag.Uint64("builtins.first", 0, "the first of them, to repeat one")
	builtinSteps = flag.Int("builtins.steps", 8, "how many requests a sequence has")
)

// givenOr returns the value of a flag, or the number of rounds if that is 0. Tests call it, as the test cache does not know which
// environment variables are read before them.
func givenOr(given uint64, few, many int) uint64 {
	return cmp.Or(given, uint64(proof.Rounds(few, many)))
}

// allowedDifferences is the tolerated fraction of requests with different codes.
const allowedDifferences = 0.005

// knownClasses are the classes of these requests, with the reasons.
var knownClasses = []struct{ class, reason string }{
	{`^Pod: .*: 404 instead of \d+$|^Pod: other events in a watch$`, "Pods on nodes go at once when they are deleted, since there is no node to stop them."},
	{`^(LimitRange|Role): apply `, "A list that was sent empty, and stored as null, has no manager."},
	{`^Service: replace status .*: 404 instead of \d+$`, "kube-apiserver creates a service by its status."},
	{`^Volume(Attachment|AttributesClass): `, "Kinds without an effect here are hardly validated."},
}

// codeDifference is a request that the servers answer with different codes.
type codeDifference struct {
	class       string
	seed        uint64
	request     *request
	want, got   int
	said, tells string
}

// codeComparison has the results so far.
type codeComparison struct {
	mu       sync.Mutex // guards all below
	requests int
	found    []*codeDifference
}

func TestBuiltinRandom(t *testing.T) {
	t.Parallel()
	real, ours := judge(t, ownCluster(t, nil)), embedded(t)
	samples, err := builtinSamples(kindsOfBoth(t, real, ours))
	if err != nil {
		t.Fatal(err)
	}
	compared := &codeComparison{}
	var group sync.WaitGroup
	next := make(chan uint64)
	for range 8 {
		group.Go(func() {
			for seed := range next {
				if err := compared.sequence(t.Context(), samples, seed, real, ours); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
	last := *builtinFirst + givenOr(*builtinSeeds, 150, 2000)
	for seed := *builtinFirst; seed < last; seed++ {
		next <- seed
	}
	close(next)
	group.Wait()
	compared.report(t)
}

// kindsOfBoth returns the kinds that both servers serve, by their group versions and plurals.
func kindsOfBoth(t *testing.T, real, ours *endpoint) map[string]string {
	t.Helper()
	kinds := map[string]string{}
	for _, k := range builtinObjects {
		path := strings.Split(k.collection, "/namespaces/")[0]
		if !strings.Contains(k.collection, "/namespaces/") {
			path = k.collection[:strings.LastIndex(k.collection, "/")]
		}
		for _, e := range []*endpoint{real, ours} {
			got := e.mustSend(t, &request{method: http.MethodGet, path: path})
			body, _ := got.Body.(map[string]any)
			for plural, resource := range byKey(body["resources"], "name") {
				if e == ours && !strings.Contains(plural, "/") {
					kinds[strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")+"/"+plural], _ = resource["kind"].(string)
				}
			}
		}
	}
	return kinds
}

// sequence sends the requests of a seed to both servers, until the codes differ.
func (c *codeComparison) sequence(ctx context.Context, samples []*builtinSample, seed uint64, real, ours *endpoint) error {
	random := rand.New(rand.NewPCG(seed, 5))
	g := &builtinGenerator{Rand: random, sample: samples[random.IntN(len(samples))], namespace: fmt.Sprintf("random-%d", seed), name: fmt.Sprintf("random-%d.example.com", seed)}
	if g.sample.namespaced() {
		g.name = "a"
		space := &request{method: http.MethodPost, path: "/api/v1/namespaces", contentType: asJSON, body: `{"metadata": {"name": "` + g.namespace + `"}}`}
		if d, err := c.compare(ctx, space, real, ours); d != nil || err != nil {
			return fmt.Errorf("creating a namespace: %+v %w", d, err)
		}
	}
	for range *builtinSteps {
		r := g.next()
		d, err := c.compare(ctx, r, real, ours)
		if err != nil {
			return err
		}
		if d != nil {
			d.seed = seed
			d.class = fmt.Sprintf("%s: %s: %d instead of %d", g.sample.kind, generalized(r.what), d.got, d.want)
			c.mu.Lock()
			c.found = append(c.found, d)
			c.mu.Unlock()
			return nil // the states differ from now on
		}
	}
	if seed%4 > 0 {
		return nil
	}
	return c.compareWatches(ctx, g, seed, real, ours)
}

var inList = regexp.MustCompile(`\[\]`)

// generalized returns the description of a request without the details that would make each a separate class.
func generalized(what string) string { return inList.ReplaceAllString(what, "") }

// compare sends a request to both servers, and returns the difference of the codes, nil if there is none.
func (c *codeComparison) compare(ctx context.Context, r *request, real, ours *endpoint) (*codeDifference, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	want, said, err := real.code(ctx, r)
	if err != nil {
		return nil, err
	}
	got, tells, err := ours.code(ctx, r)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.requests++
	c.mu.Unlock()
	if want == got {
		return nil, nil
	}
	return &codeDifference{request: r, want: want, got: got, said: said, tells: tells}, nil
}

// code sends a request, and returns the code and the message of the response.
func (e *endpoint) code(ctx context.Context, r *request) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, e.url+r.path, strings.NewReader(r.body))
	if err != nil {
		return 0, "", err
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	var status struct{ Message string }
	_ = json.Unmarshal(data, &status) // it may have another kind
	return resp.StatusCode, status.Message, err
}

// compareWatches compares the watch events for the object: from the start, and from now on, when it is deleted.
func (c *codeComparison) compareWatches(ctx context.Context, g *builtinGenerator, seed uint64, real, ours *endpoint) error {
	var seen [2][]string
	var group sync.WaitGroup
	var errs [2]error
	for i, e := range []*endpoint{real, ours} {
		group.Go(func() { seen[i], errs[i] = e.watchObject(ctx, g) })
	}
	group.Wait()
	if err := cmp.Or(errs[0], errs[1]); err != nil {
		return err
	}
	if slices.Equal(seen[0], seen[1]) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = append(c.found, &codeDifference{seed: seed, class: g.sample.kind + ": other events in a watch", request: &request{what: "watch", method: http.MethodGet, path: g.collection()},
		said: fmt.Sprint(seen[0]), tells: fmt.Sprint(seen[1])})
	return nil
}

// watchObject changes the labels of the object, and deletes it, during a watch. It returns the watch events.
func (e *endpoint) watchObject(ctx context.Context, g *builtinGenerator) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+query(g.collection(), "watch", "true", "timeoutSeconds", "2", "fieldSelector", "metadata.name="+g.name), nil)
	if err != nil {
		return nil, err
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	one := g.collection() + "/" + g.name
	for _, r := range []*request{
		{method: http.MethodPatch, path: one, contentType: asMerge, body: `{"metadata": {"labels": {"watched": "yes"}, "finalizers": null}}`},
		{method: http.MethodDelete, path: query(one, "gracePeriodSeconds", "0")},
	} {
		if _, _, err := e.code(ctx, r); err != nil {
			return nil, err
		}
	}
	var seen []string
	decoder := json.NewDecoder(resp.Body)
	for {
		var event struct {
			Type   string
			Object struct {
				Kind     string
				Metadata struct {
					Name       string
					Generation int64
					Labels     map[string]string
				}
			}
		}
		if err := decoder.Decode(&event); err != nil {
			return seen, nil // at the timeout
		}
		m := event.Object.Metadata
		seen = append(seen, fmt.Sprintf("%s %s %s %d %s", event.Type, event.Object.Kind, m.Name, m.Generation, m.Labels["watched"]))
	}
}

// report prints the classes of differences, the most frequent ones first, with the shortest request of each.
func (c *codeComparison) report(t *testing.T) {
	t.Helper()
	classes := map[string][]*codeDifference{}
	for _, d := range c.found {
		classes[d.class] = append(classes[d.class], d)
	}
	byFrequency := slices.SortedFunc(maps.Keys(classes), func(a, b string) int {
		return cmp.Or(len(classes[b])-len(classes[a]), cmp.Compare(a, b))
	})
	for _, class := range byFrequency {
		shortest := slices.MinFunc(classes[class], func(a, b *codeDifference) int { return len(a.request.body) - len(b.request.body) })
		reason := "It is not known."
		for _, known := range knownClasses {
			if regexp.MustCompile(known.class).MatchString(class) {
				reason = known.reason
			}
		}
		t.Logf("%d times: %s\n  %s\n  seed %d: %.1500s\n  real: %.300s\n  in memory: %.300s", len(classes[class]), class, reason, shortest.seed, shortest.request, shortest.said, shortest.tells)
	}
	part := float64(len(c.found)) / float64(c.requests)
	t.Logf("%d of %d requests differ in their codes: %.2f %%", len(c.found), c.requests, 100*part)
	if part > allowedDifferences {
		t.Errorf("%.2f %% of the codes differ, and %.2f %% may", 100*part, 100*allowedDifferences)
	}
}
