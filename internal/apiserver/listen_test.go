package apiserver

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestServedNames(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:8001": true, "localhost": true, "LocalHost.:1": true, "a.localhost:1": true, "[::1]:1": true, "[::1]": true, "10.0.0.1": true, "": true,
		"example.com": false, "example.com:8001": false, "127.0.0.1.example.com": false, "localhost.example.com:1": false, "xlocalhost": false,
	} {
		if got := isLocalName(host); got != want {
			t.Errorf("%q is local: %t, want %t", host, got, want)
		}
	}
	for address, names := range map[string][]string{"127.0.0.1:0": {"example.com"}, "0.0.0.0:0": nil} {
		var log bytes.Buffer
		served, err := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}).Listen(address)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(served.URL, "http://"))
		for _, name := range []string{"localhost", "example.com"} {
			req, _ := http.NewRequest("GET", "http://127.0.0.1:"+port+"/version", nil)
			req.Host = name
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			refused := len(names) > 0 && names[0] == name
			if (resp.StatusCode == 403) != refused {
				t.Errorf("on %s, a request to %s gives %d", address, name, resp.StatusCode)
			}
		}
		if warned := strings.Contains(log.String(), "can be reached from other machines"); warned != (names == nil) {
			t.Errorf("on %s, there is a warning: %t", address, warned)
		}
		_ = served.Close()
	}
}

func TestBadAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"https://127.0.0.1:0": `invalid address "https://127.0.0.1:0": want a host and a port without a scheme, such as "127.0.0.1:0", and APIServerOptions.TLS for https`,
		"http://127.0.0.1:0":  `invalid address "http://127.0.0.1:0": want a host and a port without a scheme, such as "127.0.0.1:0"`,
		"":                    `invalid address "": want a host and a port, such as "127.0.0.1:0" for a free port of this machine`,
	} {
		if _, err := New(Options{}).Listen(address); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", address, err, want)
		}
	}
}

func TestBadAnswer(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"a Status", `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"because"}`, "because"},
		{"no Status", `{"kind":"AdmissionReview","message":"because"}`, "the server could not find the requested resource"},
		{"no JSON", "because", "the server could not find the requested resource"},
	} {
		if got := badAnswer(404, []byte(tt.body), tt.body); got.Error() != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
