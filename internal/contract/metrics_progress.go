package contract

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that an operator without progress is visible to the alerts that its manifests
// contain, even if all of its probes succeed.

var _ = SerialSuite("metrics_progress", func(t *testing.T, c *C) {
	stuckHandlers(t, c)
	silentStreams(t, c)
})

// comparison is the beginning of the alerts that compare one metric, or its age, with a number.
var comparison = regexp.MustCompile(`^(time\(\) - )?(kopf_\w+)\{[^}]*\} > (\d+)`)

// alerting returns the names of the alerts that compare one metric with a number, and whose
// comparison holds for a series of the metrics now. The expressions are those of the manifests.
func (c *C) alerting(p *pipe) (names []string) {
	c.Helper()
	page := p.ask("GET", "/metrics").body
	compared := 0
	for _, object := range c.manifests(website, "--only=alerts") {
		for _, group := range field(object, "spec").(map[string]any)["groups"].([]any) {
			for _, rule := range group.(map[string]any)["rules"].([]any) {
				name, expr := field(rule, "alert").(string), field(rule, "expr").(string)
				parts := comparison.FindStringSubmatch(expr)
				if parts == nil {
					continue
				}
				compared++
				limit, _ := strconv.ParseFloat(parts[3], 64) // it is a number
				if highest(c, page, parts[2], parts[1] != "") > limit {
					names = append(names, name)
				}
			}
		}
	}
	if compared < 5 {
		c.Fatalf("only %d alerts compare one metric", compared)
	}
	slices.Sort(names)
	return names
}

// highest returns the highest value of the series of a metric, or the highest age of its times. It
// returns 0 if there is no series.
func highest(c *C, page, metric string, age bool) (value float64) {
	c.Helper()
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if name := strings.TrimPrefix(line, metric); name == line || !strings.ContainsAny(name[:1], "{ ") {
			continue
		}
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			c.Errorf("%s: %v", line, err)
		}
		if age {
			v = float64(time.Now().UnixNano())/1e9 - v
		}
		value = max(value, v)
	}
	return value
}

// allGreen fails unless the operator is alive and ready.
func (c *C) allGreen(p *pipe) {
	c.Helper()
	wantAnswer(c, "liveness", p.ask("GET", "/healthz"), "200 {}")
	if a := p.ask("GET", "/readyz"); a.code != http.StatusOK {
		c.Errorf("readiness: %s", a)
	}
}

func stuckHandlers(t *testing.T, c *C) {
	c.Run(t, "OB-T2 a handler that hangs is visible to alerts, though all probes succeed", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if ch.Spec().Bool("hangs") {
				select {
				case <-ctx.Done():
				case <-release:
				}
			}
			return ctx.Err()
		}, named("create"))
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"), func(op *kopf.Operator) { op.Settings.Queueing.WorkerLimit = 1 })
		c.Create("well", nil)
		c.handled("well")
		c.Pass(20 * time.Minute)
		c.same("the alerts of an operator that is well", []string(nil), c.alerting(p))
		c.Create("stuck", spec(map[string]any{"hangs": true}))
		c.Create("next", nil)
		c.Pass(20 * time.Minute)
		c.allGreen(p)
		c.same("the alerts", []string{"KopfHandlerHangs", "KopfQueueStuck"}, c.alerting(p))
		close(release)
		c.handled("next")
		c.same("the alerts after the end of the call", []string(nil), c.alerting(p))
	})
	for how, want := range map[string][]string{"again": {"KopfHandlerFailing"}, "permanently": {"KopfObjectsFailed"}} {
		c.Run(t, "OB-T2 handlers that fail "+how+" are visible to alerts, though all probes succeed", func(c *C) {
			c.OnlyInBubble("it waits")
			p := newPipe()
			c.Operator(troubled(), probed(p, "http://0.0.0.0/healthz"))
			for _, handler := range []string{"change", "timer", "reconcile"} {
				c.Create(handler, spec(map[string]any{handler: how}))
				for range 5 { // a retry that is due must not hide the others
					c.Pass(4*time.Minute + 7*time.Second)
					c.allGreen(p)
					c.same("the alerts", want, c.alerting(p))
				}
				c.Delete(handler)
				c.Pass(time.Minute)
				c.same("the alerts after the deletion", []string(nil), c.alerting(p))
			}
		})
	}
}

func silentStreams(t *testing.T, c *C) {
	c.Run(t, "OB-T2 a watch stream that is open but silent is visible to alerts, though all probes succeed", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		var silent atomic.Bool
		op := c.Operator(r, probed(p, "http://0.0.0.0/healthz"), wired(func(q *Request) (*http.Response, error) {
			if !silent.Load() || !strings.Contains(q.Path, "watch=true") {
				return nil, nil
			}
			// A proxy accepts the request, and forwards nothing.
			body, _ := io.Pipe()
			resp := document("")
			resp.Body, resp.ContentLength = body, -1
			return resp, nil
		}))
		c.Pass(20 * time.Minute)
		c.same("the alerts of an operator that is idle", []string(nil), c.alerting(p))
		silent.Store(true)
		op.Wire.Drop()
		c.Pass(time.Second)
		c.Create("late", nil)
		for range 5 { // new connections are no events
			c.Pass(4*time.Minute + 7*time.Second)
			c.allGreen(p)
			c.same("the alerts", []string{"KopfStreamSilent"}, c.alerting(p))
		}
		if n := l.count("create"); n != 0 {
			c.Errorf("got %d calls through a silent stream", n)
		}
		silent.Store(false)
		c.handled("late")
		c.Pass(2 * time.Minute)
		c.same("the alerts after the silence", []string(nil), c.alerting(p))
	})
}
