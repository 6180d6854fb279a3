package contract

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kopf-go/kopf"
)

// settingProofs has a test for each field of the settings that sets the field, and fails if it has no effect: the name of a leaf of the suites, of a
// function that proves one, or of a test of the package itself.
var settingProofs = map[string]string{
	"Process.UltimateExitingTimeout": "TestSignals",
	"Process.Debug":                  "/debug/ is what the settings say, and nothing by default",
	"Process.Decisions":              "OB-17 what the prefilter drops is a decision, too",
	"Process.Page":                   "OB-24 on other addresses than loopback, the start fails without a token",
	"Process.Audit":                  "OB-28 an audit that fails or panics stops nothing",
	"Tracing.Tracer":                 "OB-34 OB-40 OB-41 cycles, handlers and requests are spans, which requests carry",
	"Tracing.Ratio":                  "OB-38 OB-45 nothing is traced that is not sampled",
	"Tracing.Annotation":             "OB-42 an annotation is linked to, copied to children, and no change",
	"Posting.Enabled":                "OP-T17 nothing is posted if that is switched off, warnings neither",
	"Posting.Loggers":                "OP-T23 what comes from logs has the reason Logging",
	"Posting.Level":                  "OP-100 events below the level of the settings are not posted",
	"Posting.ReportingComponent":     "OP-48 the settings name the operator in its events",
	"Posting.ReportingInstance":      "OP-48 the settings name the operator in its events",
	"Posting.EventNamePrefix":        "OP-48 the settings name the operator in its events",
	"Peering.Name":                   "OP-77 the kind is that of the scope, and the name and the namespace keep peerings apart",
	"Peering.Priority":               "OP-78 a record is the priority, the lifetime and the time",
	"Peering.Lifetime":               "OP-78 a record is the priority, the lifetime and the time",
	"Peering.Mandatory":              "OP-97 the mandatory mode pauses until the kind and the object exist",
	"Peering.Standalone":             "OP-97 a standalone operator has no peers",
	"Peering.Stealth":                "OP-86 keep-alives are logged for those who debug, but not in stealth",
	"Peering.Clusterwide":            "OP-77 the kind is that of the scope, and the name and the namespace keep peerings apart",
	"Watching.ServerTimeout":         "OP-T13 time-outs of the server are whole seconds",
	"Watching.ClientTimeout":         "TestStreamPauses",
	"Watching.ConnectTimeout":        "TestConnectTimeout",
	"Watching.ReconnectBackoff":      "DF-6 ReconnectBackoff is the pause before a watch is opened again",
	"Watching.InactivityTimeout":     "DF-6 InactivityTimeout is the silence after which a watch is opened again",
	"Watching.PageSize":              "DF-6 PageSize is the number of objects that a listing asks for at once",
	"Queueing.WorkerLimit":           "CH-65 a limit of workers lets the other objects wait",
	"Queueing.ExitTimeout":           "BG-90 activities do not wait for indices",
	"Queueing.ErrorDelays":           "BG-13 nothing is spawned while the object pauses after an error",
	"Queueing.FlappingRounds":        "proveFlappingSettings",
	"Queueing.FlappingPause":         "proveFlappingSettings",
	"Scanning.Disabled":              "CH-36 if scanning is disabled, what was there at the start is served, without a word",
	"Execution.DefaultBackoff":       "BG-4 without options, a daemon is tried for ever, a minute after each error",
	"Execution.QuickRetries":         "proveSlowing",
	"Execution.FlushAfter":           "DF-6 FlushAfter is how long what is finished may wait to be stored",
	"Execution.MaxWorkers":           "DF-6 MaxWorkers limits how many handlers run at the same time, of all objects together",
	"Background.CancellationPolling": "DF-6 CancellationPolling is how often it is reported that a daemon is still exiting",
	"Background.InstantExitTimeout":  "DF-6 InstantExitTimeout is how long a daemon may take before its exit is reported",
	"Background.ExitTimeout":         "DF-6 Background.ExitTimeout is how long daemons are waited for at the end",
	"Admission.Server":               "proveServerStart",
	"Admission.Managed":              "proveNoEmptyConfiguration",
	"Admission.ShutdownDelay":        "DF-67 a replica that stops answers reviews until they go to the others",
	"Networking.RequestTimeout":      "AC-83 an attempt of a request has its time, and a watch has not",
	"Networking.ConnectTimeout":      "TestConnectTimeout",
	"Networking.ErrorBackoffs":       "TestClientRepeats",
	"Networking.EnforceRetryAfter":   "TestClientRepeats",
	"Networking.TrustEnv":            "DF-6 TrustEnv reaches the logins",
	"Networking.MaxInFlight":         "DF-6 MaxInFlight limits the requests that are made at the same time",
	"LeaderElection.Name":            "HA-20 several operators in one process have elections of their own: Namespace and Name",
	"LeaderElection.Namespace":       "HA-20 several operators in one process have elections of their own: Namespace and Name",
	"LeaderElection.LeaseDuration":   "HA-4 the times have to fit each other: LeaseDuration, RenewDeadline, RetryPeriod",
	"LeaderElection.RenewDeadline":   "HA-4 the times have to fit each other: LeaseDuration, RenewDeadline, RetryPeriod",
	"LeaderElection.RetryPeriod":     "HA-4 the times have to fit each other: LeaseDuration, RenewDeadline, RetryPeriod",
	"Networking.RequestRate":         "AC-83 what is too much in a second waits",
	"Networking.RequestBurst":        "AC-83 what is too much in a second waits",
	"Persistence.Finalizer":          "OP-1 settings are adjusted by start-up handlers",
	"Persistence.LegacyFinalizers":   "CH-T34 the finalizers of an older operator are removed",
	"Persistence.Storage":            "Settings.Persistence.Storage: InStatus takes one request for all that a handling leaves",
	"Persistence.ProgressStorage":    "CH-147 a storage of the user's own keeps the progress",
	"Persistence.DiffBaseStorage":    "a large state fits with ignored fields, or in another place",
	"Persistence.IgnoreCopies":       "copies",
	"Persistence.ConsistencyTimeout": "CH-200 our own patch has to come back, unless that is switched off",
}

