package kopf

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestErrorDecisions(t *testing.T) {
	type row struct {
		Errors   string   `json:"errors"`
		Retries  *int     `json:"retries_option"`
		Timeout  *float64 `json:"timeout_option_s"`
		Backoff  float64  `json:"backoff_option_s"`
		Before   int      `json:"attempts_made_before"`
		Runtime  float64  `json:"runtime_s"`
		Does     string   `json:"handler_does"`
		Called   bool     `json:"handler_is_called"`
		Final    bool     `json:"final"`
		Delay    *float64 `json:"retry_delay_s"`
		CountsAs string   `json:"counts_as"`
		Kind     *string  `json:"stored_error_kind"`
	}
	secs := func(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
	kindOf := func(err error) string {
		var timeout *HandlerTimeoutError
		var retries *HandlerRetriesError
		var permanent *PermanentError
		var temporary *TemporaryError
		switch {
		case err == nil:
			return ""
		case errors.As(err, &timeout):
			return "HandlerTimeoutError"
		case errors.As(err, &retries):
			return "HandlerRetriesError"
		case errors.As(err, &permanent):
			return "PermanentError"
		case errors.As(err, &temporary):
			return "TemporaryError"
		}
		return "ValueError"
	}
	modes := map[string]ErrorsMode{"default (TEMPORARY)": 0, "TEMPORARY": ErrorsTemporary, "PERMANENT": ErrorsPermanent, "IGNORED": ErrorsIgnored}
	does := map[string]error{
		"success":                  nil,
		"TemporaryError(delay=30)": Temporary(errors.New("oops"), 30*time.Second),
		"PermanentError":           Permanent(errors.New("oops")),
		"arbitrary":                errors.New("oops"),
	}
	for i, r := range golden[row](t, "error_decisions") {
		t.Run(fmt.Sprintf("CH-113 row %d", i), func(t *testing.T) {
			mode, known := modes[r.Errors]
			failure, too := does[r.Does]
			if !known || !too {
				t.Fatalf("unknown: %q, %q", r.Errors, r.Does)
			}
			h := &handler{kind: kindCreate, id: "fn", retry: retryPolicy{errors: mode, backoff: secs(r.Backoff)}}
			if r.Retries != nil {
				h.retry.retries = *r.Retries
			}
			if r.Timeout != nil {
				h.retry.timeout = secs(*r.Timeout)
			}
			limit := h.exhausted(r.Before, secs(r.Runtime), 0, nil)
			if called := limit == nil; called != r.Called {
				t.Fatalf("called = %v, want %v", called, r.Called)
			}
			o := outcome{final: true, err: limit}
			if limit == nil {
				o = h.outcome(failure, r.Before, secs(r.Runtime), &ExecutionSettings{DefaultBackoff: time.Minute})
			}
			var delay float64
			if r.Delay != nil {
				delay = *r.Delay
			}
			want := fmt.Sprint(r.Final, " ", secs(delay), " ", r.CountsAs)
			countsAs := "pending"
			if o.final && o.err == nil {
				countsAs = "success"
			} else if o.final {
				countsAs = "failure"
			}
			if got := fmt.Sprint(o.final, " ", o.delay, " ", countsAs); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			kind := ""
			if r.Kind != nil {
				kind = *r.Kind
			}
			if got := kindOf(o.err); got != kind {
				t.Errorf("stored error: got %q, want %q", got, kind)
			}
		})
	}
}

func TestEventOutcomes(t *testing.T) {
	for _, err := range []error{nil, errors.New("oops"), Temporary(errors.New("oops"), time.Second), Permanent(errors.New("oops"))} {
		h := &handler{kind: kindEvent}
		if o := h.outcome(err, 3, time.Hour, &ExecutionSettings{}); o != (outcome{final: true}) {
			t.Errorf("after %v, a handler of events has the outcome %+v", err, o)
		}
		if limit := h.exhausted(3, time.Hour, 0, nil); limit != nil {
			t.Errorf("a handler of events may not be called: %v", limit)
		}
	}
}

func TestRecordTransitions(t *testing.T) {
	type row struct {
		Case    string          `json:"case"`
		Now     time.Time       `json:"now"`
		Before  json.RawMessage `json:"record_before"`
		Outcome string          `json:"outcome"`
		After   json.RawMessage `json:"record_after"`
	}
	outcomes := map[string]outcome{
		"success":                         {final: true},
		"temporary, delay 5":              {err: errors.New("oops"), delay: 5 * time.Second},
		"temporary, no delay":             {err: errors.New("oops")},
		"temporary, delay 60, empty text": {err: errors.New(""), delay: time.Minute},
		"permanent":                       {final: true, err: errors.New("never")},
		"children pending, delay 0, subrefs [create_fn/b, create_fn/a]": {waiting: true},
	}
	for _, r := range golden[row](t, "record_transitions") {
		t.Run("CH-125 "+r.Case, func(t *testing.T) {
			o, ok := outcomes[r.Outcome]
			if !ok {
				t.Fatalf("unknown outcome %q", r.Outcome)
			}
			record := &ProgressRecord{Started: r.Now, Purpose: ReasonCreate}
			if string(r.Before) != "null" {
				record = &ProgressRecord{Started: r.Now}
				if err := json.Unmarshal(r.Before, record); err != nil {
					t.Fatal(err)
				}
				if record.Started.IsZero() {
					record.Started = r.Now
				}
			}
			record.apply(o, r.Now)
			if o.waiting {
				record.addSubref("create_fn/b")
				record.addSubref("create_fn/a")
			}
			got, err := json.Marshal(record)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(rawjson.AppendCompact(nil, r.After)), string(got)); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCauseDetection(t *testing.T) {
	type row struct {
		Event      string   `json:"event"`
		Deleting   bool     `json:"deletionTimestamp"`
		Finalizers []string `json:"finalizers"`
		Stored     string   `json:"stored_essence"`
		InitialIn  bool     `json:"initial_in"`
		Reason     Reason   `json:"reason"`
		InitialOut bool     `json:"initial_out"`
	}
	for i, r := range golden[row](t, "cause_detection") {
		t.Run(fmt.Sprintf("CH-88 row %d", i), func(t *testing.T) {
			var s decision.Snapshot
			s.Deleting, s.Finalized, s.Initial = r.Deleting, slices.Contains(r.Finalizers, NewSettings().Persistence.Finalizer), r.InitialIn
			switch r.Stored {
			case "absent":
			case "same":
				s.Stored = true
			case "different":
				s.Stored, s.Changed = true, true
			default:
				t.Fatalf("unknown: %q", r.Stored)
			}
			switch r.Event {
			case "DELETED":
				s.Deleted = true
			case "any except DELETED":
			default:
				t.Fatalf("unknown: %q", r.Event)
			}
			reason, initial := s.Reason()
			if Reason(reason) != r.Reason || initial != r.InitialOut {
				t.Errorf("got %s, %v, want %s, %v", reason, initial, r.Reason, r.InitialOut)
			}
		})
	}
}
