package contract

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves the command line of operators, in 4-operator-and-kits.md.

var _ = SerialSuite("operator_cli", func(t *testing.T, c *C) {
	freezing(t, c)
	complaining(t, c)
	explainingCodes(t, c)
})

// command runs a command of the command line on the server of the leaf.
func (c *C) command(args ...string) (code int, stdout, stderr string) {
	c.Helper()
	c.changesProcess()
	before, logger := kopf.DefaultRegistry(), slog.Default()
	defer kopf.SetDefaultRegistry(before)
	defer slog.SetDefault(logger)
	r := &kopf.Registry{}
	r.OnLogin(func(context.Context, *kopf.Login) (*kopf.ConnectionInfo, error) { return c.ConnectionInfo(), nil }, &kopf.ActivityOptions{ID: "login"})
	kopf.SetDefaultRegistry(r)
	var out, errs bytes.Buffer
	code = kopf.Command(c.Context(), args, &out, &errs)
	c.Logf("%q: exit code %d, stdout %q, stderr %q", args, code, &out, &errs)
	return code, out.String(), errs.String()
}

// obey runs a command that must succeed.
func (c *C) obey(args ...string) string {
	c.Helper()
	code, stdout, stderr := c.command(args...)
	if code != 0 {
		c.Fatalf("%q: got the exit code %d: %s", args, code, stderr)
	}
	return stdout
}

