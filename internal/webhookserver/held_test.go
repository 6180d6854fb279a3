package webhookserver

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestHeldBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h heldBytes
		const limit = 100
		aborted := make(map[*heldBody]bool)
		body := func(address string) *heldBody {
			time.Sleep(time.Millisecond) // each is younger than the one before
			b := &heldBody{address: address, since: time.Now()}
			b.abort = func() { aborted[b] = true }
			return b
		}
		whole, a, b := body("stranger"), body("stranger"), body("stranger")
		if !h.grow(whole, 20, limit) || !h.grow(a, 30, limit) || !h.grow(b, 40, limit) {
			t.Fatal("there is room for bodies below the limit")
		}
		h.arrived(whole)
		own := body("stranger")
		if h.grow(own, 20, limit) {
			t.Error("a new body has taken the place of others of its client at once")
		}
		other := body("server")
		if !h.grow(other, 20, limit) || aborted[whole] || !aborted[a] || aborted[b] {
			t.Errorf("aborted are %t, %t and %t, want the oldest that is arriving, for another client", aborted[whole], aborted[a], aborted[b])
		}
		if h.grow(a, 31, limit) {
			t.Error("an aborted body grows")
		}
		time.Sleep(slowArrival)
		if !h.grow(own, 40, limit) || !aborted[b] || aborted[other] {
			t.Errorf("aborted are %t and %t, want that which is slow", aborted[b], aborted[other])
		}
		for _, b := range []*heldBody{whole, a, b, own, other} {
			h.arrived(b)
			h.release(b)
		}
		if h.total != 0 || len(h.arriving) != 0 {
			t.Errorf("%d bytes are held, and %d bodies are arriving", h.total, len(h.arriving))
		}
	})
}
