package contract

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves which settings the operator refuses at its start, before it changes objects, and for which it logs warnings.

var _ = Suite("settings_validation", func(t *testing.T, c *C) {
	refusedStorages(t, c)
	warnedStorages(t, c)
	warnedContradictions(t, c)
	c.Run(t, "DF-6 negative numbers and durations are refused at the start", func(c *C) {
		for want, set := range map[string]func(*kopf.Settings){
			"invalid Settings.Persistence.ConsistencyTimeout -1s: want zero or more": func(s *kopf.Settings) { s.Persistence.ConsistencyTimeout = -time.Second },
			"invalid Settings.Queueing.WorkerLimit -1: want zero or more":            func(s *kopf.Settings) { s.Queueing.WorkerLimit = -1 },
			"invalid Settings.Networking.ErrorBackoffs [1s -1s]: want durations of zero or more": func(s *kopf.Settings) {
				s.Networking.ErrorBackoffs = []time.Duration{time.Second, -time.Second}
			},
		} {
			c.refuses(want, set)
		}
	})
	c.Run(t, "DF-6 names that API servers refuse in events are refused at the start", func(c *C) {
		long := strings.Repeat("x", 129)
		for want, set := range map[string]func(*kopf.PostingSettings){
			`ReportingComponent "my operator": want a qualified name such as "example.com/operator"`: func(p *kopf.PostingSettings) { p.ReportingComponent = "my operator" },
			`ReportingComponent "": want a qualified name such as "example.com/operator"`:            func(p *kopf.PostingSettings) { p.ReportingComponent = "" },
			`ReportingInstance "": want 1 to 128 bytes`:                                              func(p *kopf.PostingSettings) { p.ReportingInstance = "" },
			`ReportingInstance "` + long + `": want 1 to 128 bytes`:                                  func(p *kopf.PostingSettings) { p.ReportingInstance = long },
			`EventNamePrefix "My_Operator-": want the beginning of a name in lower case, such as "operator-"`: func(p *kopf.PostingSettings) {
				p.EventNamePrefix = "My_Operator-"
			},
		} {
			c.refuses("invalid Settings.Posting."+want, func(s *kopf.Settings) { set(&s.Posting) })
		}
	})
	c.Run(t, "DF-6 all that is wrong with the settings is reported at once, as the start-up handlers have left it", func(c *C) {
		r := withResults(&calls{})
		r.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			a.Settings.Persistence.Finalizer, a.Settings.Watching.PageSize = "x y", -5
			return nil
		}, id("configure"))
		err := c.runWith(r, func(*kopf.Settings) {})
		if want := "invalid Settings.Watching.PageSize -5: want zero or more\ninvalid Settings.Persistence.Finalizer \"x y\": want a qualified name such as \"example.com/finalizer\""; err == nil || err.Error() != want {
			c.Errorf("got the error %v, want %s", err, want)
		}
	})
})

// runWith runs an operator with some settings until it ends.
func (c *C) runWith(r *kopf.Registry, set func(*kopf.Settings)) error {
	op := &kopf.Operator{Registry: r, Settings: kopf.NewSettings(), Connection: c.ConnectionInfo(), Namespaces: []string{c.Namespace}}
	set(op.Settings)
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second) // the timeout expires only if the operator refuses nothing
	defer cancel()
	return op.Run(ctx)
}

// refuses checks that an operator does not start with some settings.
func (c *C) refuses(want string, set func(*kopf.Settings)) {
	c.Helper()
	if err := c.runWith(withResults(&calls{}), set); err == nil || err.Error() != want {
		c.Errorf("got the error %v, want %s", err, want)
	}
}

