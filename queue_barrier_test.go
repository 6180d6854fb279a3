package kopf

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/pauser"
)

// failingOnceHandler fails once for each object, and records the versions of its calls.
type failingOnceHandler struct{ versions []string }

func (h *failingOnceHandler) index(*entry, []RawEvent, epoch) result { return result{} }
func (h *failingOnceHandler) reconcile(e *entry, events []RawEvent, _ epoch) result {
	body := e.state.body
	if len(events) > 0 {
		body = events[len(events)-1].Body
	}
	if body == nil {
		h.versions = append(h.versions, "")
		return result{}
	}
	if h.versions = append(h.versions, body.version); len(h.versions) > 1 {
		return result{}
	}
	return result{requeue: true, requeueAfter: time.Second, body: body}
}
func (h *failingOnceHandler) forget(*entry) {}

// TestRetryAtClosedBarrier makes an object due again during the list of another resource. It waits, and its retry is not lost.
func TestRetryAtClosedBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &failingOnceHandler{}
		q := newQueue(0, slog.New(slog.DiscardHandler), h)
		q.pauser, q.barrier = &pauser.Pauser{}, &syncBarrier{}
		q.barrier.serve(q, true)
		q.add(versionedPod(t, Added, "ns", "u", "1"), &source{}, true)
		synctest.Wait()
		q.barrier.add()
		time.Sleep(2 * time.Second)
		q.barrier.done()
		synctest.Wait()
		if want := []string{"1", "1"}; !slices.Equal(h.versions, want) {
			t.Errorf("the object was handled in the versions %q, want %q", h.versions, want)
		}
		q.close()
		q.workers.Wait()
	})
}
