package kopf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/progressrecord"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// mustBody makes a body from JSON; "" and null are none.
func mustBody(t testing.TB, text string) *Body {
	t.Helper()
	if text == "" || text == "null" {
		return nil
	}
	b, err := ParseBody([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return b
}

func merged(p *Patch) map[string]any {
	m := p.Map()
	if m == nil {
		m = map[string]any{}
	}
	return m
}

func TestAnnotationKeys(t *testing.T) {
	type row struct {
		Prefix, ID string
		Body       json.RawMessage
		V1, V2     string
		Keys       []string `json:"keys_in_reading_order"`
		KeysV2Only []string `json:"keys_with_v1_disabled"`
	}
	rows := golden[row](t, "annotation_keys")
	// The rows of each statement prove it.
	check := func(name string, about func(r row) bool) {
		t.Run(name, func(t *testing.T) {
			n := 0
			for _, r := range rows {
				if !about(r) {
					continue
				}
				n++
				got := annotationKeys(r.Prefix, r.ID, mustBody(t, string(r.Body)), false)
				if diff := cmp.Diff(r.Keys, got); diff != "" {
					t.Errorf("%s of %q: (-want +got)\n%s", r.ID, r.Prefix, diff)
				}
				if got[0] != r.V2 || got[len(got)-1] != r.V1 {
					t.Errorf("%s of %q: %q, want %s before %s", r.ID, r.Prefix, got, r.V2, r.V1)
				}
			}
			if n == 0 {
				t.Error("there are no golden rows")
			}
		})
	}
	available := func(r row) int { return 63 - len(r.Prefix) - 1 }
	check("CH-129 two versions, or one key if they are the same", func(r row) bool { return true })
	check("CH-130 characters replaced", func(r row) bool { return strings.ContainsAny(r.ID, "/<>") && r.V1 == r.V2 })
	check("CH-132 the second version", func(r row) bool { return len(r.ID) > 63 })
	check("CH-133 the first version", func(r row) bool { return available(r) >= 7 && len(r.ID) > available(r) })
	check("CH-134 long prefixes", func(r row) bool { return available(r) < 7 })
	check("CH-135 replica sets of deployments", func(r row) bool { return string(r.Body) != "null" })
	t.Run("CH-138 without the first version", func(t *testing.T) {
		for _, r := range rows {
			got := annotationKeys(r.Prefix, r.ID, mustBody(t, string(r.Body)), true)
			if diff := cmp.Diff(r.KeysV2Only, got); diff != "" {
				t.Errorf("%s of %q: (-want +got)\n%s", r.ID, r.Prefix, diff)
			}
		}
	})
	t.Run("lengths are in characters", func(t *testing.T) {
		for _, n := range []int{46, 47, 63, 64} {
			ascii := annotationKeys("", strings.Repeat("x", n), nil, false)
			wide := annotationKeys("", strings.Repeat("ž", n), nil, false)
			for i := range ascii {
				if a, b := len([]rune(ascii[i])), len([]rune(wide[i])); a != b || len(ascii) != len(wide) {
					t.Errorf("%d characters: %q and %q", n, ascii, wide)
				}
			}
		}
	})
}

func TestPrefixes(t *testing.T) {
	t.Run("CH-137 long prefixes", func(t *testing.T) {
		for _, tt := range []struct {
			length int
			want   bool
		}{{0, false}, {189, false}, {190, true}} {
			prefix := strings.Repeat("x", tt.length)
			for _, p := range []PersistenceSettings{
				{ProgressStorage: &SmartProgressStorage{Prefix: prefix}},
				{ProgressStorage: MultiProgressStorage{&AnnotationsProgressStorage{Prefix: prefix}, &StatusProgressStorage{}}},
				{DiffBaseStorage: &AnnotationsDiffBaseStorage{Prefix: prefix}},
				{DiffBaseStorage: MultiDiffBaseStorage{&StatusDiffBaseStorage{}, &AnnotationsDiffBaseStorage{Prefix: prefix}}},
				{ProgressStorage: &SmartProgressStorage{Prefix: prefix}, DiffBaseStorage: &AnnotationsDiffBaseStorage{Prefix: prefix}},
			} {
				p.Finalizer = "example.com/finalizer"
				long := func(warning string) bool { return strings.Contains(warning, "is longer than") }
				if got := p.checked().Warnings(); slices.ContainsFunc(got, long) != tt.want {
					t.Errorf("%d characters: %q, want a warning of the length: %t", tt.length, got, tt.want)
				}
			}
		}
	})
}

func TestHashSuffix(t *testing.T) {
	t.Run("CH-131 hash suffix", func(t *testing.T) {
		for _, r := range golden[struct{ Text, Suffix string }](t, "suffixes") {
			if got := markers.HashSuffix(r.Text); got != r.Suffix {
				t.Errorf("hashSuffix(%q) = %q, want %q", r.Text, got, r.Suffix)
			}
		}
	})
}

var (
	started = time.Date(2020, 12, 31, 23, 59, 59, 123456789, time.UTC)
	delayed = time.Date(2021, 1, 1, 0, 0, 59, 123456000, time.UTC)
	notYet  = "not yet"
)

func retried() *ProgressRecord {
	return &ProgressRecord{Started: started, Delayed: delayed, Purpose: ReasonCreate, Retries: 1, Message: &notYet}
}

func TestProgressStoredForm(t *testing.T) {
	storages := map[string]ProgressStorage{
		"smart (defaults)":                       &SmartProgressStorage{},
		"annotations(prefix=my-op.example.com)":  &AnnotationsProgressStorage{Prefix: "my-op.example.com"},
		"annotations(verbose)":                   &AnnotationsProgressStorage{Verbose: true},
		"annotations, long id: v2 first then v1": &AnnotationsProgressStorage{},
		"annotations(v1=false), long id":         &AnnotationsProgressStorage{V2Only: true},
		"status (defaults)":                      &StatusProgressStorage{},
		"status(name=my-op)":                     &StatusProgressStorage{Name: "my-op"},
	}
	ids := map[string]string{
		"smart (defaults)":                       "CH-141 golden",
		"annotations(prefix=my-op.example.com)":  "CH-136 golden",
		"annotations(verbose)":                   "CH-139 golden",
		"annotations, long id: v2 first then v1": "CH-129 golden",
		"annotations(v1=false), long id":         "CH-138 golden",
		"status (defaults)":                      "CH-140 golden",
		"status(name=my-op)":                     "CH-140 golden",
	}
	for _, r := range golden[struct {
		Storage string
		Key     HandlerID
		Patch   map[string]any `json:"patch (bytes)"`
	}](t, "progress_stored_form") {
		t.Run(ids[r.Storage]+": "+r.Storage, func(t *testing.T) {
			s, b, p := storages[r.Storage], mustBody(t, `{"metadata":{}}`), &Patch{}
			s.Store(r.Key, retried(), b, p)
			want, _ := rawjson.Normalize(r.Patch)
			if diff := cmp.Diff(want, any(merged(p))); diff != "" {
				t.Fatalf("(-want +got)\n%s", diff)
			}
			stored, err := NewBody(rawjson.Merge(b.Map(), any(p.Map())))
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Fetch(r.Key, stored)
			if err != nil || got == nil {
				t.Fatalf("what was stored is read as %v, %v", got, err)
			}
			if diff := cmp.Diff(retried().members(true), got.members(true), cmp.AllowUnexported(progressrecord.Member{})); diff != "" {
				t.Errorf("what was stored is read as (-want +got)\n%s", diff)
			}
			if got, err := s.Fetch("other", stored); got != nil || err != nil {
				t.Errorf("another id is read as %v, %v", got, err)
			}
		})
	}
}

func TestProgressRecord(t *testing.T) {
	text := func(r *ProgressRecord) string {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	t.Run("CH-119 keys in their order", func(t *testing.T) {
		empty := ""
		r := &ProgressRecord{Started: started, Stopped: delayed, Delayed: delayed, Purpose: ReasonUpdate, Retries: 3,
			Success: true, Failure: true, Message: &empty, Subrefs: []string{"b", "a"}}
		want := `{"started":"2020-12-31T23:59:59.123456+00:00","stopped":"2021-01-01T00:00:59.123456+00:00",` +
			`"delayed":"2021-01-01T00:00:59.123456+00:00","purpose":"update","retries":3,"success":true,"failure":true,` +
			`"message":"","subrefs":["a","b"]}`
		if got := text(r); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if diff := cmp.Diff([]string{"b", "a"}, r.Subrefs); diff != "" {
			t.Errorf("marshalling has changed the record: %s", diff)
		}
		again := &ProgressRecord{}
		if err := json.Unmarshal([]byte(strings.Replace(want, "{", `{"unknown":[1],`, 1)), again); err != nil || text(again) != want {
			t.Errorf("read and written again: %s, %v, want %s", text(again), err, want)
		}
	})
	t.Run("CH-120 times in UTC with microseconds", func(t *testing.T) {
		zone := time.FixedZone("", 2*3600)
		got := text(&ProgressRecord{Started: time.Date(2021, 1, 1, 1, 0, 0, 0, zone)})
		if want := `{"started":"2020-12-31T23:00:00.000000+00:00","retries":0,"success":false,"failure":false}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("CH-122 zeros and falses are written", func(t *testing.T) {
		if got, want := text(&ProgressRecord{}), `{"retries":0,"success":false,"failure":false}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("CH-123 missing keys", func(t *testing.T) {
		for _, missing := range []string{`{}`, `{"started":null,"stopped":null,"delayed":null,"purpose":null,"retries":null,` +
			`"success":null,"failure":null,"message":null,"subrefs":null}`, `{"purpose":"","subrefs":[]}`} {
			r := &ProgressRecord{}
			if err := json.Unmarshal([]byte(missing), r); err != nil {
				t.Fatal(err)
			}
			if want := (&ProgressRecord{}); text(r) != text(want) || r.finished() || r.Message != nil {
				t.Errorf("%s is read as %s", missing, text(r))
			}
		}
		if !(&ProgressRecord{Success: true}).finished() || !(&ProgressRecord{Failure: true}).finished() {
			t.Error("success and failure mean finished")
		}
	})
	t.Run("CH-126 changed", func(t *testing.T) {
		const stored = `{"started":"2020-12-31T23:59:59.123456+00:00","purpose":"create","retries":1,"success":false,"failure":false}`
		tests := []struct {
			stored string
			want   bool
		}{
			{stored, false},
			{` {"failure":false,"success":false,"retries":1,"purpose":"create","started":"2020-12-31T23:59:59.123456+00:00"}`, false},
			{strings.Replace(stored, "+00:00", "Z", 1), true},
			{strings.Replace(stored, `,"failure":false`, "", 1), true},
			{strings.Replace(stored, "{", `{"extra":1,`, 1), true},
			{strings.Replace(stored, "{", `{"message":null,`, 1), true},
		}
		for _, tt := range tests {
			r := &ProgressRecord{}
			if err := json.Unmarshal([]byte(tt.stored), r); err != nil {
				t.Fatal(err)
			}
			if got := r.changed(); got != tt.want {
				t.Errorf("%s: changed is %t", tt.stored, got)
			}
			r.Retries++
			if !r.changed() {
				t.Errorf("%s: not changed by another attempt", tt.stored)
			}
		}
		if !(&ProgressRecord{}).changed() {
			t.Error("a new record does not count as changed")
		}
	})
	t.Run("CH-128 messages of any length", func(t *testing.T) {
		long := strings.Repeat("ž", 100_000)
		r := &ProgressRecord{}
		if err := json.Unmarshal([]byte(text(&ProgressRecord{Message: &long})), r); err != nil || *r.Message != long {
			t.Errorf("a long message does not survive: %v", err)
		}
	})
	t.Run("CH-T21 damaged records", func(t *testing.T) {
		for _, bad := range []string{`[]`, `"x"`, `1`, `{`, `{"started":"yesterday"}`, `{"delayed":1}`, `{"retries":"1"}`, `{"retries":1.5}`,
			`{"retries":-1}`, `{"success":1}`, `{"message":{}}`, `{"subrefs":"x"}`, `{"subrefs":[1]}`, `{"purpose":[]}`} {
			for name, s := range map[string]ProgressStorage{"annotations": &SmartProgressStorage{}, "status": &StatusProgressStorage{}} {
				annotation, _ := json.Marshal(bad)
				b := mustBody(t, `{"metadata":{"annotations":{"kopf.zalando.org/fn":`+string(annotation)+`}}}`)
				if name == "status" {
					if !json.Valid([]byte(bad)) {
						continue
					}
					b = mustBody(t, `{"metadata":{},"status":{"kopf":{"progress":{"fn":`+bad+`}}}}`)
				}
				if r, err := s.Fetch("fn", b); r != nil || err == nil {
					t.Errorf("%s in %s: %v, %v, want an error", bad, name, r, err)
				} else if !strings.Contains(err.Error(), "fn") {
					t.Errorf("%s in %s: %q does not say where", bad, name, err)
				}
			}
		}
	})
}

// record returns a record with the number of attempts, as the value of an annotation.
func record(retries int) string { return fmt.Sprintf(`"{\"retries\":%d}"`, retries) }

func TestProgressFetch(t *testing.T) {
	long := strings.Repeat("x", 70)
	keys := annotationKeys("", long, nil, false)
	both := &MultiProgressStorage{&StatusProgressStorage{}, &AnnotationsProgressStorage{}}
	tests := []struct {
		name    string
		storage ProgressStorage
		body    string
		want    int // attempts, -1 is no record
	}{
		{"CH-143 the second version first", &SmartProgressStorage{}, annotated(keys[0], record(2), keys[1], record(1)), 2},
		{"CH-143 then the first version", &SmartProgressStorage{}, annotated(keys[1], record(1)), 1},
		{"CH-143 a null is passed over", &SmartProgressStorage{}, annotated(keys[0], `"null"`, keys[1], record(1)), 1},
		{"CH-138 not the first version", &SmartProgressStorage{V2Only: true}, annotated(keys[1], record(1)), -1},
		{"CH-141 the status as a fallback", &SmartProgressStorage{}, `{"metadata":{},"status":{"kopf":{"progress":{"` + long + `":{"retries":7}}}}}`, 7},
		{"CH-141 the one that is further on, in annotations", &SmartProgressStorage{inStatus: true},
			`{"metadata":{"annotations":{"` + keys[0] + `":` + record(2) + `}},"status":{"kopf":{"progress":{"` + long + `":{"retries":1}}}}}`, 2},
		{"CH-141 the one that is further on, in the status", &SmartProgressStorage{},
			`{"metadata":{"annotations":{"` + keys[0] + `":` + record(2) + `}},"status":{"kopf":{"progress":{"` + long + `":{"retries":7}}}}}`, 7},
		{"CH-141 the one that has begun later", &SmartProgressStorage{},
			`{"metadata":{"annotations":{"` + keys[0] + `":"{\"started\":\"2020-01-02T00:00:00\",\"retries\":2}"}},"status":{"kopf":{"progress":{"` + long + `":{"started":"2020-01-01T00:00:00","success":true,"retries":7}}}}}`, 2},
		{"CH-141 only the one next to the state that counts", &SmartProgressStorage{states: &SmartDiffBaseStorage{}},
			`{"metadata":{"annotations":{"kopf.zalando.org/last-handled-configuration":"{\"spec\":1}"}},"status":{"kopf":{"last-handled-configuration":"{}","progress":{"` + long + `":{"retries":7}}}}}`, -1},
		{"CH-141 either one next to the same state", &SmartProgressStorage{states: &SmartDiffBaseStorage{}},
			`{"metadata":{"annotations":{"kopf.zalando.org/last-handled-configuration":"{\"spec\":1}"}},"status":{"kopf":{"last-handled-configuration":"{\"spec\": 1}","progress":{"` + long + `":{"retries":7}}}}}`, 7},
		{"CH-142 the first that has one", both,
			`{"metadata":{"annotations":{"` + keys[0] + `":` + record(2) + `}},"status":{"kopf":{"progress":{"` + long + `":{"retries":7}}}}}`, 7},
		{"CH-142 then the next", both, annotated(keys[0], record(2)), 2},
		{"CH-T21 a damaged one is passed over", &SmartProgressStorage{}, annotated(keys[0], `"[]"`, keys[1], record(1)), 1},
		{"CH-T21 a status that is none", &StatusProgressStorage{}, `{"metadata":{},"status":"x"}`, -1},
		{"nothing", both, `{"metadata":{}}`, -1},
		{"null in the status", both, `{"metadata":{},"status":{"kopf":{"progress":{"` + long + `":null}}}}`, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.storage.Fetch(HandlerID(long), mustBody(t, tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if retries := -1; got == nil && tt.want != retries || got != nil && got.Retries != tt.want {
				t.Errorf("got %v, want %d attempts", got, tt.want)
			}
		})
	}
}

// annotated returns a body with annotations, given as keys and quoted values.
func annotated(pairs ...string) string {
	var b strings.Builder
	b.WriteString(`{"metadata":{"annotations":{`)
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", pairs[i], pairs[i+1])
	}
	return b.String() + `}}}`
}

func TestProgressChanges(t *testing.T) {
	long := HandlerID(strings.Repeat("x", 70))
	keys := annotationKeys("", string(long), nil, false)
	touched := `{"metadata":{"annotations":{"kopf.zalando.org/touch-dummy":"now"}},"status":{"kopf":{"dummy":"now"}}}`
	status := `{"metadata":{},"status":{"kopf":{"progress":{"fn":{}}}}}`
	both := MultiProgressStorage{&AnnotationsProgressStorage{}, &StatusProgressStorage{}}
	store := func(id HandlerID) func(s ProgressStorage, b *Body, p *Patch) {
		return func(s ProgressStorage, b *Body, p *Patch) { s.Store(id, &ProgressRecord{}, b, p) }
	}
	purge := func(id HandlerID) func(s ProgressStorage, b *Body, p *Patch) {
		return func(s ProgressStorage, b *Body, p *Patch) { s.Purge(id, b, p) }
	}
	touch := func(value string) func(s ProgressStorage, b *Body, p *Patch) {
		return func(s ProgressStorage, b *Body, p *Patch) { s.Touch(value, b, p) }
	}
	type steps = []func(s ProgressStorage, b *Body, p *Patch)
	tests := []struct {
		name    string
		storage ProgressStorage
		body    string
		steps   steps
		want    string
	}{
		{"CH-144 both versions of keys", &SmartProgressStorage{}, annotated(keys[0], record(1), keys[1], record(1)), steps{purge(long)},
			`{"metadata":{"annotations":{"` + keys[0] + `":null,"` + keys[1] + `":null}}}`},
		{"CH-144 what is absent is not mentioned", &SmartProgressStorage{}, annotated(keys[1], record(1)), steps{purge(long), purge("fn")},
			`{"metadata":{"annotations":{"` + keys[1] + `":null}}}`},
		{"CH-144 taken out of the patch", both, `{}`, steps{store("fn"), purge("fn")}, `{}`},
		{"CH-144 stored again over a purge", &SmartProgressStorage{}, annotated("kopf.zalando.org/fn", record(1)), steps{purge("fn"), store("fn")},
			`{"metadata":{"annotations":{"kopf.zalando.org/fn":"{\"retries\":0,\"success\":false,\"failure\":false}"}}}`},
		{"CH-141 the status is purged", &SmartProgressStorage{}, status, steps{purge("fn")}, `{"status":{"kopf":{"progress":{"fn":null}}}}`},
		{"CH-141 the status is not written", &SmartProgressStorage{}, status, steps{store("fn"), touch("now")},
			`{"metadata":{"annotations":{"kopf.zalando.org/fn":"{\"retries\":0,\"success\":false,\"failure\":false}","kopf.zalando.org/touch-dummy":"now"}}}`},
		{"CH-142 all are written", both, `{}`, steps{store("fn")},
			`{"metadata":{"annotations":{"kopf.zalando.org/fn":"{\"retries\":0,\"success\":false,\"failure\":false}"}},` +
				`"status":{"kopf":{"progress":{"fn":{"started":null,"stopped":null,"delayed":null,"purpose":null,"retries":0,"success":false,"failure":false,"message":null,"subrefs":null}}}}}`},
		{"CH-142 all are purged", both, `{"metadata":{"annotations":{"kopf.zalando.org/fn":"{}"}},"status":{"kopf":{"progress":{"fn":{}}}}}`, steps{purge("fn")},
			`{"metadata":{"annotations":{"kopf.zalando.org/fn":null}},"status":{"kopf":{"progress":{"fn":null}}}}`},
		{"CH-142 all are touched", both, `{}`, steps{touch("now")},
			`{"metadata":{"annotations":{"kopf.zalando.org/touch-dummy":"now"}},"status":{"kopf":{"dummy":"now"}}}`},
		{"CH-145 touched before", both, touched, steps{touch("now")}, `{}`},
		{"CH-145 touched anew", both, touched, steps{touch("later")},
			`{"metadata":{"annotations":{"kopf.zalando.org/touch-dummy":"later"}},"status":{"kopf":{"dummy":"later"}}}`},
		{"CH-145 untouched", both, touched, steps{touch("")},
			`{"metadata":{"annotations":{"kopf.zalando.org/touch-dummy":null}},"status":{"kopf":{"dummy":null}}}`},
		{"CH-145 nothing to untouch", both, `{}`, steps{touch("")}, `{}`},
		{"CH-145 an own touch key", &SmartProgressStorage{TouchKey: "x"}, `{}`, steps{touch("now")}, `{"metadata":{"annotations":{"kopf.zalando.org/x":"now"}}}`},
		{"CH-140 own fields", &StatusProgressStorage{Field: "status.a", TouchField: `status.b\.c`}, `{"status":{"a":{"fn/x":{}}}}`, steps{purge("fn/x"), touch("now")},
			`{"status":{"a":{"fn/x":null},"b.c":"now"}}`},
		{"CH-136 marked with a touch", &SmartProgressStorage{Prefix: "op.example.com"}, `{}`, steps{touch("now")},
			`{"metadata":{"annotations":{"op.example.com/touch-dummy":"now","op.example.com/kopf-managed":"yes"}}}`},
		{"CH-136 marked already", &SmartProgressStorage{Prefix: "op.example.com"}, annotated("op.example.com/kopf-managed", `"x"`), steps{touch("now")},
			`{"metadata":{"annotations":{"op.example.com/touch-dummy":"now"}}}`},
		{"CH-136 no mark for kopf.", &SmartProgressStorage{Prefix: "kopf.example.com"}, `{}`, steps{touch("now")},
			`{"metadata":{"annotations":{"kopf.example.com/touch-dummy":"now"}}}`},
		{"CH-135 replica sets", &SmartProgressStorage{}, `{"kind":"ReplicaSet","metadata":{"ownerReferences":[{"kind":"X"},{"kind":"Deployment"}],"annotations":{"kopf.zalando.org/fn":"{}"}}}`,
			steps{purge("fn"), touch("now")}, `{"metadata":{"annotations":{"kopf.zalando.org/touch-dummy-ofDRS":"now"}}}`},
		{"CH-T49 a null in the way", both, `{}`, steps{func(_ ProgressStorage, _ *Body, p *Patch) { p.Set("metadata.annotations", nil); p.Set("status", nil) }, touch("now")},
			`{"metadata":{"annotations":{"kopf.zalando.org/touch-dummy":"now"}},"status":{"kopf":{"dummy":"now"}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &Patch{}
			for _, step := range tt.steps {
				step(tt.storage, mustBody(t, tt.body), p)
			}
			tt.storage.Flush()
			if diff := cmp.Diff(mustObject(t, tt.want), merged(p)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
