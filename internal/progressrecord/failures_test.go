package progressrecord

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestFailures(t *testing.T) {
	text := "no quota"
	one := &Record{Stopped: time.Unix(1000, 0).UTC(), Purpose: "create", Retries: 3, Failure: true, Message: &text}
	want := map[string]*Record{"create": one, "create/sub \"x\"": {Failure: true}}
	base, got, err := ParseFailures(FailuresMessage("none", want))
	if err != nil || base != "none" || len(got) != len(want) {
		t.Fatalf("parsed %q, %v, %v, want %v", base, got, err, want)
	}
	for id, record := range want {
		if now, before := got[id].Members(true), record.Members(true); !reflect.DeepEqual(now, before) {
			t.Errorf("%s: parsed %v, want %v", id, now, before)
		}
	}
}

func TestFailuresAreLimited(t *testing.T) {
	long := strings.Repeat("é", 1000)
	many := make(map[string]*Record)
	for i := range 100 {
		many[fmt.Sprintf("%03d", i)] = &Record{Failure: true, Message: &long, Subrefs: []string{"a", "b"}}
	}
	_, got, err := ParseFailures(FailuresMessage("none", many))
	if err != nil || len(got) != maxFailures || got["000"] == nil || got["000"].Subrefs != nil {
		t.Fatalf("parsed %d failures, %v, want the first %d without references", len(got), err, maxFailures)
	}
	if n := len(*got["000"].Message); n > maxFailureMessage || n < maxFailureMessage-4 {
		t.Errorf("a message has %d bytes, want %d", n, maxFailureMessage)
	}
}

func TestParseFailuresOfNonsense(t *testing.T) {
	for _, message := range []string{"", "none", "none ", "none []", "none {", `none {"a":1}`, `none {"a":{"retries":"x"}}`} {
		if _, got, err := ParseFailures(message); err == nil {
			t.Errorf("%q: parsed %v, want an error", message, got)
		}
	}
}
