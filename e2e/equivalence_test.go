package e2e

import (
	"bytes"
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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/e2e/cluster"
)

// The real kube-apiserver is the reference for the embedded one. Both get the same random requests, and their responses must be equal, except for values
// that always differ: uids, times, versions.

var (
	seeds     = flag.Uint64("equivalence.seeds", 0, "how many random sequences of requests are tried; 0 is 100, or 1000 for a proof")
	firstSeed = flag.Uint64("equivalence.first", 0, "the first of them, to repeat one")
	steps     = flag.Int("equivalence.steps", 25, "how many requests a sequence has")
	without   = flag.String("equivalence.without", "", "a key that is left out of all objects, such as managedFields")
	itself    = flag.Bool("equivalence.itself", false, "compare the real server with a second real one, which tests the comparison")
)

func TestEquivalence(t *testing.T) {
	t.Parallel()
	real := judge(t, ownCluster(t, nil)) // without controllers: they would delete objects without owners
	var ours *endpoint
	if *itself {
		ours = judge(t, ownCluster(t, nil))
		for i := range 37 { // so that the versions differ
			ours.mustSend(t, &request{method: "POST", path: "/api/v1/namespaces/default/configmaps", contentType: "application/json",
				body: fmt.Sprintf(`{"metadata": {"name": "ballast-%d"}}`, i)})
		}
	} else {
		ours = embedded(t)
	}
	for _, server := range []*endpoint{real, ours} {
		server.prepare(t)
	}
	found := &differences{byKey: map[string][]*difference{}}
	var group sync.WaitGroup
	next := make(chan uint64)
	for range 4 {
		group.Go(func() {
			for seed := range next {
				compareSeed(t, seed, real, ours, found)
			}
		})
	}
	last := *firstSeed + givenOr(*seeds, 100, 1000)
	for seed := *firstSeed; seed < last; seed++ {
		next <- seed
	}
	close(next)
	group.Wait()
	found.report(t)
}

// endpoint is one of the servers.
type endpoint struct {
	name   string
	url    string
	client *http.Client
}

func judge(t *testing.T, c *cluster.Cluster) *endpoint {
	t.Helper()
	return &endpoint{name: "kube-apiserver", url: c.URL(), client: c.HTTPClient()}
}

// request is one request of a sequence. Its path and body contain {placeholders} for values that differ between the servers.
type request struct {
	what        string // describes the kind of request in reports
	method      string
	path        string
	contentType string
	accept      string
	body        string
}

func (r *request) String() string {
	text := r.method + " " + r.path
	if r.accept != "" {
		text += "\n    Accept: " + r.accept
	}
	if r.contentType != "" {
		text += "\n    Content-Type: " + r.contentType
	}
	if r.body != "" {
		text += "\n    " + r.body
	}
	return text
}

// response has the compared parts.
type response struct {
	Code        int
	ContentType string
	Warnings    []string
	Body        any // normalized JSON, a list of it for watches, or text
}

// send sends one request. It reads a watch to its end.
func (e *endpoint) send(ctx context.Context, r *request, seen *sightings) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, e.url+seen.fill(r.path), strings.NewReader(seen.fill(r.body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "equivalence/1.0")
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	got := &response{Code: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Warnings: resp.Header.Values("Warning")}
	got.Body = seen.normalise(data)
	return got, nil
}

