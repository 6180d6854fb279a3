package apiserver

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzPattern holds our patterns to package regexp: they are refused for the same reasons, and match the same texts.
func FuzzPattern(f *testing.F) {
	for _, text := range []string{
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, `^\d+(ms|s|m|h)$`, `a|b||c`, `(a|b)*c+d?`, `x{2}`, `x{2,}`, `x{1,3}`, `x{,3}`, `x{01}`, `x{3,1}`, `x{1001}`,
		`(x{40}){40}`, `(((a*)*)*)*`, `[]a-]`, `[^]a]`, `[^\d\s]`, `[[:alpha:][:^digit:]]`, `[[:nope:]]`, `[[:alpha]`, `[z-a]`, `[a`, `[a-`, `[\`,
		`(?i)straße|K`, `(?i)[^k]`, `(?i)\W`, `(?i:a)b`, `a(?i)b|c`, `(a(?i)b)c`, `(?s).`, `(?m)^a$`, `(?U)a*?`, `(?-i)a`, `(?i-)a`, `(?P<n>a)(?<m>b)`, `(?P<n>a)(?P<n>b)`,
		`(?P<>a)`, `(?P<n`, `(?=a)`, `(?`, `(?i`, `\b\w+\b`, `\Bx`, `\Aa\z`, `\Qa.b\Ec`, `\Q`, `\x41\x{1F600}\101\0`, `\x{}`, `\x4`, `\1`, `\8`, `\_\-`, `\C`, `\é`,
		`\`, `\pL\p{^Lu}\P{N}`, `\pN+`, `\p{Any}`, `\p{`, `(`, `)`, `a)b`, `a**`, `a*?`, `a*??`, `a+{2}`, `*a`, `(*a)`, `|*`, `^*`, `^+$?`, `(?i)*`, `a(?i)*`, `()`, `()*`, `\pe`, ``,
	} {
		f.Add(text, "aB c-d_9\nÄK\u212aſ")
		f.Add(text, "xxx")
	}
	f.Fuzz(func(t *testing.T, text, subject string) {
		if !utf8.ValidString(text) {
			t.Skip("there is no such text in JSON")
		}
		want, wantErr := regexp.Compile(text)
		got, gotErr := compilePattern(text)
		if gotErr != nil && wantErr == nil && strings.Contains(strings.ToLower(text), `\p`) {
			return // of scripts and other classes we know nothing
		}
		if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
			t.Fatalf("%q: got error %v, want %v", text, gotErr, wantErr)
		}
		if gotErr == nil && got.match(subject) != want.MatchString(subject) {
			t.Errorf("%q matches %q: %t, want %t", text, subject, got.match(subject), want.MatchString(subject))
		}
	})
}

func TestPatternIsLinear(t *testing.T) {
	p, err := compilePattern(`^(((a*)*)*|(a|a)*)*b$`)
	if err != nil {
		t.Fatal(err)
	}
	if p.match(strings.Repeat("a", 100_000)) { // it would take for ever one way after another
		t.Error("it matches without its end")
	}
}
