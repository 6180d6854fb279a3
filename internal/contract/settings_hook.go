package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that all commands know the settings of Configure, in 9-defects.md and 12-moving.md.

var _ = SerialSuite("settings_hook", func(t *testing.T, c *C) {
	configuring(t, c)
	nestingConfigure(t, c)
	sharingSettings(t, c)
	sharingStorages(t, c)
	inspectingConfigured(t, c)
	installingConfigured(t, c)
	allowingTimeToEnd(t, c)
	overriding(t, c)
})

// startedWith returns the settings of the start-up handlers of the command run, which ends there.
func (c *C) startedWith(r *kopf.Registry, args ...string) kopf.Settings {
	c.Helper()
	var got *kopf.Settings
	r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
		settings := *a.Settings
		got = &settings
		return kopf.Permanent(errors.New("only the settings matter"))
	}, id("startup"))
	code, _, stderr := c.inspect(c.Context(), r, append([]string{"run"}, args...)...)
	if code != 1 || got == nil {
		c.Fatalf("%q: got the exit code %d: %s", args, code, stderr)
	}
	return *got
}

func configuring(t *testing.T, c *C) {
	configured := func() *kopf.Registry {
		r := &kopf.Registry{}
		r.Configure(func(s *kopf.Settings) {
			s.Peering.Name, s.Peering.Priority, s.Peering.Standalone = "ours", 3, true
			s.LeaderElection.Name, s.Watching.PageSize = "lease", 7
		})
		r.Configure(func(s *kopf.Settings) { s.Watching.PageSize *= 2 })
		return r
	}
	c.Run(t, "DF-78 the functions of Configure set the settings in their order, before the start-up handlers", func(c *C) {
		s := c.startedWith(configured())
		if s.Peering.Name != "ours" || s.Peering.Priority != 3 || !s.Peering.Standalone || s.LeaderElection.Name != "lease" || s.Watching.PageSize != 14 {
			c.Errorf("got %+v, %+v, %+v", s.Peering, s.LeaderElection, s.Watching)
		}
	})
	c.Run(t, "DF-78 flags take precedence over Configure", func(c *C) {
		s := c.startedWith(configured(), "--priority=0", "--standalone=false", "--leader-elect=other", "--peering=theirs")
		if s.Peering.Name != "theirs" || s.Peering.Priority != 0 || s.Peering.Standalone || s.LeaderElection.Name != "other" || s.Watching.PageSize != 14 {
			c.Errorf("got %+v, %+v, %+v", s.Peering, s.LeaderElection, s.Watching)
		}
	})
	c.Run(t, "DF-78 --peering takes part in a peering that Configure leaves out", func(c *C) {
		if s := c.startedWith(configured(), "--peering=theirs"); s.Peering.Name != "theirs" || s.Peering.Standalone {
			c.Errorf("got %+v", s.Peering)
		}
	})
	c.Run(t, "DF-78 Configure sets also the settings that an operator in code is given", func(c *C) {
		r, settings := configured(), kopf.NewSettings()
		settings.Watching.PageSize = 1
		var got int
		r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
			got = a.Settings.Watching.PageSize
			return kopf.Permanent(errors.New("enough"))
		}, id("startup"))
		op := &kopf.Operator{Registry: r, Settings: settings, Logger: slog.New(slog.DiscardHandler)}
		if err := op.Run(c.Context()); err == nil || got != 14 {
			c.Errorf("got %d, %v", got, err)
		}
	})
	c.Run(t, "DF-78 a panic in Configure is an error with its line, for all commands", func(c *C) {
		for _, command := range []string{"run", "status", "explain kex", "manifests", "freeze -P x -t 1s"} {
			r := c.handlersFor(nil)
			r.Configure(func(*kopf.Settings) { panic("oops") })
			code, _, stderr := c.inspect(c.Context(), r, strings.Fields(command)...)
			if code != 1 || !strings.Contains(stderr, "the function of Configure at ") || !strings.Contains(stderr, "settings_hook.go:") || !strings.Contains(stderr, "oops") {
				c.Errorf("%s: got the exit code %d: %s", command, code, stderr)
			}
		}
	})
	c.Run(t, "DF-78 a wrong setting of Configure is an error for all commands with a cluster", func(c *C) {
		for _, command := range []string{"run", "status", "explain kex", "freeze -P x -t 1s"} {
			r := c.handlersFor(nil)
			r.Configure(func(s *kopf.Settings) { s.Watching.PageSize = -5 })
			code, _, stderr := c.inspect(c.Context(), r, strings.Fields(command)...)
			if code != 1 || !strings.Contains(stderr, "invalid Settings.Watching.PageSize -5: want zero or more") {
				c.Errorf("%s: got the exit code %d: %s", command, code, stderr)
			}
		}
	})
}