// prepare creates the kinds of the sequences.
func (e *endpoint) prepare(t *testing.T) {
	t.Helper()
	for _, definition := range definitions {
		e.mustSend(t, &request{method: "POST", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", contentType: "application/json", body: definition})
	}
	for _, kind := range kinds {
		eventually(t, kind.plural+" are served by "+e.name, func() bool {
			got, err := e.send(t.Context(), &request{method: "GET", path: kind.collection("default")}, newSightings())
			return err == nil && got.Code == http.StatusOK
		})
	}
}

func (e *endpoint) mustSend(t *testing.T, r *request) *response {
	t.Helper()
	got, err := e.send(t.Context(), r, newSightings())
	if err != nil || got.Code >= 300 {
		t.Fatalf("%s: %s: %v %v", e.name, r, err, got)
	}
	return got
}

// attempts is the number of attempts of a sequence that must show a difference. A real server on a busy machine may answer from a cache that lags behind its
// store, or delay a request for too long. That does not happen at the same place in all attempts.
const attempts = 3

// compareSeed compares the results of a seed's sequence, in a new namespace for each attempt.
func compareSeed(t *testing.T, seed uint64, real, ours *endpoint, found *differences) {
	for attempt := 1; ; attempt++ {
		got := compareSequence(t.Context(), seed, attempt, real, ours)
		if attempt < attempts && !got.clean() {
			continue
		}
		if got.err != nil {
			t.Errorf("seed %d: %v", seed, got.err)
		}
		found.add(got)
		return
	}
}

// comparison is the result of one attempt of a sequence.
type comparison struct {
	requests int
	seen     []*difference
	err      error // of a request without a response
}

func (c *comparison) clean() bool {
	return c.err == nil && !slices.ContainsFunc(c.seen, func(d *difference) bool { return d.reason == "" })
}

// compareSequence sends the sequence of a seed to both servers until their responses differ.
func compareSequence(ctx context.Context, seed uint64, attempt int, real, ours *endpoint) *comparison {
	random := rand.New(rand.NewPCG(seed, 3))
	generator := newGenerator(random, fmt.Sprintf("eq-%d-%d", seed, attempt))
	seenReal, seenOurs := newSightings(), newSightings()
	found := &comparison{}
	var history []string
	for range *steps {
		r := generator.next()
		var want, got *response
		if want, got, found.err = sendToBoth(ctx, r, real, ours, seenReal, seenOurs); found.err != nil {
			return found
		}
		history = append(history, fmt.Sprintf("%s\n    → %d", r, want.Code))
		found.requests++
		if d := compareResponses(want, got); d != nil {
			d.describe(seed, r, history)
			found.seen = append(found.seen, d)
			if d.reason == "" || want.Code != got.Code {
				return found // the states of the servers differ from now on
			}
		}
	}
	return found
}

func sendToBoth(ctx context.Context, r *request, real, ours *endpoint, seenReal, seenOurs *sightings) (want, got *response, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var group sync.WaitGroup
	var wantErr, gotErr error
	group.Go(func() { want, wantErr = real.send(ctx, r, seenReal) })
	group.Go(func() { got, gotErr = ours.send(ctx, r, seenOurs) })
	group.Wait()
	if wantErr != nil {
		return nil, nil, fmt.Errorf("%s: %s: %w", real.name, r, wantErr)
	}
	if gotErr != nil {
		return nil, nil, fmt.Errorf("%s: %s: %w", ours.name, r, gotErr)
	}
	return want, got, nil
}

// difference is the first difference of two responses.
type difference struct {
	path      string // such as "body.metadata.managedFields[].manager"
	want, got any
	diff      string

	reason  string // the reason to accept it, "" if there is none
	key     string // the key for counting
	example string
}

func compareResponses(want, got *response) *difference {
	if cmp.Equal(want, got) {
		return nil
	}
	path, a, b := firstDifference("", asTree(want), asTree(got))
	return &difference{path: ordered.ReplaceAllString(path, ""), want: a, got: b, diff: cmp.Diff(want, got)}
}

// ordered matches keys with a rank: the most informative differences come first.
var ordered = regexp.MustCompile(`^\.\d `)

func asTree(r *response) any {
	warnings := []any{}
	for _, w := range r.Warnings {
		warnings = append(warnings, w)
	}
	return map[string]any{"1 code": r.Code, "2 content type": r.ContentType, "3 warnings": warnings, "4 body": r.Body}
}

// firstDifference returns the first place, by order of keys, where two trees differ.
func firstDifference(path string, want, got any) (string, any, any) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(union(w, g))) {
			if !cmp.Equal(w[key], g[key]) || has(w, key) != has(g, key) {
				if !has(w, key) {
					return path + "." + key, "(absent)", g[key]
				}
				if !has(g, key) {
					return path + "." + key, w[key], "(absent)"
				}
				return firstDifference(path+"."+key, w[key], g[key])
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		for i := range min(len(w), len(g)) {
			if !cmp.Equal(w[i], g[i]) {
				return firstDifference(path+"[]", w[i], g[i])
			}
		}
		return path + ".length", len(w), len(g)
	}
	return path, want, got
}

func union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func has(m map[string]any, key string) bool { _, ok := m[key]; return ok }

// describe sets the description of a difference.
func (d *difference) describe(seed uint64, r *request, history []string) {
	place := r.what + " " + d.path
	d.reason = knownReason(place, d)
	d.key = d.reason
	if d.reason == "" {
		got, want := short(fmt.Sprint(d.got), fmt.Sprint(d.want))
		d.key = fmt.Sprintf("%s: %s instead of %s", place, got, want)
	}
	last := history[max(0, len(history)-6):]
	d.example = fmt.Sprintf("seed %d, request %d:\n  %s\n  (-real +embedded)\n%s", seed, len(history), strings.Join(last, "\n  "), d.diff)
}

// differences has all differences.
type differences struct {
	mu       sync.Mutex // guards all below
	requests int
	byKey    map[string][]*difference
}

func (d *differences) add(c *comparison) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests += c.requests
	for _, one := range c.seen {
		d.byKey[one.key] = append(d.byKey[one.key], one)
	}
}

