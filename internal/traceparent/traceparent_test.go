package traceparent

import (
	"strings"
	"testing"
)

const (
	trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	span  = "00f067aa0ba902b7"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, header string
		valid        bool
		sampled      bool
	}{
		{"sampled", "00-" + trace + "-" + span + "-01", true, true},
		{"not sampled", "00-" + trace + "-" + span + "-00", true, false},
		{"random and sampled, of level 2", "00-" + trace + "-" + span + "-03", true, true},
		{"random only", "00-" + trace + "-" + span + "-02", true, false},
		{"flags of later versions", "00-" + trace + "-" + span + "-ff", true, true},
		{"a later version", "cc-" + trace + "-" + span + "-01", true, true},
		{"a later version with more", "cc-" + trace + "-" + span + "-01-what-the-future-brings", true, true},
		{"a later version with an empty part", "cc-" + trace + "-" + span + "-01-", true, true},
		{"more in version 00", "00-" + trace + "-" + span + "-01-more", false, false},
		{"an empty part in version 00", "00-" + trace + "-" + span + "-01-", false, false},
		{"longer flags in a later version", "cc-" + trace + "-" + span + "-01.more", false, false},
		{"the version ff", "ff-" + trace + "-" + span + "-01", false, false},
		{"a version in upper case", "0A-" + trace + "-" + span + "-01", false, false},
		{"a trace in upper case", "00-" + strings.ToUpper(trace) + "-" + span + "-01", false, false},
		{"a span in upper case", "00-" + trace + "-" + strings.ToUpper(span) + "-01", false, false},
		{"flags in upper case", "00-" + trace + "-" + span + "-0B", false, false},
		{"no trace", "00-" + strings.Repeat("0", 32) + "-" + span + "-01", false, false},
		{"no span", "00-" + trace + "-" + strings.Repeat("0", 16) + "-01", false, false},
		{"a short trace", "00-" + trace[1:] + "-" + span + "-01", false, false},
		{"a long flag", "00-" + trace + "-" + span + "-001", false, false},
		{"another letter", "00-" + trace[1:] + "g-" + span + "-01", false, false},
		{"spaces", " 00-" + trace + "-" + span + "-01", false, false},
		{"a line break", "00-" + trace + "-" + span + "-01\n", false, false},
		{"two headers", "00-" + trace + "-" + span + "-01,00-" + trace + "-" + span + "-01", false, false},
		{"only dashes", "----", false, false},
		{"nothing", "", false, false},
		{"a megabyte", "cc-" + trace + "-" + span + "-01-" + strings.Repeat("a", 1<<20), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := Parent{}
			if tt.valid {
				want = Parent{trace, span, tt.sampled}
			}
			if got, ok := Parse(tt.header); ok != tt.valid || got != want {
				t.Errorf("%.100q: got %v, %t, want %v, %t", tt.header, got, ok, want, tt.valid)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00-" + trace + "-" + span + "-01")
	f.Add("cc-" + trace + "-" + span + "-03-more")
	f.Add("ff--")
	f.Fuzz(func(t *testing.T, header string) {
		p, ok := Parse(header)
		if !ok && p != (Parent{}) {
			t.Errorf("%q is not valid, and has %v", header, p)
		}
		if ok && (len(p.TraceID) != 32 || len(p.SpanID) != 16 || header[3:35] != p.TraceID || header[36:52] != p.SpanID) {
			t.Errorf("%q: got %v", header, p)
		}
	})
}