func warnedContradictions(t *testing.T, c *C) {
	for name, tt := range map[string]struct {
		set  func(*kopf.Operator)
		want string // in the one warning; "" for none
	}{
		"the defaults": {func(*kopf.Operator) {}, ""},
		"a mandatory peering, and none": {func(op *kopf.Operator) {
			op.Settings.Peering.Mandatory, op.Settings.Peering.Standalone = true, true
		}, "Settings.Peering.Mandatory has no effect, because Settings.Peering.Standalone disables peering"},
		"a token without the page": {func(op *kopf.Operator) {
			op.Settings.Process.Page.TokenFile = "/nowhere"
		}, "Settings.Process.Page has no effect, because the page is not enabled"},
		"webhook configurations without admission handlers": {func(op *kopf.Operator) {
			op.Settings.Admission.Managed = "a.example.com"
		}, `Settings.Admission.Managed has no effect, because there are no admission handlers: webhook configurations "a.example.com"`},
	} {
		c.Run(t, "DF-80 settings without effect are told at the start: "+name, func(c *C) {
			lines := c.Operator(withResults(&calls{}), tt.set).Logs.Find("has no effect")
			if want := min(len(tt.want), 1); len(lines) != want || want > 0 && !strings.Contains(lines[0].Message, tt.want) {
				c.Errorf("got %+v, want %q", lines, tt.want)
			}
		})
	}
	c.Run(t, "DF-80 the peering of an operator takes precedence over a standalone one in its settings", func(c *C) {
		r := &kopf.Registry{}
		var got kopf.PeeringSettings
		r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
			got = a.Settings.Peering
			return kopf.Permanent(errors.New("enough"))
		}, id("startup"))
		op := &kopf.Operator{Registry: r, Peering: "x", Settings: kopf.NewSettings(), Connection: c.ConnectionInfo()}
		op.Settings.Peering.Standalone = true
		if err := op.Run(c.Context()); err == nil || got.Name != "x" || !got.Mandatory || got.Standalone {
			c.Errorf("got %+v, %v", got, err)
		}
	})
}