// short truncates two texts before their first difference.
func short(got, want string) (string, string) {
	same := 0
	for same < min(len(got), len(want)) && got[same] == want[same] {
		same++
	}
	cut := func(text string) string {
		text = text[max(0, same-30):]
		return text[:min(len(text), 100)]
	}
	return cut(got), cut(want)
}

func (d *differences) report(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	byFrequency := slices.SortedFunc(maps.Keys(d.byKey), func(a, b string) int { return len(d.byKey[b]) - len(d.byKey[a]) })
	for _, key := range byFrequency {
		if all := d.byKey[key]; all[0].reason != "" {
			t.Logf("known, %d times: %s", len(all), key)
		} else {
			t.Errorf("%d times: %s\n%s", len(all), key, all[0].example)
		}
	}
	t.Logf("%d requests were compared", d.requests)
}

// knownDifference is an intended difference between the embedded server and the real one.
type knownDifference struct {
	reason    string         // a sentence of docs/embedded-server.md
	place     *regexp.Regexp // of the request and of the difference
	want, got *regexp.Regexp // of the values; nil matches all
}

// worded is the reason for a different wording without any other difference.
const worded = "Messages about requests that cannot be parsed have different words."

// The order of the table has no meaning: no difference matches two entries.
var knownDifferences = []knownDifference{
	{
		reason: worded,
		place:  regexp.MustCompile(`^(list|watch|watch-list|delete collection)( as [a-z]+)? \w+ body\.message$`),
		want:   regexp.MustCompile(`^(unable to parse requirement: )?found '`),
		got:    regexp.MustCompile(`^unable to parse requirement: `),
	},
	{
		reason: worded,
		place:  regexp.MustCompile(`^list( as [a-z]+)? \w+ body\.message$`),
		want:   regexp.MustCompile(`^invalid continue token: continue key is not valid: `),
		got:    regexp.MustCompile(`^invalid continue token: continue key is not valid: `),
	},
	{
		reason: worded,
		place:  regexp.MustCompile(`^odd body \w+ body\.message$`),
		want:   regexp.MustCompile(`^the object provided is unrecognized \(must be of type \w+\): couldn't get version/kind; json parse error: `),
		got:    regexp.MustCompile(`^the object provided is unrecognized \(must be of type \w+\): (EOF|unexpected EOF|a JSON object is expected, not a list)$`),
	},
	{
		reason: worded,
		place:  regexp.MustCompile(`^odd body \w+ body\.message$`),
		want:   regexp.MustCompile(`^error decoding patch: unexpected end of JSON input$`),
		got:    regexp.MustCompile(`^error decoding patch: unexpected EOF$`),
	},
	{
		reason: worded,
		place:  regexp.MustCompile(` body\.(message|details\.causes\[\]\.message)$`),
		want:   regexp.MustCompile(`no kind "\w+" is registered for version "[\w./]+" in scheme "pkg/runtime/scheme\.go:\d+"$`),
		got:    regexp.MustCompile(`no kind "\w+" is registered for version "[\w./]+" in scheme$`),
	},
	{
		reason: worded,
		place:  regexp.MustCompile(`^strategic-patch ConfigMap body\.details\.causes\[\]\.message$`),
		want:   regexp.MustCompile(`^Invalid value: "map\[`),
		got:    regexp.MustCompile(`^Invalid value: \(object\): json: cannot unmarshal `),
	},
	{
		reason: "A bookmark in a table has empty cells, and no columns.",
		place:  regexp.MustCompile(`^watch-list as table \w+ body(\[\])?\.object\.columnDefinitions$`),
		want:   regexp.MustCompile(`^\[map\[`),
		got:    regexp.MustCompile(`^<nil>$`),
	},
	{
		reason: "Columns of tables have no descriptions except those of their CRDs.",
		place:  regexp.MustCompile(`^[-a-z ]+ as table \w+ body(\[\])?(\.object)?\.columnDefinitions\[\]\.description$`),
		want:   regexp.MustCompile(`^(Name must be unique within a namespace|CreationTimestamp is a timestamp|Custom resource definition column)`),
		got:    regexp.MustCompile(`^$`),
	},
}