// nestingConfigure proves that functions of Configure can register others, for all commands.
func nestingConfigure(t *testing.T, c *C) {
	nested := func(r *kopf.Registry) {
		r.Configure(func(s *kopf.Settings) {
			r.Configure(func(s *kopf.Settings) {
				s.Queueing.ExitTimeout *= 2
				r.Configure(func(s *kopf.Settings) { s.Queueing.ExitTimeout += time.Second })
			})
		})
		r.Configure(func(s *kopf.Settings) { s.Queueing.ExitTimeout = time.Minute })
	}
	c.Run(t, "DF-78 a function of Configure that another one registers is called after the others", func(c *C) {
		r := &kopf.Registry{}
		nested(r)
		if got := c.startedWith(r).Queueing.ExitTimeout; got != 121*time.Second {
			c.Errorf("got %s", got)
		}
		m := c.print(func(r *kopf.Registry) { website(r); nested(r) }, "manifests", "--name=web")
		if m.code != 0 || !strings.Contains(m.stdout, "terminationGracePeriodSeconds: 126") {
			c.Errorf("manifests: got the exit code %d: %s%s", m.code, m.stdout, m.stderr)
		}
	})
	c.Run(t, "DF-78 status and explain call a function of Configure that another one registers", func(c *C) {
		c.Create("a", map[string]any{"spec": map[string]any{"x": 2}})
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate(Examples, noChange, named("create"))
			r.Configure(func(*kopf.Settings) {
				r.Configure(func(s *kopf.Settings) {
					s.Persistence.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{Prefix: "own.example.com"}
				})
			})
		})
		status, x := c.status(r, "kex", "a")[0], c.explain(r, "kex", "a", "-n", c.Namespace)
		if status.Operator != "own.example.com" || x.Operator != "own.example.com" {
			c.Errorf("got the status %+v and the explanation %+v", status, x)
		}
	})
	c.Run(t, "DF-78 functions of Configure that register one another without an end are an error", func(c *C) {
		for _, command := range []string{"run", "status", "manifests"} {
			r := c.handlersFor(func(r *kopf.Registry) {
				r.OnStartup(func(context.Context, *kopf.Activity) error {
					return kopf.Permanent(errors.New("the operator starts"))
				}, id("startup"))
			})
			var again func(*kopf.Settings)
			again = func(*kopf.Settings) { r.Configure(again) }
			r.Configure(again)
			code, _, stderr := c.inspect(c.Context(), r, command)
			if code != 1 || !strings.Contains(stderr, "register one another without an end") {
				c.Errorf("%s: got the exit code %d: %s", command, code, stderr)
			}
		}
	})
	for who, call := range map[string]func(*kopf.Registry, func()){
		"a function of Configure": func(r *kopf.Registry, register func()) {
			r.Configure(func(*kopf.Settings) { register() })
		},
		"a start-up handler": func(r *kopf.Registry, register func()) {
			r.OnStartup(func(context.Context, *kopf.Activity) error {
				register()
				return nil
			}, id("startup"))
		},
	} {
		c.Run(t, "DF-78 "+who+" can register handlers and indices", func(c *C) {
			var l calls
			r := &kopf.Registry{}
			call(r, func() {
				names := kopf.OnIndexIn(r, Examples, func(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
					return map[string]string{i.Name(): "indexed"}, nil
				}, &kopf.IndexOptions{ID: "names"})
				r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
					l.add("%v", names.Get(ch, ch.Name()))
					return nil
				}, named("create"))
			})
			c.Operator(r)
			c.Create("a", nil)
			c.handled("a")
			c.expect(&l, "[indexed]")
		})
	}
}