func freezing(t *testing.T, c *C) {
	c.Run(t, "OP-60 freeze writes one record, and does not renew it", func(c *C) {
		k := c.meet()
		k.sit("low", rival(-1, 3600))
		began := time.Now()
		stdout := c.obey("freeze", "-n", c.Namespace, "-P", "default", "-i", "boss", "-t", "600", "-m", "for the backup", "-q")
		record := k.Get("default").Status().View(kopf.Path("boss")).Map()
		seen, err := time.Parse(time.RFC3339, record["lastseen"].(string))
		if passed := seen.Sub(began).Abs(); err != nil || passed > 30*time.Second {
			c.Errorf("got the record %v (%v)", record, err)
		}
		delete(record, "lastseen")
		c.same("the record", `{"lifetime":600,"priority":100}`, strings.Join(strings.Fields(encoded(record)), ""))
		if want := `The record of "boss" with priority 100 is in force for 10m0s in kopfpeerings.v1.kopf.dev "default" in ` + c.Namespace + ": for the backup.\n"; stdout != want {
			c.Errorf("got the output %q, want %q", stdout, want)
		}
		version := k.Get("default").ResourceVersion()
		c.Pass(2 * time.Second)
		if got := k.Get("default"); got.ResourceVersion() != version || !slices.Equal(k.seats("default"), []string{"boss", "low"}) {
			c.Error("the record was renewed")
		}
	})
	c.Run(t, "OP-60 the lifetime can be a duration as Go writes it", func(c *C) {
		k := c.meet()
		for duration, want := range map[string]int64{"90": 90, "1m30s": 90, "1.5s": 2, "1h": 3600, time.Duration(math.MaxInt64).String(): math.MaxInt64 / int64(time.Second)} {
			c.obey("freeze", "-n", c.Namespace, "-P", "default", "-i", "boss", "--lifetime", duration)
			if got := k.Get("default").Status().View(kopf.Path("boss")).Int("lifetime"); got != want {
				c.Errorf("%s: got a lifetime of %d seconds, want %d", duration, got, want)
			}
		}
	})
	c.Run(t, "OP-60 freeze lets operators pause, also of other groups and namespaces, and its priority can be chosen", func(c *C) {
		c.OnlyInBubble("it needs more namespaces")
		k, legacy := c.meet(), c.peeringKind("zalando.org", "Namespaced", nil)
		legacy.Create("default", nil)
		c.Of("v1", "Namespace").Create("leaf2", nil)
		other := *c
		other.Namespace = "leaf2"
		second := *k
		second.c = &other
		second.Create("default", nil)
		var l calls
		op := c.Operator(worker(&l), as("me"), func(op *kopf.Operator) { op.Settings.Peering.Priority = 200 })
		c.obey("freeze", "-n", "leaf*,!leaf3", "--peering", "default", "--id", "boss", "--lifetime", "600")
		c.works(&l, "a")
		for _, k := range []*Kind{k, legacy, &second} {
			if got := k.seats("default"); !slices.Contains(got, "boss") {
				c.Errorf("got the records %q", got)
			}
		}
		c.obey("freeze", "-n", "leaf", "-P", "default", "-i", "boss", "-t", "600", "-p", "201")
		c.paused(op, 1)
		c.idles(&l, "b")
		c.obey("resume", "-n", "leaf", "-n", "leaf2", "-P", "default", "-i", "boss")
		c.WaitFor("b", func() bool { return slices.Contains(l.all(), "b") })
		c.obey("freeze", "-n", "leaf", "-P", "default", "-i", "boss", "-t", "60", "--dev")
		c.paused(op, 2)
		if got := k.Get("default").Status().View(kopf.Path("boss")).Int("priority"); got != 666 {
			c.Errorf("got the priority %d of developers", got)
		}
		began := time.Now()
		c.Create("c", nil)
		c.expect(&l, "a", "b", "c")
		if passed := time.Since(began); passed < 59*time.Second || passed > 61*time.Second {
			c.Errorf("the operator has gone on after %s", passed)
		}
	})
	c.Run(t, "OP-60 freeze of the whole cluster is in the cluster's kind", func(c *C) {
		k, cluster := c.meet(), c.peeringKind("kopf.dev", "Cluster", nil)
		name := c.Unique("main")
		k.Create(name, nil)
		cluster.Create(name, nil)
		for _, args := range [][]string{{"-A"}, nil} {
			c.obey(append([]string{"freeze", "-P", name, "-i", "boss", "-t", "600"}, args...)...)
			c.same("the records", []string{"boss"}, cluster.seats(name))
			c.obey(append([]string{"resume", "-P", name, "-i", "boss"}, args...)...)
			c.same("the records", []string(nil), cluster.seats(name))
		}
		c.same("the records in the namespace", []string(nil), k.seats(name))
	})
	c.Run(t, "OP-61 resume removes the record of the identity, and no other", func(c *C) {
		k := c.meet()
		k.sit("low", rival(-1, 3600))
		k.sit("boss", rival(100, 3600))
		stdout := c.obey("resume", "-n", c.Namespace, "-P", "default", "-i", "boss")
		c.same("the records", []string{"low"}, k.seats("default"))
		if !strings.Contains(stdout, `The record of "boss" is removed from kopfpeerings.v1.kopf.dev "default"`) {
			c.Errorf("got %q", stdout)
		}
	})
	c.Run(t, "OP-83 both commands meet on the user and the host, or on the pod", func(c *C) {
		k := c.meet()
		c.Setenv("POD_ID", "")
		c.Setenv("LOGNAME", "")
		c.Setenv("USER", "somebody")
		freeze, resume := []string{"freeze", "-n", c.Namespace, "-P", "default", "-t", "600"}, []string{"resume", "-n", c.Namespace, "-P", "default"}
		c.obey(freeze...)
		if got := k.seats("default"); len(got) != 1 || !strings.HasPrefix(got[0], "somebody@") || strings.Contains(got[0], "/") {
			c.Errorf("got the records %q", got)
		}
		c.obey(resume...)
		c.same("the records", []string(nil), k.seats("default"))
		c.Setenv("POD_ID", "pod-1")
		code, _, stderr := c.command(freeze...)
		c.same("the records", []string{"pod-1"}, k.seats("default"))
		if code != 0 || !strings.Contains(stderr, `that of the pod, "pod-1"`) {
			c.Errorf("got the exit code %d and %q", code, stderr)
		}
		c.obey(resume...)
		c.same("the records", []string(nil), k.seats("default"))
	})
	c.Run(t, "OP-T29 an identity that is given beats that of the pod", func(c *C) {
		k := c.meet()
		c.Setenv("POD_ID", "pod-1")
		code, _, stderr := c.command("freeze", "-n", c.Namespace, "-P", "default", "-t", "600", "-i", "boss")
		if code != 0 || strings.Contains(stderr, "pod-1") {
			c.Errorf("got the exit code %d and %q", code, stderr)
		}
		c.same("the records", []string{"boss"}, k.seats("default"))
	})
	c.Run(t, "OP-58 the options of freeze and resume can come from variables", func(c *C) {
		k := c.meet()
		for _, command := range []string{"FREEZE", "RESUME"} {
			c.Setenv("KOPF_"+command+"_NAMESPACES", c.Namespace)
			c.Setenv("KOPF_"+command+"_PEERING", "default")
			c.Setenv("KOPF_"+command+"_ID", "boss")
		}
		c.Setenv("KOPF_FREEZE_LIFETIME", "60")
		c.Setenv("KOPF_FREEZE_PRIORITY", "7")
		c.obey("freeze")
		if got := k.Get("default").Status().View(kopf.Path("boss")); got.Int("priority") != 7 || got.Int("lifetime") != 60 {
			c.Errorf("got the record %v", got.Map())
		}
		c.obey("freeze", "-p", "8")
		if got := k.Get("default").Status().View(kopf.Path("boss")); got.Int("priority") != 8 {
			c.Errorf("got the record %v", got.Map())
		}
		c.obey("resume")
		c.same("the records", []string(nil), k.seats("default"))
	})
	c.Run(t, "OP-59 the legacy variable is for run alone", func(c *C) {
		k, cluster := c.meet(), c.peeringKind("kopf.dev", "Cluster", nil)
		name := c.Unique("main")
		k.Create(name, nil)
		cluster.Create(name, nil)
		c.Setenv("KOPF_RUN_NAMESPACE", c.Namespace)
		c.Setenv("KOPF_FREEZE_NAMESPACE", c.Namespace)
		c.obey("freeze", "-P", name, "-i", "boss", "-t", "600")
		c.same("the records in the cluster", []string{"boss"}, cluster.seats(name))
	})
}

