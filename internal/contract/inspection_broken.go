package contract

import (
	"embed"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite runs five operators with the most frequent mistakes. The output of the commands status and explain contains the cause, as shown in
// docs/troubleshooting.md.

var _ = SerialSuite("inspection_broken", func(t *testing.T, c *C) {
	for _, b := range brokenOperators {
		c.Run(t, "OB-11 a broken operator: "+b.name, func(c *C) {
			c.OnlyInBubble("the texts have names and times in them")
			c.sessionOf(b)
		})
	}
})

//go:embed testdata/broken
var brokenSessions embed.FS

// brokenOperator is an operator with a mistake.
type brokenOperator struct {
	name     string
	register func(r *kopf.Registry)
	labels   map[string]any
	prepare  func(c *C)
	runs     bool // whether the operator runs first
	deleted  bool // whether the object is deleted afterwards
	commands []string
	cause    []string // texts about the cause in the last command's output
}

var brokenOperators = []brokenOperator{
	{
		name:     "missing-right",
		register: func(r *kopf.Registry) { r.OnCreate("kopfexamples", noChange, named("create")) },
		prepare:  func(c *C) { c.lackingRight("patch") },
		commands: []string{"status kopfexamples", "explain kopfexamples kopf-example-1 --service-account default/operator"},
		cause:    []string{"default/operator", "no permission to patch kopfexamples.kopf.dev"},
	},
	{
		name: "wrong-label",
		register: func(r *kopf.Registry) {
			r.OnCreate("kopfexamples", noChange, &kopf.ChangeOptions{ID: "create", Labels: kopf.Match{"env": "prod"}})
		},
		labels: map[string]any{"env": "dev"}, runs: true,
		commands: []string{"status kopfexamples", "explain kopfexamples kopf-example-1"},
		cause:    []string{`label env is "dev", "prod" is wanted`},
	},
	{
		name:     "other-namespace",
		register: func(r *kopf.Registry) { r.OnCreate("kopfexamples", noChange, named("create")) },
		commands: []string{"status kopfexamples", "explain kopfexamples kopf-example-1 --serves team-*"},
		cause:    []string{`the namespace "default" is not served by team-*`},
	},
	{
		name:     "dead-stream",
		register: func(r *kopf.Registry) { r.OnCreate("kopfexamples", noChange, named("create")) },
		prepare:  func(c *C) { c.lackingVerb("watch") },
		commands: []string{"status kopfexamples", "explain kopfexamples kopf-example-1"},
		cause:    []string{"Non-watchable", "kopfexamples.v1.kopf.dev"},
	},
	{
		name: "failing-handler",
		register: func(r *kopf.Registry) {
			r.OnCreate("kopfexamples", fails(errors.New("no such plan: gold")), named("create"))
			r.OnCreate("kopfexamples", noChange, named("announce"))
		},
		runs:     true,
		commands: []string{"status kopfexamples -o wide", "explain kopfexamples kopf-example-1"},
		cause:    []string{"the next attempt is in", "no such plan: gold"},
	},
	{
		name: "held-deletion",
		register: func(r *kopf.Registry) {
			r.OnDelete("kopfexamples", fails(errors.New("the database is not empty")), named("cleanup"))
		},
		runs: true, deleted: true,
		commands: []string{"status kopfexamples", "explain kopfexamples kopf-example-1"},
		cause:    []string{"the next attempt is in", "the database is not empty"},
	},
}

// sessionOf runs the operator, and compares the output of the commands.
func (c *C) sessionOf(b brokenOperator) {
	c.Helper()
	in := *c
	in.Namespace = "default"
	in.Kind = in.Of("kopf.dev/v1", "KopfExample")
	c = &in
	if b.prepare != nil {
		b.prepare(c)
	}
	r := c.handlersFor(b.register)
	fields := map[string]any{}
	if b.labels != nil {
		fields["metadata"] = map[string]any{"labels": b.labels}
	}
	c.Create("kopf-example-1", fields)
	if b.runs {
		c.Operator(r, quiet)
		c.Pass(2 * time.Second)
	}
	if b.deleted {
		c.Delete("kopf-example-1")
		c.Pass(2 * time.Second)
	}
	c.Pass(10 * time.Second)
	session, last := "", ""
	for _, command := range b.commands {
		code, stdout, stderr := c.inspect(c.Context(), r, strings.Fields(command)...)
		if code != 0 {
			c.Errorf("%s: got the exit code %d", command, code)
		}
		last = stdout + stderr
		session += "$ myoperator " + strings.ReplaceAll(command, "team-*", "'team-*'") + "\n" + last
	}
	session = regexp.MustCompile(`inspection_broken\.go:\d+`).ReplaceAllString(session, "main.go:12")
	for _, text := range b.cause {
		if !strings.Contains(last, text) {
			c.Errorf("there is no %q in %s", text, last)
		}
	}
	want, err := brokenSessions.ReadFile("testdata/broken/" + b.name + ".txt")
	if err != nil || string(want) != session {
		c.Errorf("testdata/broken/%s.txt (%v): got\n%s\nwant\n%s", b.name, err, session, want)
	}
}