func refusedStorages(t *testing.T, c *C) {
	const p = "invalid Settings.Persistence."
	c.Run(t, "CH-T34 a finalizer that cannot be, or that would be removed and added without end, is refused at the start", func(c *C) {
		c.Create("a", nil)
		noFinalizer := `Finalizer "": want a qualified name such as "example.com/finalizer", or the default of NewSettings()`
		c.refuses(p+noFinalizer, func(s *kopf.Settings) { s.Persistence.Finalizer = "" })
		c.refuses(p+noFinalizer, func(s *kopf.Settings) {
			*s = kopf.Settings{Scanning: kopf.ScanningSettings{Disabled: true}, Posting: s.Posting}
		})
		c.refuses(p+`Finalizer "orphan": want another name than those of Kubernetes, such as "example.com/finalizer"`, func(s *kopf.Settings) { s.Persistence.Finalizer = "orphan" })
		c.refuses(p+`LegacyFinalizers[0] "": want a qualified name such as "example.com/finalizer"`, func(s *kopf.Settings) { s.Persistence.LegacyFinalizers = []string{""} })
		c.refuses(p+`LegacyFinalizers[0] "kopf.zalando.org/KopfFinalizerMarker": want another finalizer than Settings.Persistence.Finalizer`,
			func(s *kopf.Settings) { s.Persistence.LegacyFinalizers = []string{s.Persistence.Finalizer} })
	})
	c.Run(t, "a storage that there is not is refused at the start", func(c *C) {
		c.refuses(p+"Storage 7: want InAnnotations or InStatus", func(s *kopf.Settings) { s.Persistence.Storage = 7 })
		c.refuses(p+"ProgressStorage (*kopf.SmartProgressStorage)(nil): want a storage", func(s *kopf.Settings) { s.Persistence.ProgressStorage = (*kopf.SmartProgressStorage)(nil) })
		c.refuses(p+"DiffBaseStorage[1] nil: want a storage", func(s *kopf.Settings) {
			s.Persistence.DiffBaseStorage = kopf.MultiDiffBaseStorage{&kopf.AnnotationsDiffBaseStorage{}, nil}
		})
		c.refuses(p+"DiffBaseStorage kopf.MultiDiffBaseStorage{}: want at least one storage", func(s *kopf.Settings) { s.Persistence.DiffBaseStorage = kopf.MultiDiffBaseStorage{} })
	})
	c.Run(t, "CH-137 prefixes and keys that Kubernetes would refuse are refused at the start", func(c *C) {
		c.refuses(p+`ProgressStorage.Prefix "bad prefix!": want a domain such as "example.com"`, func(s *kopf.Settings) {
			s.Persistence.ProgressStorage = &kopf.SmartProgressStorage{Prefix: "bad prefix!"}
		})
		c.refuses(p+`DiffBaseStorage[0].Key "a b": want letters and digits, with '-', '_' and '.' between them`, func(s *kopf.Settings) {
			s.Persistence.DiffBaseStorage = kopf.MultiDiffBaseStorage{&kopf.AnnotationsDiffBaseStorage{Key: "a b"}, &kopf.SmartDiffBaseStorage{}}
		})
	})
	c.Run(t, "CH-140 ignored fields that no object has are refused at the start", func(c *C) {
		for _, path := range []kopf.FieldPath{"", "spec..size", "spec."} {
			for _, storage := range []kopf.DiffBaseStorage{
				&kopf.SmartDiffBaseStorage{IgnoredFields: []kopf.FieldPath{"spec.x", path}},
				&kopf.AnnotationsDiffBaseStorage{IgnoredFields: []kopf.FieldPath{"spec.x", path}},
				&kopf.StatusDiffBaseStorage{IgnoredFields: []kopf.FieldPath{"spec.x", path}},
			} {
				c.refuses(p+`DiffBaseStorage.IgnoredFields[1] "`+string(path)+`": want keys joined by dots, such as "spec.replicas"`,
					func(s *kopf.Settings) { s.Persistence.DiffBaseStorage = storage })
			}
		}
	})
	c.Run(t, "CH-140 CH-149 fields of users are refused as places at the start", func(c *C) {
		const want = `": want a field of the status, such as "status.kopf.progress"`
		c.refuses(p+`ProgressStorage.TouchField "spec.x`+want, func(s *kopf.Settings) {
			s.Persistence.ProgressStorage = &kopf.StatusProgressStorage{TouchField: "spec.x"}
		})
		c.refuses(p+`ProgressStorage.Field "spec.x`+want, func(s *kopf.Settings) { s.Persistence.ProgressStorage = &kopf.SmartProgressStorage{Field: "spec.x"} })
		c.refuses(p+`DiffBaseStorage.Field "status`+want, func(s *kopf.Settings) {
			s.Persistence.Storage, s.Persistence.DiffBaseStorage = kopf.InStatus, &kopf.SmartDiffBaseStorage{Field: "status"}
		})
		c.refuses(p+`DiffBaseStorage.Field ".x`+want, func(s *kopf.Settings) { s.Persistence.DiffBaseStorage = &kopf.StatusDiffBaseStorage{Field: ".x"} })
	})
	c.Run(t, "CH-140 CH-149 places that are in the way of each other are refused at the start", func(c *C) {
		c.refuses(p+`DiffBaseStorage.Field "status.mine": want a place apart from Settings.Persistence.ProgressStorage.Field "status.mine"`, func(s *kopf.Settings) {
			s.Persistence.ProgressStorage, s.Persistence.DiffBaseStorage = &kopf.StatusProgressStorage{Field: "status.mine"}, &kopf.StatusDiffBaseStorage{Field: "status.mine"}
		})
		c.refuses(p+`DiffBaseStorage.Field "status.kopf.progress.create": want a place apart from Settings.Persistence.ProgressStorage.Field "status.kopf.progress"`, func(s *kopf.Settings) {
			s.Persistence.Storage, s.Persistence.DiffBaseStorage = kopf.InStatus, &kopf.SmartDiffBaseStorage{Field: "status.kopf.progress.create"}
		})
		c.refuses(p+`DiffBaseStorage.Key "create": want a place apart from the progress of the handler "create"`, func(s *kopf.Settings) {
			s.Persistence.DiffBaseStorage = &kopf.SmartDiffBaseStorage{Key: "create"}
		})
		c.refuses(p+`ProgressStorage.Field "status.create.x": want a field apart from "status.create", where the result of the handler with that ID is stored`, func(s *kopf.Settings) {
			s.Persistence.ProgressStorage = &kopf.StatusProgressStorage{Field: "status.create.x"}
		})
	})
	c.Run(t, "a handler whose result would take the place of the state is refused at the start, but only InStatus", func(c *C) {
		r := &kopf.Registry{}
		var l calls
		r.OnCreate(statusExamples, l.handler("kopf"), named("kopf"))
		err := c.runWith(r, func(s *kopf.Settings) { s.Persistence.Storage = kopf.InStatus })
		if want := `Field "status.kopf.progress": want a field apart from "status.kopf"`; err == nil || !strings.Contains(err.Error(), want) {
			c.Errorf("got the error %v, want %s", err, want)
		}
		c.Operator(r)
		c.statuses().Create("a", nil)
		c.expect(&l, "kopf create 0")
	})
}