func knownReason(key string, diff *difference) string {
	fits := func(pattern *regexp.Regexp, value any) bool {
		return pattern == nil || pattern.MatchString(fmt.Sprint(value))
	}
	for _, known := range knownDifferences {
		if fits(known.place, key) && fits(known.want, diff.want) && fits(known.got, diff.got) {
			return known.reason
		}
	}
	return ""
}

// TestKnownDifferences checks that all accepted differences are documented for users.
func TestKnownDifferences(t *testing.T) {
	page := strings.Join(strings.Fields(string(mustRead(t, "../docs/embedded-server.md"))), " ")
	for _, known := range knownDifferences {
		if !strings.Contains(page, known.reason) {
			t.Errorf("docs/embedded-server.md does not say: %s", known.reason)
		}
	}
	for command, reason := range knownOutputs {
		if !strings.Contains(page, reason) {
			t.Errorf("docs/embedded-server.md does not say, of kubectl %s: %s", command, reason)
		}
	}
}

// sightings are the values that one server has returned in one sequence, and the state to make them comparable.
type sightings struct {
	uids, versions map[string]string // the names of these values
	token          string            // of the last page
	objects        map[string]sighting
	start          string // the version of the first object
}

type sighting struct{ uid, first, version string }

func newSightings() *sightings {
	return &sightings{uids: map[string]string{}, versions: map[string]string{}, objects: map[string]sighting{}}
}

var placeholder = regexp.MustCompile(`\{(\w+)(?::([^{}:"]+:[^{}:"]+))?\}`)

// fill replaces the placeholders of a request: {uid:kind:name}, {version:kind:name}, {first:kind:name}, {token}.
func (s *sightings) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(match string) string {
		parts := placeholder.FindStringSubmatch(match)
		object := s.objects[parts[2]]
		switch parts[1] {
		case "uid":
			return or(object.uid, "00000000-0000-0000-0000-000000000000")
		case "version":
			return or(object.version, s.start)
		case "first":
			return or(object.first, s.start)
		case "token":
			return s.token
		}
		return match
	})
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