// sharingSettings proves that each run has its own copy of the settings.
func sharingSettings(t *testing.T, c *C) {
	c.Run(t, "DF-78 operators with common settings do not change each other's", func(c *C) {
		settings := kopf.NewSettings()
		shared := func(op *kopf.Operator) { op.Settings = settings }
		whole := func(op *kopf.Operator) { op.Settings, op.Namespaces = settings, nil }
		got := make(map[string]bool)
		started := func(name string) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
				got[name] = a.Settings.Peering.Clusterwide
				a.Settings.Queueing.ErrorDelays[0] = time.Hour
				return nil
			}, id("startup"))
			return r
		}
		c.Operator(started("whole"), whole)
		c.Operator(started("one"), shared)
		c.Operator(started("another"), whole)
		if !got["whole"] || got["one"] || !got["another"] {
			c.Errorf("whether peering is cluster-wide: %v", got)
		}
		if want := kopf.NewSettings(); !reflect.DeepEqual(settings, want) {
			c.Errorf("got the settings %+v after the start, want %+v", settings, want)
		}
	})
	c.Run(t, "DF-78 two runs of an operator have the same settings", func(c *C) {
		r := &kopf.Registry{}
		r.Configure(func(s *kopf.Settings) {
			s.Networking.ErrorBackoffs = append(s.Networking.ErrorBackoffs, time.Minute)
		})
		var lengths []int
		r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
			lengths = append(lengths, len(a.Settings.Networking.ErrorBackoffs))
			return kopf.Permanent(errors.New("enough"))
		}, id("startup"))
		op := &kopf.Operator{Registry: r, Settings: kopf.NewSettings(), Logger: slog.New(slog.DiscardHandler)}
		for range 2 {
			_ = op.Run(c.Context()) // the start-up handler ends it
		}
		if len(lengths) != 2 || lengths[0] != lengths[1] {
			c.Errorf("the runs have %v backoffs", lengths)
		}
	})
}

// sharingStorages proves that each run has its own copy of the storages and of the webhook server.
func sharingStorages(t *testing.T, c *C) {
	fields := func(s kopf.DiffBaseStorage) *[]kopf.FieldPath {
		switch s := s.(type) {
		case *kopf.AnnotationsDiffBaseStorage:
			return &s.IgnoredFields
		case *kopf.SmartDiffBaseStorage:
			return &s.IgnoredFields
		default:
			return &s.(*kopf.StatusDiffBaseStorage).IgnoredFields
		}
	}
	annotations, status := &kopf.AnnotationsDiffBaseStorage{}, &kopf.StatusDiffBaseStorage{}
	for name, storage := range map[string]kopf.DiffBaseStorage{
		"default":     &kopf.SmartDiffBaseStorage{},
		"annotations": annotations,
		"status":      status,
		"several":     kopf.MultiDiffBaseStorage{annotations, status},
	} {
		c.Run(t, "DF-78 Configure changes the storages and the server of one run: "+name, func(c *C) {
			settings, server := kopf.NewSettings(), &kopf.WebhookServer{Service: &kopf.ServiceReference{}}
			settings.Persistence.DiffBaseStorage, settings.Admission.Server = storage, server
			records := &kopf.AnnotationsProgressStorage{}
			settings.Persistence.ProgressStorage = kopf.MultiProgressStorage{records}
			part := func(s *kopf.Settings) kopf.DiffBaseStorage {
				if several, ok := s.Persistence.DiffBaseStorage.(kopf.MultiDiffBaseStorage); ok {
					return several[0]
				}
				return s.Persistence.DiffBaseStorage
			}
			r := c.handlersFor(func(r *kopf.Registry) {
				r.OnCreate(Examples, noChange, named("create"))
			})
			var counts []int
			r.Configure(func(s *kopf.Settings) {
				ignored := fields(part(s))
				*ignored = append(*ignored, "spec.noise")
				counts = append(counts, len(*ignored))
				s.Persistence.ProgressStorage.(kopf.MultiProgressStorage)[0].(*kopf.AnnotationsProgressStorage).Verbose = true
				s.Admission.Server.(*kopf.WebhookServer).Service.Name = "changed"
			})
			for range 2 {
				c.Operator(r, func(op *kopf.Operator) { op.Settings = settings }).Stop()
			}
			if ignored := *fields(part(settings)); len(ignored) > 0 || !slices.Equal(counts, []int{1, 1}) {
				c.Errorf("the runs ignore %v fields, and the settings %v", counts, ignored)
			}
			if records.Verbose || server.Service.Name != "" {
				c.Errorf("got the settings %+v and %+v", records, server.Service)
			}
		})
	}
}