// beginning matches the start of a test: a leaf, or a function.
var beginning = regexp.MustCompile(`(?m)c\.Run\(t, "([^"]+)", func|^func (?:\([^)]*\) )?(\w+)\(`)

// proofs returns the sources of all tests by their names.
func proofs(t *testing.T) map[string]string {
	all := make(map[string]string)
	for _, pattern := range []string{"*.go", "../../*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source := string(data)
			marks := beginning.FindAllStringSubmatchIndex(source, -1)
			for i, at := range marks {
				end := len(source)
				if i+1 < len(marks) {
					end = marks[i+1][0]
				}
				name := source[max(at[2], at[4]):max(at[3], at[5])]
				all[name] += source[at[0]:end]
			}
		}
	}
	return all
}

func TestSettings(t *testing.T) {
	t.Run("DF-6 each field has a test that sees its effect", func(t *testing.T) {
		sources := proofs(t)
		var fields []string
		groups := reflect.TypeFor[kopf.Settings]()
		for _, group := range reflect.VisibleFields(groups) {
			for _, field := range reflect.VisibleFields(group.Type) {
				if field.IsExported() {
					fields = append(fields, group.Name+"."+field.Name)
				}
			}
		}
		for _, field := range fields {
			proof := settingProofs[field]
			_, name, _ := strings.Cut(field, ".")
			switch source := sources[proof]; {
			case proof == "":
				t.Errorf("%s has no proof that it has an effect", field)
			case source == "":
				t.Errorf("%s: there is no test named %q", field, proof)
			case !strings.Contains(strings.ToLower(source), strings.ToLower(name)):
				t.Errorf("%s: the test %q does not name it", field, proof)
			}
		}
		for field := range settingProofs {
			if !slices.Contains(fields, field) {
				t.Errorf("%s is no setting", field)
			}
		}
	})
}
