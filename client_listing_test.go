package kopf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// readPage reads a page in pieces of a size, and returns its items as they were taken.
func readPage(text []byte, size int) (items []string, p *listPage, err error) {
	p = &listPage{handle: func(o *rawjson.Header, raw []byte) bool {
		items = append(items, string(raw[:o.End]))
		return true
	}}
	return items, p, p.read(&pieces{text, max(size, 1)})
}

func TestListPage(t *testing.T) {
	large := `{"metadata":{"name":"l"},"data":"` + strings.Repeat("x", 3*pageBuffer) + `"}`
	tests := []struct {
		name, text    string
		items         []string
		version, next string
	}{
		{"the metadata first", `{"kind":"List","metadata":{"resourceVersion":"7","continue":"c"},"items":[{"a":1},{"b":2}]}`, []string{`{"a":1}`, `{"b":2}`}, "7", "c"},
		{"the metadata last", ` { "items" : [ {"a":[1,{}]} , {} ] , "metadata" : {"resourceVersion":"7"} } `, []string{`{"a":[1,{}]}`, `{}`}, "7", ""},
		{"no items", `{"items":null,"metadata":{}}`, nil, "", ""},
		{"an empty list", `{"items":[],"metadata":{"x":1.5}}`, nil, "", ""},
		{"an item that is larger than the buffer", `{"items":[` + large + `,{"a":1}],"metadata":{"resourceVersion":"8"}}`, []string{large, `{"a":1}`}, "8", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 100, 1 << 20} {
				items, p, err := readPage([]byte(tt.text), size)
				if err != nil || !cmp.Equal(items, tt.items) || p.version != tt.version || p.next != tt.next {
					t.Errorf("in pieces of %d: %.200q, %q, %q, %v", size, items, p.version, p.next, err)
				}
			}
		})
	}
	t.Run("AC-113 a page that breaks off anywhere is no page", func(t *testing.T) {
		text := tests[1].text
		for n := range strings.LastIndexByte(text, '}') {
			if _, _, err := readPage([]byte(text[:n]), 5); err == nil {
				t.Errorf("%q is read without an error", text[:n])
			}
		}
	})
	for _, text := range []string{"<html>", "[]", "{}", `{"items":5}`, `{"items":"x"}`, `{"items":[1]}`, `{"items":[{}{}]}`, `{"items" [{}]}`, `{5:[{}]}`, `{"items":[{}],]`} {
		t.Run(text, func(t *testing.T) {
			if _, _, err := readPage([]byte(text), 3); !errors.Is(err, errUnreadable) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// FuzzListPage holds the reading of pages, in pieces of any size, against package encoding/json, which reads them as a whole.
func FuzzListPage(f *testing.F) {
	f.Add([]byte(`{"items":[{"metadata":{"name":"a"}},{"a":"\"}"}],"metadata":{"resourceVersion":"7","continue":"x"}}`), 3)
	f.Add([]byte(`{"metadata":null,"items":null}`), 1)
	f.Add([]byte(`{"\u0069tems":[{}] , "x":[[],{}]}`), 7)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		items, p, err := readPage(text, size)
		var list map[string]json.RawMessage
		var want []json.RawMessage
		if json.Unmarshal(text, &list) != nil || !utf8.Valid(text) || bytes.Count(text, []byte("tem")) > 1 || bytes.Count(text, []byte("meta")) > 1 {
			return // of what is no JSON, or says a thing twice, nothing is demanded but to survive it
		}
		if list["items"] == nil || json.Unmarshal(list["items"], &want) != nil {
			if err == nil && list["items"] == nil {
				t.Fatalf("%q has no items, and is read as %q", text, items)
			}
			return
		}
		for _, item := range want {
			if item[0] != '{' {
				return
			}
		}
		if err != nil || len(items) != len(want) {
			t.Fatalf("%q gives %q and %v, want %q", text, items, err, want)
		}
		for i, item := range want {
			if items[i] != string(item) {
				t.Errorf("item %d is %q, want %q", i, items[i], item)
			}
		}
		if meta := (View{raw: list["metadata"]}); p.version != meta.text("resourceVersion") || p.next != meta.text("continue") {
			t.Errorf("%q gives the version %q and the token %q", text, p.version, p.next)
		}
	})
}

// text returns a value if it is a string.
func (v View) text(key string) string {
	s, _ := v.Get(FieldPath(key)).(string)
	return s
}

// FuzzOutline holds the outlines of objects, which are found in one pass, against what is found by looking for each part by itself.
func FuzzOutline(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","labels":{"a":"b"},"deletionTimestamp":null},"spec":{"x":[1,"\"]"]},"status":{}}`))
	f.Add([]byte(`{"metadata":{"name":"a"},"metadata":{"uid":"b"},"m\u0065tadata":null} `))
	f.Add([]byte(`{"kind":5,"metadata":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.TrimSpace(text)
		var o rawjson.Header
		err := o.Scan(text)
		if !json.Valid(text) || !utf8.Valid(text) || text[0] != '{' {
			if err == nil && o.End > len(text) {
				t.Fatalf("%q ends at %d", text, o.End)
			}
			return
		}
		if err != nil || o.End != len(text) {
			t.Fatalf("%q: %v, and the end is %d", text, err, o.End)
		}
		for cut := range text {
			if err := o.Scan(text[:cut]); !errors.Is(err, rawjson.ErrTruncated) && cut > 0 {
				t.Fatalf("%q: got %v, want %v", text[:cut], err, rawjson.ErrTruncated)
			}
		}
		b, err := ParseBody(text)
		if err != nil {
			t.Fatal(err)
		}
		whole, _ := rawjson.Find(text, "metadata")
		for _, part := range []struct {
			path []string
			got  string
		}{
			{[]string{"apiVersion"}, b.apiVersion}, {[]string{"kind"}, b.kind}, {[]string{"metadata", "name"}, b.name},
			{[]string{"metadata", "namespace"}, b.namespace}, {[]string{"metadata", "uid"}, b.uid}, {[]string{"metadata", "resourceVersion"}, b.version},
		} {
			if want := rawjson.StringAt(text, part.path...); part.got != want {
				t.Errorf("%q: %q is %q, want %q", text, part.path, part.got, want)
			}
		}
		for _, part := range []struct {
			path []string
			got  []byte
		}{{[]string{"status"}, b.status}, {[]string{"metadata", "labels"}, b.labels}, {[]string{"metadata", "annotations"}, b.annotations}, {[]string{"metadata", "finalizers"}, b.finalizers}} {
			if want, _ := rawjson.Find(text, part.path...); !bytes.Equal(part.got, want) {
				t.Errorf("%q: %q is %q, want %q", text, part.path, part.got, want)
			}
		}
		if deletion, _ := rawjson.Find(whole, "deletionTimestamp"); b.deleting == rawjson.IsNull(deletion) {
			t.Errorf("%q: deleting is %t", text, b.deleting)
		}
	})
}

func BenchmarkList(b *testing.B) {
	item := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","resourceVersion":"1"},"data":%q}`, strings.Repeat("x", 2<<10))
	text := []byte(`{"metadata":{"resourceVersion":"9"},"items":[` + strings.Repeat(item+",", 999) + item + `]}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		page := &listPage{handle: func(*rawjson.Header, []byte) bool { return true }}
		if err := page.read(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