// ownMemory is a storage of progress outside of the objects.
type ownMemory struct {
	kopf.AnnotationsProgressStorage
	records map[kopf.HandlerID]*kopf.ProgressRecord
}

func (m *ownMemory) Fetch(id kopf.HandlerID, _ *kopf.Body) (*kopf.ProgressRecord, error) {
	return m.records[id], nil
}

func inspectingConfigured(t *testing.T, c *C) {
	failed := "not yet"
	record := &kopf.ProgressRecord{Retries: 2, Message: &failed, Purpose: kopf.ReasonUpdate}
	own := &ownMemory{records: map[kopf.HandlerID]*kopf.ProgressRecord{"change": record}}
	stored := encoded(record)
	annotated := func(annotations map[string]any) map[string]any {
		return map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{"x": 2}}
	}
	const last = `{"spec":{"x":1}}` + "\n"
	for name, tt := range map[string]struct {
		configure func(*kopf.PersistenceSettings)
		object    map[string]any
	}{
		"annotations under an own prefix": {func(p *kopf.PersistenceSettings) {
			p.ProgressStorage = &kopf.AnnotationsProgressStorage{Prefix: "own.example.com"}
			p.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{Prefix: "own.example.com"}
		}, annotated(map[string]any{"own.example.com/last-handled-configuration": last, "own.example.com/change": stored})},
		"an own key, next to data of another operator": {func(p *kopf.PersistenceSettings) {
			p.ProgressStorage = &kopf.SmartProgressStorage{Prefix: "own.example.com"}
			p.DiffBaseStorage = &kopf.SmartDiffBaseStorage{Prefix: "own.example.com", Key: "last"}
		}, annotated(map[string]any{"own.example.com/last": last, "own.example.com/change": stored, diffBase: `{"spec":{"x":2}}` + "\n"})},
		"a storage outside of the objects": {func(p *kopf.PersistenceSettings) {
			p.ProgressStorage = own
			p.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{Prefix: "own.example.com"}
		}, annotated(map[string]any{"own.example.com/last-handled-configuration": last})},
	} {
		c.Run(t, "DF-78 status and explain read the storages of Configure: "+name, func(c *C) {
			register := func(r *kopf.Registry) {
				r.OnUpdate(Examples, noChange, named("change"))
				r.Configure(func(s *kopf.Settings) {
					tt.configure(&s.Persistence)
					s.Persistence.Finalizer = "own.example.com/finalizer"
				})
			}
			c.Create("a", tt.object)
			r := c.handlersFor(register)
			line := c.status(r, "kex", "a")[0]
			if line.Operator != "own.example.com" || line.State != "Retrying" || len(line.Handlers) != 1 || line.Handlers[0].ID != "change" || line.Handlers[0].Attempts != 2 {
				c.Errorf("got the status %+v", line)
			}
			if all := c.status(r, "kex", "--failed"); len(all) != 1 || all[0].Operator != "own.example.com" {
				c.Errorf("got the failing objects %+v", all)
			}
			x := c.explain(r, "kex", "a", "-n", c.Namespace)
			if x.Cause != "update" || x.Operator != "own.example.com" || len(x.Changes) != 1 || x.Changes[0].Field != "spec.x" {
				c.Errorf("got the explanation %+v", x)
			}
		})
	}
	c.Run(t, "DF-78 explain without a cluster knows the finalizer of Configure", func(c *C) {
		path := c.file(map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": "a", "namespace": "default"}})
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnDelete(Examples, noChange, named("delete"))
			r.Configure(func(s *kopf.Settings) { s.Persistence.Finalizer = "own.example.com/finalizer" })
		})
		if x := c.explain(r, "-f", path); !strings.Contains(strings.Join(x.Steps, "\n"), "own.example.com/finalizer") {
			c.Errorf("got the steps %q", x.Steps)
		}
	})
	c.Run(t, "DF-78 status and explain know the peering of Configure", func(c *C) {
		k := c.meet()
		k.Create("ours", nil)
		k.Patch("ours", map[string]any{"status": map[string]any{"boss": rival(5, 3600)}})
		c.Create("a", nil)
		for priority, want := range map[int]bool{4: true, 6: false} {
			r := c.handlersFor(func(r *kopf.Registry) {
				r.OnCreate(Examples, noChange, named("create"))
				r.Configure(func(s *kopf.Settings) { s.Peering.Name, s.Peering.Priority = "ours", priority })
			})
			if got := strings.Contains(c.explain(r, "kex", "a", "-n", c.Namespace).Decision, "pauses"); got != want {
				c.Errorf("priority %d: paused: %t, want %t", priority, got, want)
			}
		}
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate(Examples, noChange, named("create"))
			r.Configure(func(s *kopf.Settings) { s.Peering.Name, s.Peering.Standalone = "ours", true })
		})
		if x := c.explain(r, "kex", "a", "-n", c.Namespace); strings.Contains(x.Decision, "pauses") {
			c.Errorf("standalone: got %q", x.Decision)
		}
	})
}

