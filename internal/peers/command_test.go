package peers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// fakeObject is a peering object in memory.
type fakeObject struct {
	status  string
	err     error
	code    int
	written map[string]any
}

func (o *fakeObject) Read(context.Context) (State, error) {
	return State{Status: []byte(o.status)}, o.err
}

func (o *fakeObject) Write(_ context.Context, _ string, records map[string]any) (State, error) {
	o.written = records
	return State{}, nil
}

func (o *fakeObject) Failure(error) Failure { return Failure{Code: o.code} }

func TestCommand(t *testing.T) {
	missing := &fakeObject{err: errors.New("none"), code: 404}
	failing := &fakeObject{err: errors.New("broken"), code: 500}
	for _, tt := range []struct {
		name     string
		command  Command
		object   *fakeObject
		out, err string
		failure  string
		written  bool
	}{
		{"frozen", Command{Freeze: true, Priority: 7, Lifetime: time.Minute, Message: "for a reason."}, &fakeObject{status: `{}`}, `The record of "me" with priority 7 is in force for 1m0s in p "n" in ns: for a reason.` + "\n", "", "", true},
		{"resumed", Command{}, &fakeObject{status: `{"me":{}}`}, `The record of "me" is removed from p "n" in ns.` + "\n", "", "", true},
		{"without a record", Command{}, &fakeObject{status: `{"other":{}}`}, "", "", `there is no record of "me" in p "n" in ns, only of ["other"]`, false},
		{"missing", Command{Freeze: true}, missing, "", `There is no p "n" in ns.` + "\n", `no peering object "n" was found`, false},
		{"failing", Command{Freeze: true}, failing, "", "", "broken", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, missed strings.Builder
			c := tt.command
			c.Name, c.ID, c.Out, c.Err = "n", "me", &out, &missed
			err := c.Run(t.Context(), []Place{{"p", "ns", tt.object}})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if out.String() != tt.out || missed.String() != tt.err || got != tt.failure {
				t.Errorf("printed %q and %q, failed with %q; want %q, %q and %q", out.String(), missed.String(), got, tt.out, tt.err, tt.failure)
			}
			record, written := tt.object.written["me"]
			if written != tt.written || written && (record != nil) != tt.command.Freeze {
				t.Errorf("written: %v", tt.object.written)
			}
		})
	}
}
