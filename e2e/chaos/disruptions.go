package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/kopf-go/kopf/e2e/cluster"
)

// This file disrupts whole programs: the operator, the API server, the store, and the clocks.

// disruption is a repeated fault of a program.
type disruption struct {
	weight int
	ends   bool // whether it ends the operator
	happen func(b *bench, ctx context.Context, random *rand.Rand) error
}

var disruptions = []disruption{
	{6, true, (*bench).killOperator},
	{2, true, (*bench).restartOperator},
	{2, false, func(b *bench, ctx context.Context, _ *rand.Rand) error {
		return b.restart(ctx, cluster.APIServer, restartedServer, false)
	}},
	{1, false, func(b *bench, ctx context.Context, _ *rand.Rand) error {
		return b.restart(ctx, cluster.APIServer, killedServer, true)
	}},
	{1, false, func(b *bench, ctx context.Context, _ *rand.Rand) error {
		return b.restart(ctx, cluster.Etcd, killedStore, true)
	}},
	{2, false, (*bench).compact},
	{2, false, (*bench).blackOut},
	{5, false, (*bench).skewRecord},
	{2, false, (*bench).skewPeer},
}

// disrupt runs one disruption after another until the context is canceled. After the time peace, it no longer ends the operator.
func (b *bench) disrupt(ctx context.Context, random *rand.Rand, peace time.Time) error {
	var bag []disruption // drawn from without putting back, so that a short run has most of them
	for {
		if len(bag) == 0 {
			for _, d := range disruptions {
				for range d.weight {
					bag = append(bag, d)
				}
			}
			random.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		pause(ctx, between(random, time.Second, 5*time.Second))
		if ctx.Err() != nil {
			return nil
		}
		if bag[0].ends && time.Now().After(peace) {
			bag = bag[1:]
			continue
		}
		if err := bag[0].happen(b, ctx, random); err != nil {
			return err
		}
		bag = bag[1:]
	}
}

func (b *bench) killOperator(_ context.Context, random *rand.Rand) error {
	b.counts.add(killedOperator)
	b.replicas.some(random).kill()
	return nil
}

func (b *bench) restartOperator(_ context.Context, random *rand.Rand) error {
	b.counts.add(stoppedOperator)
	b.replicas.some(random).stop()
	return nil
}

// restart ends a program of the control plane, by force or in order. It always starts the program again before it returns.
func (b *bench) restart(ctx context.Context, p cluster.Program, name string, atOnce bool) error {
	b.counts.add(name)
	defer b.proxy.outage(time.Now())
	ctx = context.WithoutCancel(ctx)
	if atOnce {
		b.cluster.Kill(p)
		if err := b.cluster.Launch(ctx, p); err != nil {
			return err
		}
	} else if err := b.cluster.Restart(ctx, p); err != nil {
		return err
	}
	if !b.cluster.Running(cluster.APIServer) { // it exits after a long time without its store
		return b.cluster.Launch(ctx, cluster.APIServer)
	}
	return nil
}

func (b *bench) compact(ctx context.Context, _ *rand.Rand) error {
	b.counts.add(compacted)
	_ = b.history.compact(ctx, b.leases.known()) // refused if there were no changes since the last one
	return nil
}

func (b *bench) blackOut(ctx context.Context, random *rand.Rand) error {
	b.proxy.blackOut(ctx, between(random, time.Second, 4*time.Second))
	return nil
}

// skewRecord changes the times in the records of an object to those of a clock that differs by minutes.
func (b *bench) skewRecord(ctx context.Context, random *rand.Rand) error {
	for name, o := range b.history.objects("widgets") {
		skewed, skew := map[string]string{}, between(random, -5*time.Minute, 5*time.Minute)
		for key, text := range o.Metadata.Annotations {
			var record map[string]any
			if json.Unmarshal([]byte(text), &record) != nil || record["started"] == nil {
				continue
			}
			for _, field := range []string{"started", "stopped", "delayed"} {
				moment, err := time.Parse("2006-01-02T15:04:05.999999-07:00", fmt.Sprint(record[field]))
				if err != nil {
					continue
				}
				by := skew
				if field == "delayed" { // the end of the run waits for this field
					by = min(skew, 10*time.Second)
				}
				record[field] = moment.Add(by).Format("2006-01-02T15:04:05.000000-07:00")
			}
			data, err := json.Marshal(record)
			if err != nil {
				return err
			}
			skewed[key] = string(data)
		}
		if len(skewed) == 0 {
			continue
		}
		data, err := b.cluster.Request(ctx, http.MethodGet, b.writers.path(name), nil)
		var now Object
		if err != nil || json.Unmarshal(data, &now) != nil {
			return nil // try again later
		}
		for key := range skewed { // do not restore a record that has changed since
			if now.Metadata.Annotations[key] != o.Metadata.Annotations[key] {
				delete(skewed, key)
			}
		}
		if len(skewed) > 0 {
			b.counts.add(skewedRecord)
			b.writers.patch(ctx, name, map[string]any{"metadata": map[string]any{"resourceVersion": now.Metadata.ResourceVersion, "annotations": skewed}})
		}
		return nil
	}
	return nil
}

const peering = "/apis/kopf.dev/v1/clusterkopfpeerings/chaos"

// skewPeer adds the peering record of another operator for a while. The clock of that operator differs by minutes.
func (b *bench) skewPeer(ctx context.Context, random *rand.Rand) error {
	b.counts.add(skewedPeer)
	seen := time.Now().Add(between(random, -5*time.Minute, 5*time.Minute)).UTC().Format("2006-01-02T15:04:05.000000-07:00")
	b.writers.do(ctx, http.MethodPatch, peering, map[string]any{"status": map[string]any{"other": map[string]any{"priority": 100, "lifetime": 60, "lastseen": seen}}})
	pause(ctx, 3*time.Second)
	return b.removePeer(context.WithoutCancel(ctx))
}

// removePeer removes the record of the other operator.
func (b *bench) removePeer(ctx context.Context) error {
	b.writers.do(ctx, http.MethodPatch, peering, map[string]any{"status": map[string]any{"other": nil}})
	return nil
}

// peers returns the operators in the peering object.
func (b *bench) peers(ctx context.Context) ([]string, error) {
	data, err := b.cluster.Request(ctx, http.MethodGet, peering, nil)
	if err != nil {
		return nil, err
	}
	var object struct{ Status map[string]any }
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	var names []string
	for name := range object.Status {
		if !strings.HasPrefix(name, "kopf") {
			names = append(names, name)
		}
	}
	return names, nil
}