func installingConfigured(t *testing.T, c *C) {
	c.Run(t, "DF-78 manifests and explain-rights know the settings of Configure", func(c *C) {
		configured := func(r *kopf.Registry) {
			hooked(r)
			r.Configure(func(s *kopf.Settings) {
				s.LeaderElection.Name, s.Peering.Name = "our-lease", "our-peering"
				s.Admission.Server = &kopf.WebhookServer{Port: 8443, Service: &kopf.ServiceReference{Name: "web"}}
				s.Admission.Managed = "hooks.example.com"
				s.Posting.Enabled = false
			})
		}
		m := c.print(configured, "manifests", "--name=web")
		for text, want := range map[string]bool{"--leader-elect=our-lease": true, "--peering=our-peering": true, "containerPort: 8443": true, "name: hooks.example.com": true, "--standalone": false} {
			if got := strings.Contains(m.stdout, text); got != want {
				c.Errorf("%s is printed: %t, want %t", text, got, want)
			}
		}
		if m.code != 0 || strings.Contains(m.stderr, "the manifests expect") {
			c.Errorf("got the exit code %d: %s", m.code, m.stderr)
		}
		m = c.print(configured, "explain-rights", "--name=web")
		if m.code != 0 || strings.Contains(m.stdout, "create events") || !strings.Contains(m.stdout, "leases") {
			c.Errorf("got %+v", m)
		}
	})
	c.Run(t, "DF-78 manifests know the namespace of the Lease, the Secret of the authority, and the time to end", func(c *C) {
		configured := func(namespace, authority string) func(r *kopf.Registry) {
			return func(r *kopf.Registry) {
				hooked(r)
				r.Configure(func(s *kopf.Settings) {
					s.LeaderElection.Name, s.LeaderElection.Namespace = "our-lease", namespace
					s.Admission.Server = &kopf.WebhookServer{AuthoritySecret: authority}
					s.Queueing.ExitTimeout = 2 * time.Minute
				})
			}
		}
		for _, tt := range []struct {
			namespace, authority, secret string
			warnings                     []string
		}{
			{"", "", "our-lease-webhooks", nil},
			{"default", "default/ours", "ours", nil},
			{"operators", "ours", "ours", []string{"Lease", "operators"}},
			{"", "operators/ours", "ours", []string{`Secret "ours"`, "operators"}},
		} {
			for _, command := range []string{"manifests", "explain-rights"} {
				m := c.print(configured(tt.namespace, tt.authority), command, "--name=web")
				warned := strings.Contains(m.stderr, "the manifests give permissions for it")
				silent := slices.ContainsFunc(tt.warnings, func(text string) bool { return !strings.Contains(m.stderr, text) })
				if m.code != 0 || warned != (tt.warnings != nil) || silent {
					c.Errorf("%+v: %s: got the exit code %d: %s", tt, command, m.code, m.stderr)
				}
				if !strings.Contains(m.stdout, tt.secret) {
					c.Errorf("%+v: %s: no permissions for the Secret:\n%s", tt, command, m.stdout)
				}
				if command == "manifests" && !strings.Contains(m.stdout, "terminationGracePeriodSeconds: 125") {
					c.Errorf("%+v: got %s, want 125 seconds to end", tt, m.stdout)
				}
			}
		}
		if m := c.print(hooked, "manifests", "--name=web"); !strings.Contains(m.stdout, "terminationGracePeriodSeconds: 30") {
			c.Errorf("got %s, want the default of 30 seconds to end", m.stdout)
		}
	})
	c.Run(t, "DF-78 flags of manifests take precedence over Configure", func(c *C) {
		m := c.print(func(r *kopf.Registry) {
			hooked(r)
			r.Configure(func(s *kopf.Settings) {
				s.LeaderElection.Name, s.Admission.Managed = "our-lease", "hooks.example.com"
				s.Admission.Server = &kopf.WebhookServer{Port: 8443, Service: &kopf.ServiceReference{Name: "web"}}
			})
		}, "manifests", "--name=web", "--leader-elect=other", "--webhook-port=1234")
		if m.code != 0 || !strings.Contains(m.stdout, "--leader-elect=other") || !strings.Contains(m.stdout, "containerPort: 1234") {
			c.Errorf("got %+v", m)
		}
		if !strings.Contains(m.stderr, "the manifests expect s.Admission.Server = &kopf.WebhookServer{Port: 1234,") {
			c.Errorf("got %s", m.stderr)
		}
	})
}

