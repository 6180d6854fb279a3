package kopf

import (
	"crypto/x509"
	"errors"
	"log/slog"
	"testing"
)

// TestListenerConnectionInfo connects a kopf client to listeners over the network, with TLS and without.
func TestListenerConnectionInfo(t *testing.T) {
	listen := func(secure bool) *ConnectionInfo {
		t.Helper()
		served, err := NewAPIServer(&APIServerOptions{TLS: secure, Logger: slog.New(slog.DiscardHandler)}).Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = served.Close() })
		return served.ConnectionInfo()
	}
	get := func(info *ConnectionInfo) error {
		t.Helper()
		settings := NewSettings()
		settings.Networking.ErrorBackoffs = nil
		client, err := NewClient(info, &settings.Networking)
		if err != nil {
			t.Fatal(err)
		}
		return client.Get(t.Context(), ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "default"}, &Body{}, nil)
	}
	secure := listen(true)
	for name, info := range map[string]*ConnectionInfo{"plain": listen(false), "TLS": secure} {
		if err := get(info); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wrong := listen(true)
	wrong.CAData = secure.CAData
	unknown := x509.UnknownAuthorityError{}
	if err := get(wrong); !errors.As(err, &unknown) {
		t.Errorf("with the authority of another server: got %v, want an unknown authority", err)
	}
}
