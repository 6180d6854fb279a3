package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// In this file, other clients write to objects during their deletion as fast as they can, so that the operator's view is always outdated. There are no other
// faults meanwhile.

// Contest is the deletion of an object while other clients write to it.
type Contest struct {
	Name     string
	Gone     bool
	Took     time.Duration // until it was gone, or the time limit
	Writes   int           // by the other clients
	Attempts int           // by the operator
}

const (
	contests       = 3
	contestTime    = 20 * time.Second
	contestPace    = 20 * time.Millisecond
	contestDelay   = 100 * time.Millisecond // of each write by the operator
	contestPatches = 40                     // more than enough
	contestPrefix  = "contest-"
)

// contest deletes some objects one by one while other clients write to them.
func (b *bench) contest(ctx context.Context, random *rand.Rand) {
	for i := range contests {
		name := fmt.Sprint(contestPrefix, i)
		b.writers.create(ctx, random, name)
		for range 100 {
			if o := b.history.objects("widgets")[name]; o != nil && o.held() && o.Metadata.Annotations[prefix+"last-handled-configuration"] != "" {
				break
			}
			pause(ctx, 100*time.Millisecond)
		}
		b.counts.add(contestedDeletion)
		before := b.proxy.writesTo(name)
		began := time.Now()
		c := Contest{Name: name}
		b.writers.do(ctx, http.MethodDelete, b.writers.path(name), nil)
		for c.Took < contestTime && ctx.Err() == nil && !c.Gone {
			body := map[string]any{"status": map[string]any{"other": c.Writes}}
			c.Gone = b.writers.do(ctx, http.MethodPatch, b.writers.path(name)+"/status", body) == http.StatusNotFound
			c.Writes++
			c.Took = time.Since(began)
			pause(ctx, contestPace)
		}
		c.Attempts = b.proxy.writesTo(name) - before
		b.contests = append(b.contests, c)
	}
}

// contested checks how deletions ended in spite of other writes.
func (c *court) contested() {
	for _, one := range c.Contests {
		if !one.Gone {
			c.complain(contestsEnd, "", one.Name, "it is there %s after its deletion; others have written %d times, the operator %d times",
				one.Took.Round(time.Second), one.Writes, one.Attempts)
		}
		if one.Attempts > contestPatches {
			c.complain(contestsEnd, "", one.Name, "the operator has written %d times in %s to let it go", one.Attempts, one.Took.Round(time.Second))
		}
	}
}

func isContested(r *http.Request) bool {
	return isWrite(r) && isWidgets(r.URL.Path) && strings.Contains(r.URL.Path, "/"+contestPrefix)
}