// warnedStorages proves the warnings about settings that work in an unexpected way.
func warnedStorages(t *testing.T, c *C) {
	c.Run(t, "InStatus warns of storages that do not follow it", func(c *C) {
		of := func(name, kind string) string {
			return "Settings.Persistence.Storage = InStatus has no effect on Settings.Persistence." + name + ", which is a " + kind + ": only a *kopf.Smart" + name + " follows it"
		}
		for _, tt := range []struct {
			progress kopf.ProgressStorage
			states   kopf.DiffBaseStorage
			want     []string
		}{
			{nil, nil, nil},
			{&kopf.SmartProgressStorage{}, &kopf.SmartDiffBaseStorage{}, nil},
			{&kopf.StatusProgressStorage{}, &kopf.StatusDiffBaseStorage{}, nil},
			{&kopf.AnnotationsProgressStorage{}, nil, []string{of("ProgressStorage", "*kopf.AnnotationsProgressStorage")}},
			{nil, kopf.MultiDiffBaseStorage{&kopf.SmartDiffBaseStorage{}}, []string{of("DiffBaseStorage", "kopf.MultiDiffBaseStorage")}},
			{nil, &faultyDiffBase{}, nil},
			{&faultyProgress{}, &faultyDiffBase{}, []string{of("ProgressStorage", "*contract.faultyProgress"), of("DiffBaseStorage", "*contract.faultyDiffBase")}},
		} {
			for _, storage := range []kopf.Storage{kopf.InAnnotations, kopf.InStatus} {
				op := c.Operator(withResults(&calls{}), func(op *kopf.Operator) {
					op.Settings.Persistence.Storage, op.Settings.Persistence.ProgressStorage, op.Settings.Persistence.DiffBaseStorage = storage, tt.progress, tt.states
				})
				var got, want []string
				for _, line := range warned(op, "has no effect") {
					got = append(got, line.Message)
				}
				if storage == kopf.InStatus {
					want = tt.want
				}
				if !slices.Equal(got, want) {
					c.Errorf("%T and %T, %s: got the warnings %q, want %q", tt.progress, tt.states, storage, got, want)
				}
				op.Stop()
			}
		}
	})
	c.Run(t, "DF-80 a prefix of one storage alone is warned of", func(c *C) {
		of := func(name string) string {
			return "Settings.Persistence." + name + ` has the prefix "kopf.zalando.org", which other operators have, too, ` +
				`but the other storage has the prefix "example.com": set the prefix of both`
		}
		const prefix = "example.com"
		both := kopf.MultiProgressStorage{&kopf.SmartProgressStorage{Prefix: prefix}, &kopf.SmartProgressStorage{}}
		for _, tt := range []struct {
			progress kopf.ProgressStorage
			states   kopf.DiffBaseStorage
			want     string
		}{
			{nil, nil, ""},
			{&kopf.AnnotationsProgressStorage{Prefix: prefix}, &kopf.SmartDiffBaseStorage{Prefix: prefix}, ""},
			{&kopf.AnnotationsProgressStorage{Prefix: prefix}, &kopf.SmartDiffBaseStorage{Prefix: "other.example.com"}, ""},
			{&kopf.SmartProgressStorage{Prefix: prefix}, nil, of("DiffBaseStorage")},
			{nil, &kopf.SmartDiffBaseStorage{Prefix: prefix}, of("ProgressStorage")},
			{both, &kopf.AnnotationsDiffBaseStorage{Prefix: prefix}, ""},
			{both, nil, ""},
			{&kopf.StatusProgressStorage{}, &kopf.SmartDiffBaseStorage{Prefix: prefix}, ""},
			{&faultyProgress{}, &kopf.SmartDiffBaseStorage{Prefix: prefix}, ""},
		} {
			op := c.Operator(withResults(&calls{}), func(op *kopf.Operator) {
				op.Settings.Persistence.ProgressStorage, op.Settings.Persistence.DiffBaseStorage = tt.progress, tt.states
			})
			lines := warned(op, "set the prefix of both")
			if want := min(len(tt.want), 1); len(lines) != want || want > 0 && lines[0].Message != tt.want {
				c.Errorf("%T and %T: got the warnings %+v, want %q", tt.progress, tt.states, lines, tt.want)
			}
			op.Stop()
		}
	})
	c.Run(t, "a finalizer without a domain is warned of", func(c *C) {
		op := c.Operator(withResults(&calls{}), func(op *kopf.Operator) { op.Settings.Persistence.Finalizer = "mine" })
		if n := len(warned(op, `the finalizer "mine" has no domain`)); n != 1 {
			c.Errorf("there are %d warnings, want one", n)
		}
	})
}
