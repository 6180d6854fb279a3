package peerrecord

import "testing"

func FuzzReadPeer(f *testing.F) {
	f.Add([]byte(`{"priority":1,"lifetime":60,"lastseen":"2020-12-31T23:59:59.123456+00:00"}`))
	f.Add([]byte(`{"priority":1e400,"lifetime":-1,"lastseen":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Read(raw)
		if err == nil && (p.Lifetime < 0 || p.Raw != string(raw)) {
			t.Errorf("%q is read as %+v", raw, p)
		}
	})
}