func allowingTimeToEnd(t *testing.T, c *C) {
	const minutes = 2 * time.Minute
	wait := func(ctx context.Context, _ *kopf.Daemon) error { <-ctx.Done(); return nil }
	daemon := func(r *kopf.Registry, o kopf.DaemonOptions) {
		o.ID = "d"
		r.OnDaemon("websites.example.com", wait, &o)
	}
	timer := func(r *kopf.Registry) {
		tick := func(context.Context, *kopf.Timer) error { return nil }
		r.OnTimer("websites.example.com", tick, &kopf.TimerOptions{ID: "t", Interval: minutes})
	}
	exiting := func(r *kopf.Registry, timeout time.Duration) {
		r.Configure(func(s *kopf.Settings) { s.Background.ExitTimeout = timeout })
	}
	const unlimited = "Warning: the operator waits for %s without a limit when it stops, " +
		"but Kubernetes kills its pod after terminationGracePeriodSeconds"
	for name, tt := range map[string]struct {
		register func(r *kopf.Registry)
		grace    string
		warnings []string
	}{
		"no daemon, for which the setting has no effect": {func(r *kopf.Registry) {
			exiting(r, 0)
		}, "30", nil},
		"a daemon with a CancellationTimeout": {func(r *kopf.Registry) {
			daemon(r, kopf.DaemonOptions{CancellationTimeout: minutes})
		}, "127", nil},
		"a daemon with a CancellationBackoff": {func(r *kopf.Registry) {
			daemon(r, kopf.DaemonOptions{CancellationBackoff: minutes})
		}, "132", nil},
		"a daemon with both, and a timer without a limit": {func(r *kopf.Registry) {
			daemon(r, kopf.DaemonOptions{CancellationBackoff: minutes, CancellationTimeout: minutes})
			timer(r)
			exiting(r, 0)
		}, "247", []string{"OnTimer t"}},
		"a daemon without a limit": {func(r *kopf.Registry) {
			daemon(r, kopf.DaemonOptions{})
			exiting(r, 0)
		}, "30", []string{"OnDaemon d"}},
		"a timer": {func(r *kopf.Registry) {
			timer(r)
			exiting(r, minutes)
		}, "127", nil},
		"a daemon that may take long to be stopped": {func(r *kopf.Registry) {
			daemon(r, kopf.DaemonOptions{})
			r.Configure(func(s *kopf.Settings) { s.Background.InstantExitTimeout = minutes })
		}, "127", nil},
		"clean-up handlers, which follow the daemons": {func(r *kopf.Registry) {
			daemon(r, kopf.DaemonOptions{})
			clean := func(context.Context, *kopf.Activity) error { return nil }
			r.OnCleanup(clean, &kopf.ActivityOptions{ID: "a", Timeout: time.Minute})
			r.OnCleanup(clean, &kopf.ActivityOptions{ID: "b", Timeout: minutes})
		}, "132", nil},
	} {
		c.Run(t, "DF-63 the manifests leave a pod the time to end: "+name, func(c *C) {
			register := func(r *kopf.Registry) { website(r); tt.register(r) }
			m := c.print(register, "manifests", "--name=web")
			if m.code != 0 || !strings.Contains(m.stdout, "terminationGracePeriodSeconds: "+tt.grace+"\n") {
				c.Errorf("got the exit code %d and %s, want %s seconds to end", m.code, m.stdout, tt.grace)
			}
			for _, of := range tt.warnings {
				if want := fmt.Sprintf(unlimited, of); !strings.Contains(m.stderr, want) {
					c.Errorf("got %q, want %q", m.stderr, want)
				}
			}
			if got := strings.Count(m.stderr, "without a limit"); got != len(tt.warnings) {
				c.Errorf("got %d warnings: %s", got, m.stderr)
			}
			if m := c.print(register, "explain-rights", "--name=web"); m.stderr != "" {
				c.Errorf("explain-rights: got %s", m.stderr)
			}
		})
	}
}

