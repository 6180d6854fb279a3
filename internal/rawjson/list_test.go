package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// readPage reads a page in pieces of a size, and returns the items passed to Take.
func readPage(text []byte, size int) (items []string, p *ListPage, err error) {
	p = &ListPage{Take: func(o *Header, raw []byte) error {
		items = append(items, string(raw[:o.End]))
		return nil
	}}
	return items, p, p.Read(&pieces{text, max(size, 1)})
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
				if err != nil || !cmp.Equal(items, tt.items) || p.Version != tt.version || p.Next != tt.next {
					t.Errorf("in pieces of %d: %.200q, %q, %q, %v", size, items, p.Version, p.Next, err)
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
			if _, _, err := readPage([]byte(text), 3); !errors.Is(err, ErrUnreadable) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// FuzzListPage compares the reading of pages, in pieces of any size, with encoding/json, which reads a whole page.
func FuzzListPage(f *testing.F) {
	f.Add([]byte(`{"items":[{"metadata":{"name":"a"}},{"a":"\"}"}],"metadata":{"resourceVersion":"7","continue":"x"}}`), 3)
	f.Add([]byte(`{"metadata":null,"items":null}`), 1)
	f.Add([]byte(`{"\u0069tems":[{}] , "x":[[],{}]}`), 7)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		items, p, err := readPage(text, size)
		var list map[string]json.RawMessage
		var want []json.RawMessage
		if json.Unmarshal(text, &list) != nil || !utf8.Valid(text) || bytes.Count(text, []byte("tem")) > 1 || bytes.Count(text, []byte("meta")) > 1 {
			return // invalid JSON and duplicate keys must only not panic
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
		version, _ := ValueAt(list["metadata"], "resourceVersion").(string)
		next, _ := ValueAt(list["metadata"], "continue").(string)
		if p.Version != version || p.Next != next {
			t.Errorf("%q gives the version %q and the token %q", text, p.Version, p.Next)
		}
	})
}

func BenchmarkList(b *testing.B) {
	item := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","resourceVersion":"1"},"data":%q}`, strings.Repeat("x", 2<<10))
	text := []byte(`{"metadata":{"resourceVersion":"9"},"items":[` + strings.Repeat(item+",", 999) + item + `]}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		page := &ListPage{Take: func(*Header, []byte) error { return nil }}
		if err := page.Read(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}

// endless is a text without an end.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	if e.n == 0 {
		copy(p, `{"items":[{"a":"`)
	}
	e.n += len(p)
	return len(p), nil
}

func TestEndlessAnswers(t *testing.T) {
	for name, read := range map[string]func(io.Reader) error{
		"an event": func(r io.Reader) error { return ReadFrames(r, func([]byte) error { return nil }) },
		"an item":  func(r io.Reader) error { return (&ListPage{}).Read(r) },
	} {
		t.Run(name, func(t *testing.T) {
			e := &endless{}
			if err := read(e); !errors.Is(err, ErrUnreadable) {
				t.Errorf("got %v", err)
			}
			if e.n > 3*MaxObject {
				t.Errorf("%d bytes were read", e.n)
			}
		})
	}
}

// pieces reads a text in pieces.
type pieces struct {
	text []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.text)
	p.text = p.text[n:]
	return n, nil
}
