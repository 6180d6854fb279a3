package judges

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
	"github.com/kopf-go/kopf/e2e/judges/rivalry"
)

// rivalKinds are the names of the places, and their types of electors.
var rivalKinds = [...][2]string{{"ours", rivalry.Ours}, {"elector", rivalry.ClientGo}, {"manager", rivalry.Manager}}

// TestRivals has an operator of kopf, an elector of client-go, and a manager of controller-runtime take one Lease from each other. It tests the six pairs of
// two of them and one pair of kopf with itself. In each, the holder releases the Lease once, and dies once. The clocks of the two others are minutes ahead.
func TestRivals(t *testing.T) {
	binary := buildRival(t, "")
	t.Run("real", func(t *testing.T) { testTakeovers(t, realUpstream(t), binary) })
	if testing.Short() {
		return
	}
	t.Run("memory", func(t *testing.T) { testTakeovers(t, memoryUpstream(t), binary) })
}

// buildRival builds the program of the processes, with an overlay if there is one.
func buildRival(t testing.TB, overlay string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "rival")
	args := []string{"build", "-o", binary}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	goCommand(t, append(args, "./rival")...)
	return binary
}

// realUpstream starts a separate control plane.
func realUpstream(t *testing.T) upstream {
	t.Helper()
	c, err := cluster.Start(context.Background(), &cluster.Options{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return upstream{c.URL(), c.HTTPClient()}
}

// memoryUpstream is [realUpstream] for the in-memory server.
func memoryUpstream(t *testing.T) upstream {
	t.Helper()
	listener, err := kopf.NewAPIServer(nil).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	info := listener.ConnectionInfo()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(info.CAData)
	return upstream{info.Server, &http.Client{Transport: &bearer{string(info.Token), &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}}}
}

// bearer adds a token.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

func testTakeovers(t *testing.T, to upstream, binary string) {
	c := newContest(t, to)
	places := map[string]*place{}
	for i, kind := range rivalKinds {
		places[kind[0]] = c.add(kind[0], kind[1], binary, shortTimes, func(r *rivalry.Config) { r.Skew = time.Duration(i) * 10 * time.Minute })
	}
	places["ours too"] = c.add("ours too", rivalry.Ours, binary, shortTimes, nil)
	holder := places["ours"]
	holder.start(t)
	c.works(t, holder)
	for _, crash := range []bool{false, true} {
		for _, next := range []string{"ours too", "elector", "ours", "manager", "elector", "manager", "ours"} {
			how := map[bool]string{false: "gives it up", true: "dies"}[crash]
			t.Run(fmt.Sprintf("HA-3 %s takes the Lease when %s %s", next, holder.name, how), func(t *testing.T) {
				testTakeover(t, c, holder, places[next], crash)
			})
			holder = places[next]
		}
	}
	holder.signal(syscall.SIGTERM)
	lease := c.lease(t)
	if lease.Spec.HolderIdentity != "" || lease.Metadata.Labels["team"] != "web" || lease.Metadata.Annotations["note"] != "keep" {
		t.Errorf("got the Lease %+v at the end, want it released, with the label and the annotation", lease)
	}
	acquit(t, c.history(t).judge())
}

// acquit fails the test if an invariant was violated, or if nothing was checked.
func acquit(t *testing.T, v *verdict) {
	t.Helper()
	report(t, v)
	for rule, all := range v.violations {
		t.Errorf("%s: %d times, such as %s", rule, len(all), all[0])
	}
	if v.works == 0 || len(v.terms) < 2 {
		t.Errorf("got %d steps of ours and the terms %v, want some, of several places", v.works, v.terms)
	}
}

// testTakeover starts the next process, ends the holder, and checks when and how the next one begins.
func testTakeover(t *testing.T, c *contest, holder, next *place, crash bool) {
	before := c.lease(t)
	identity := next.start(t)
	c.stands(t, identity)
	ended := time.Now()
	if crash {
		holder.signal(syscall.SIGKILL)
	} else {
		holder.signal(syscall.SIGTERM)
	}
	after := c.works(t, next).Sub(ended)
	// The next process saw the last renewal up to a retry period after it was made, and it checks the Lease every retry period.
	least, most := shortTimes.lease-2*shortTimes.retry, shortTimes.lease+3*shortTimes.retry+time.Second
	if !crash {
		least, most = 0, shortTimes.lease-shortTimes.retry
	}
	if after < least || after > most {
		t.Errorf("%s works %s after %s has ended, want between %s and %s", next.name, after, holder.name, least, most)
	}
	lease := c.lease(t)
	if got, want := lease.Spec.LeaseTransitions, before.Spec.LeaseTransitions+1; got != want {
		t.Errorf("got %d transitions, want %d", got, want)
	}
	if processOf(lease.Spec.HolderIdentity) != identity || lease.Spec.LeaseDurationSeconds != 3 {
		t.Errorf("got the Lease of %q for %d seconds, want %q and 3", lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, identity)
	}
}

// stands waits until a process has read the Lease twice: then it knows since when the Lease is unchanged.
func (c *contest) stands(t *testing.T, identity string) {
	t.Helper()
	// The loop polls what the proxies have recorded of a process.
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		n := 0
		for _, x := range c.exchange {
			if x.Identity == identity && x.Method == http.MethodGet && x.Path == rivalry.LeasePath {
				n++
			}
		}
		c.mu.Unlock()
		if n > 1 {
			return
		}
	}
	t.Fatalf("%s does not stand for the Lease", identity)
}

// report logs the result.
func report(t testing.TB, v *verdict) {
	t.Helper()
	t.Logf("%d steps and writes of ours", v.works)
	for _, counts := range []map[string]int{v.terms, v.permitted} {
		var names []string
		for name := range counts {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			t.Logf("%6d %s", counts[name], name)
		}
	}
	for rule, all := range v.violations {
		for _, text := range all[:min(len(all), 20)] {
			t.Logf("%s: %s", rule, text)
		}
	}
}
