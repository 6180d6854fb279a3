package essence

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestEssence(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"X","metadata":{"name":"a","uid":"u","labels":{"l":"1"},"annotations":{"kopf.zalando.org/x":"y","b":"c"}},"spec":{"x":1},"status":{"s":{"t":2},"u":3}}`
	part := func(path ...string) []byte {
		raw, _ := rawjson.Find([]byte(object), path...)
		return raw
	}
	source := &Source{Raw: []byte(object), Metadata: part("metadata"), Status: part("status"), Labels: part("metadata", "labels"), Annotations: part("metadata", "annotations")}
	for _, tt := range []struct {
		fields [][]string
		want   string
	}{
		{nil, `{"spec":{"x":1},"metadata":{"labels":{"l":"1"},"annotations":{"b":"c"}}}`},
		{[][]string{{}, {"status", "s"}, {"status", "none"}, {"kind"}}, `{"spec":{"x":1},"metadata":{"labels":{"l":"1"},"annotations":{"b":"c"}},"status":{"s":{"t":2}},"kind":"X"}`},
		{[][]string{{"metadata", "name"}, {"metadata", "resourceVersion"}}, `{"spec":{"x":1},"metadata":{"labels":{"l":"1"},"annotations":{"b":"c"},"name":"a"}}`},
	} {
		if got := string(Build(source, tt.fields).Text()); got != tt.want {
			t.Errorf("with %q: got %s, want %s", tt.fields, got, tt.want)
		}
	}
	if got := string(Build(&Source{Raw: []byte(`{"spec":{}}`)}, [][]string{{"status"}, {"metadata", "name"}}).Text()); got != `{"spec":{}}` {
		t.Errorf("of an object that has none of the fields: got %s", got)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`null`:                 `null`,
		" {\"a\": 1}\n":        `{"a":1}`,
		`{"b":"ü", "a":[1,2]}`: `{"b":"\u00fc","a":[1,2]}`,
	} {
		e, err := Parse([]byte(text))
		if err != nil || string(e.Text()) != want {
			t.Errorf("%s is read as %s, %v, want %s", text, e.Text(), err, want)
		}
	}
	for _, text := range []string{``, `{`, `[1]`, `"a"`, `{"a":1} x`} {
		if e, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is read as %s, want an error", text, e.Text())
		}
	}
}

func TestChanges(t *testing.T) {
	e := Of([]byte(`{"a":{"b":{"c":1}},"metadata":{"annotations":{"x":"1"}}}`))
	digest := e.Digest()
	if !e.Has("a") || e.Has("b") {
		t.Error("the stanzas are wrong")
	}
	e.Remove("a", "b", "c")
	e.DropAnnotations(func(key []byte) bool { return string(key) == "x" })
	e.DropEmpty()
	if got := string(e.Text()); got != `{}` || e.Digest() == digest {
		t.Errorf("got %s, with the digest %d, before it was %d", got, e.Digest(), digest)
	}
	if e.Set([]byte(`1`)) || !e.Set([]byte(`1`), "x", "y") || e.Set([]byte(`1`), "x", "y", "z") {
		t.Error("what can be set is wrong")
	}
	if diff := cmp.Diff(`{"x":{"y":1}}`, string(e.Text())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestDigests(t *testing.T) {
	var none *Essence
	if none.Digest() != 0 || StoredDigest(nil) != "" || none.Bytes() != nil || string(none.Text()) != "null" {
		t.Error("nothing has a digest or a text")
	}
	if a, b := StoredDigest([]byte(`{"a":"ü"}`)), StoredDigest([]byte(`{ "a" : "\u00fc" }`)); a != b || a == "" {
		t.Errorf("the digests are %s and %s, want the same", a, b)
	}
	a, b := Of([]byte(`{"a":1,"b":2}`)), Of([]byte(`{"b":2,"a":1}`))
	if a.SortedDigest() != b.SortedDigest() || a.Digest() == b.Digest() || !a.Equal(b) {
		t.Error("the order counts, or does not")
	}
	if a.Equal(none) || !none.Equal(nil) || !none.Equal(Of([]byte(`null`))) {
		t.Error("nil is equal to something else")
	}
}

func TestDiffersOnlyBy(t *testing.T) {
	tracked := func(fields ...string) Tracking { return NewTracking(fields, nil) }
	for _, tt := range []struct {
		before, after string
		then, now     Tracking
		want          bool
	}{
		{`{"spec":1}`, `{"spec":1,"status":{"a":1}}`, tracked(), tracked("status.a"), true},
		{`{"spec":1}`, `{"spec":2,"status":{"a":1}}`, tracked(), tracked("status.a"), false},
		{`{"spec":1,"status":{"a":1}}`, `{"spec":1}`, tracked("status.a"), tracked("status.a"), false},
		{`{"status":{"a":1}}`, `{"status":{"a":2,"b":1}}`, tracked("status.a"), tracked("status.a", "status"), false},
		{`{"status":{"a":1}}`, `{"status":{"a":1,"b":1}}`, tracked("status.a"), tracked("status.a", "status"), true},
	} {
		if got := Of([]byte(tt.before)).DiffersOnlyBy(tt.then, tt.now, Of([]byte(tt.after))); got != tt.want {
			t.Errorf("from %s by %v to %s by %v: got %t", tt.before, tt.then, tt.after, tt.now, got)
		}
	}
}