func overriding(t *testing.T, c *C) {
	const message = "A start-up handler has changed a setting that a flag gives, so the flag has no effect"
	c.Run(t, "DF-80 a start-up handler that overrides a flag is warned of", func(c *C) {
		for args, want := range map[string]string{
			"--priority=5":       "setting=Peering.Priority",
			"--standalone":       "setting=Peering.Standalone",
			"--leader-elect=one": "setting=LeaderElection.Name",
			"--peering=one":      "setting=Peering.Name",
			"--verbose":          "",
		} {
			r := &kopf.Registry{}
			r.Configure(func(s *kopf.Settings) { s.Peering.Priority, s.LeaderElection.Name = 1, "other" })
			r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
				a.Settings.Peering.Priority, a.Settings.Peering.Standalone, a.Settings.Peering.Name = 2, false, "two"
				a.Settings.LeaderElection.Name = "two"
				a.Settings.Watching.PageSize = -5 // the operator ends
				return nil
			}, id("startup"))
			code, _, stderr := c.inspect(c.Context(), r, append([]string{"run", "--log-format=plain"}, args)...)
			if found := strings.Contains(stderr, message); code != 1 || found != (want != "") || !strings.Contains(stderr, want) {
				c.Errorf("%s: got the exit code %d and %s", args, code, stderr)
			}
		}
	})
}