var (
	uidText  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timeText = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	ageText  = regexp.MustCompile(`^(\d+[smh])+$|^<invalid>$`)
	someName = regexp.MustCompile(`\bgen-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	// typedPatch is an error that contains a random selection of the reasons.
	typedPatch   = regexp.MustCompile(`(?s)(failed to create typed patch object \([^)]*\):) .*`)
	precondition = regexp.MustCompile(`(ResourceVersion in (?:the )?(?:precondition|record) \()\d+`)
	// quotedVersion is a version in an object in a message.
	quotedVersion = regexp.MustCompile(`"resourceVersion":"\d+"`)
	// quotedObject is an object in a message, whose keys have no particular order.
	quotedObject = regexp.MustCompile(`(patch: |^)Invalid value: "\{.*\}": `)
	// tooOld is an error with two versions of the server.
	tooOld = regexp.MustCompile(`(too old|Too large) resource version: \d+(?: \(\d+\)|, current: \d+)`)
)

// normalise makes the body of a response comparable.
func (s *sightings) normalise(data []byte) any {
	var values []any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for decoder.More() {
		var value any
		if decoder.Decode(&value) != nil {
			return s.text(string(data))
		}
		if event, ok := value.(map[string]any); ok && event["type"] == "BOOKMARK" && !strings.Contains(fmt.Sprint(event), "initial-events-end") {
			continue // their time is not determined
		}
		s.learn(value)
		values = append(values, s.value("", value))
	}
	if len(values) == 1 {
		return values[0]
	}
	return values
}

// learn keeps values for later requests.
func (s *sightings) learn(value any) {
	m, _ := value.(map[string]any)
	meta, _ := m["metadata"].(map[string]any)
	if _, list := m["items"]; list {
		s.token, _ = meta["continue"].(string)
		return
	}
	name, _ := meta["name"].(string)
	version, _ := meta["resourceVersion"].(string)
	kind, _ := m["kind"].(string)
	if name == "" || version == "" {
		return
	}
	uid, _ := meta["uid"].(string)
	s.start = or(s.start, version)
	key := kind + ":" + name
	object := s.objects[key]
	if object.uid != uid {
		object.first = version
	}
	object.uid, object.version = uid, version
	s.objects[key] = object
}

func (s *sightings) text(text string) string {
	text = uidText.ReplaceAllStringFunc(text, func(uid string) string { return name(s.uids, uid, "uid") })
	text = timeText.ReplaceAllStringFunc(text, func(moment string) string {
		if strings.Contains(moment, ".") {
			return "(moment)"
		}
		return "(time)"
	})
	text = someName.ReplaceAllStringFunc(text, func(random string) string { return name(s.uids, random, "gen") })
	text = quotedVersion.ReplaceAllString(text, `"resourceVersion":"(version)"`)
	text = quotedObject.ReplaceAllString(text, `${1}Invalid value: (object): `)
	text = tooOld.ReplaceAllString(text, "$1 resource version: (versions)")
	text = precondition.ReplaceAllString(text, "$1(version)")
	return typedPatch.ReplaceAllString(text, "$1 (why)")
}

func name(names map[string]string, value, prefix string) string {
	if names[value] == "" {
		names[value] = prefix + "-" + strconv.Itoa(len(names)+1)
	}
	return names[value]
}

func (s *sightings) value(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		_, list := v["items"]
		_, table := v["rows"]
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) { // so that the order is not random
			if k == *without {
				continue
			}
			if meta, ok := v[k].(map[string]any); ok && k == "metadata" && (list || table || meta["name"] == nil) {
				out[k] = s.listMeta(meta)
			} else {
				out[k] = s.value(k, v[k])
			}
		}
		if v["kind"] == "Status" {
			sortCauses(out)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = s.value(key, item)
		}
		if key == "managedFields" {
			sortManagers(out)
		}
		return out
	case string:
		switch {
		case key == "resourceVersion" && v != "":
			return name(s.versions, v, "version")
		case key == "cells" && ageText.MatchString(v):
			return "(age)"
		}
		return s.text(v)
	}
	return value
}

// sortManagers sorts the managers of fields without their times, which the servers may reach in different seconds.
func sortManagers(managers []any) {
	slices.SortStableFunc(managers, func(a, b any) int { return strings.Compare(managerOf(a), managerOf(b)) })
}

func managerOf(entry any) string {
	m, _ := entry.(map[string]any)
	return fmt.Sprint(m["manager"], m["operation"], m["subresource"], m["apiVersion"])
}

// sortCauses sorts the causes of an error, because the order of some comes from a map.
func sortCauses(status map[string]any) {
	details, _ := status["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	if len(causes) < 2 {
		return
	}
	slices.SortFunc(causes, func(a, b any) int { return strings.Compare(encode(a), encode(b)) })
	message, _ := status["message"].(string)
	if head, _, ok := strings.Cut(message, "is invalid: ["); ok {
		status["message"] = head + "is invalid: (the causes)"
	}
}

// listMeta normalizes the metadata of a list, whose version is that of the whole server.
func (s *sightings) listMeta(meta map[string]any) map[string]any {
	out := maps.Clone(meta)
	if out["resourceVersion"] != nil {
		out["resourceVersion"] = "(now)"
	}
	if token, _ := out["continue"].(string); token != "" {
		out["continue"] = "(token)"
	}
	return out
}