func complaining(t *testing.T, c *C) {
	refused := func(c *C, what string, args ...string) {
		c.Helper()
		code, stdout, stderr := c.command(args...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, what) {
			c.Errorf("%q: got the exit code %d, and %q on stderr, want 1 and %q", args, code, stderr, what)
		}
	}
	freeze := func(c *C) []string {
		return []string{"freeze", "-n", c.Namespace, "-P", "default", "-i", "boss", "-t", "600"}
	}
	resume := func(c *C) []string { return []string{"resume", "-n", c.Namespace, "-P", "default", "-i", "boss"} }
	c.Run(t, "OP-T35 what writes nothing fails, and says why", func(c *C) {
		c.noPeering()
		k := c.peeringKind("kopf.dev", "Namespaced", nil)
		refused(c, `no peering object "default" was found`, freeze(c)...)
		refused(c, `There is no kopfpeerings.v1.kopf.dev "default" in `+c.Namespace, resume(c)...)
		k.Create("default", map[string]any{"status": map[string]any{"somebody": rival(1, 3600)}})
		refused(c, `there is no record of "boss" in kopfpeerings.v1.kopf.dev "default" in `+c.Namespace+`, only of ["somebody"]`, resume(c)...)
	})
	c.Run(t, "OP-T35 an error of the API is one of the command", func(c *C) {
		c.OnlyInBubble("the server has to refuse")
		c.meet()
		base := c.info.HTTPClient.Transport
		c.info.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPatch {
				return Answer(http.StatusForbidden, "Forbidden", "no, not you"), nil
			}
			return base.RoundTrip(req)
		})}
		refused(c, "no, not you", freeze(c)...)
	})
	c.Run(t, "OP-61 without a kind of peering objects, both commands fail", func(c *C) {
		c.noPeering()
		refused(c, "no resource of peering objects in the cluster", freeze(c)...)
		refused(c, "no resource of peering objects in the cluster", resume(c)...)
	})
	c.Run(t, "OP-51 freeze and resume log as run does", func(c *C) {
		c.meet()
		for _, args := range [][]string{freeze(c), resume(c)} {
			c.obey(append(args, "-v", "-d", "--log-format", "JSON", "--log-refkey", "ref", "--no-log-prefix")...)
			if args[0] == "freeze" {
				continue
			}
			if code, _, stderr := c.command(append(args, "--log-format", "xml")...); code != 2 || !strings.Contains(stderr, `invalid value "xml" for --log-format`) {
				c.Errorf("got the exit code %d and %q", code, stderr)
			}
		}
	})
}

func explainingCodes(t *testing.T, c *C) {
	c.Run(t, "DF-74 help with a code of a message explains it, without a network", func(c *C) {
		for code, want := range map[string]string{"K305": "Handler '…' failed permanently", "k909": "Operator has failed", "K103": "Unresolved resources cannot be served"} {
			stdout := c.obey("help", code)
			if !strings.Contains(stdout, want) || !strings.Contains(stdout, "- Meaning. ") || !strings.Contains(stdout, "- Fix. ") {
				c.Errorf("%s: got %q, want %q in it", code, stdout, want)
			}
		}
		if code, _, stderr := c.command("help", "K999"); code != 2 || !strings.Contains(stderr, `unknown code "K999"`) {
			c.Errorf("got the exit code %d and %q", code, stderr)
		}
	})
}
