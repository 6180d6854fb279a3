package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// eventText returns a watch event.
func eventText(kind string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","resourceVersion":"11"}}}`+"\n", kind)
}

func TestFrames(t *testing.T) {
	t.Run("AC-89 lines of any length", testLongFrames)
	t.Run("AC-113 cut frames", func(t *testing.T) {
		for _, cut := range []string{"{", "{}\n{"} {
			if err := ReadFrames(strings.NewReader(cut), func([]byte) error { return nil }); !errors.Is(err, ErrBrokenFrame) {
				t.Errorf("%q gives %v", cut, err)
			}
		}
	})
}

func testLongFrames(t *testing.T) {
	long := `{"x":"` + strings.Repeat("é", 3<<20) + `"}`
	text := "\n" + long + "\n\r\n{}\n"
	var got []string
	err := ReadFrames(smallReads{strings.NewReader(text)}, func(line []byte) error {
		got = append(got, string(bytes.TrimSpace(line)))
		return nil
	})
	if err != nil || len(got) != 2 || got[0] != long || got[1] != "{}" {
		t.Errorf("%d frames, %v", len(got), err)
	}
}

// smallReads reads in small pieces.
type smallReads struct{ r io.Reader }

func (o smallReads) Read(p []byte) (int, error) { return o.r.Read(p[:min(len(p), 1000)]) }

func FuzzReadEvent(f *testing.F) {
	f.Add([]byte(eventText("ADDED")))
	f.Add([]byte(`{"type":"ERROR","object":{"code":410}}`))
	f.Add([]byte(`{"type":1,"object":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var f Frame
		err := f.Scan(text)
		if err == nil && f.Raw == nil {
			t.Error("neither an object nor an error")
		}
		var want struct {
			Type   string
			Object json.RawMessage
		}
		if json.Unmarshal(text, &want) != nil || !utf8.Valid(text) || strings.Count(strings.ToLower(string(text)), "ype") > 1 || strings.Count(strings.ToLower(string(text)), "bject") > 1 {
			return // invalid JSON and duplicate keys must only not panic
		}
		if !bytes.Contains(text, []byte(`"type"`)) || !bytes.Contains(text, []byte(`"object"`)) {
			return // encoding/json ignores the case of keys
		}
		if len(want.Object) == 0 || want.Object[0] != '{' {
			if err == nil {
				t.Errorf("%q is read without an object", text)
			}
			return
		}
		if err != nil || f.Type != want.Type || string(f.Raw[:f.Object.End]) != string(want.Object) {
			t.Errorf("%q gives %q, %q and %v", text, f.Type, f.Raw, err)
		}
	})
}

// FuzzWatchFrames compares the reading of frames, in pieces of any size, with splitting the whole text.
func FuzzWatchFrames(f *testing.F) {
	f.Add([]byte("{}\n\n{}\n"), 1)
	f.Add([]byte(" \n{\"a\":1}\r\n{"), 3)
	f.Add(bytes.Repeat([]byte("x"), 70<<10), 4096)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		var want []string
		whole, rest, broken := string(text), "", false
		if i := strings.LastIndexByte(whole, '\n'); i >= 0 {
			whole, rest = whole[:i+1], whole[i+1:]
		} else {
			whole, rest = "", whole
		}
		broken = strings.TrimSpace(rest) != ""
		for line := range strings.Lines(whole) {
			if strings.TrimSpace(line) != "" {
				want = append(want, line)
			}
		}
		var got []string
		err := ReadFrames(&pieces{text, max(size, 1)}, func(line []byte) error {
			got = append(got, string(line))
			var f Frame
			_ = f.Scan(line)
			return nil
		})
		if !slices.Equal(got, want) {
			t.Errorf("got the frames %q, want %q", got, want)
		}
		if broken != errors.Is(err, ErrBrokenFrame) || !broken && err != nil {
			t.Errorf("got %v, broken is %t", err, broken)
		}
	})
}

// BenchmarkWatchEvent reads a hundred events of 2 KiB.
func BenchmarkWatchEvent(b *testing.B) {
	event := []byte(strings.Replace(eventText("MODIFIED"), `"metadata"`, `"spec":{"data":"`+strings.Repeat("x", 2<<10)+`"},"metadata"`, 1))
	b.ReportAllocs()
	text := bytes.Repeat(event, 100)
	b.SetBytes(int64(len(text)))
	var f Frame
	for b.Loop() {
		err := ReadFrames(bytes.NewReader(text), f.Scan)
		if err != nil {
			b.Fatal(err)
		}
	}
}
