package connection

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/safecall"
)

func TestInfoValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		info Info
		want string // "" if valid
	}{
		{"AC-70 a server alone", Info{Server: "https://x:6443/path/"}, ""},
		{"AC-70 no server", Info{Token: "t"}, `invalid server "": want a URL with https or http`},
		{"AC-70 no URL", Info{Server: "x:80"}, `invalid server "x:80": want a URL with https or http`},
		{"AC-70 an address without a scheme", Info{Server: "10.0.0.1:6443"}, `invalid server "10.0.0.1:6443": want a URL`},
		{"AC-70 an address that cannot be read", Info{Server: "https://u:hunter2@ bad"}, `invalid server "[redacted]": want a URL`},
		{"AC-70 another scheme", Info{Server: "ftp://x"}, `invalid server "ftp://x": want a URL with https or http`},
		{"AC-70 a password in the address", Info{Server: "https://u:hunter2@x"}, `invalid server "https://x": want a URL with a scheme, a host and a path alone`},
		{"DF-72 a query in the address", Info{Server: "https://x/p?token=hunter2"}, `invalid server "https://x/p": want a URL with a scheme`},
		{"AC-70 two authorities", Info{Server: "https://x", CAFile: "f", CAData: []byte("d")}, "CAFile and CAData exclude each other"},
		{"AC-70 two certificates", Info{Server: "https://x", CertificateFile: "f", CertificateData: []byte("d")}, "CertificateFile and CertificateData"},
		{"AC-70 two keys", Info{Server: "https://x", KeyFile: "f", KeyData: "d"}, "KeyFile and KeyData"},
		{"AC-T26 a token and a password", Info{Server: "https://x", Token: "t", Username: "u", Password: "p"}, "exclude each other"},
		{"AC-T26 a token file and a password", Info{Server: "https://x", TokenFile: "t", Username: "u"}, "exclude each other"},
		{"AC-T26 a scheme and a password", Info{Server: "https://x", Scheme: "X", Password: "p"}, "exclude each other"},
		{"AC-74 proxies", Info{Server: "https://x", ProxyURL: "http://u:p@proxy:1"}, ""},
		{"AC-74 another proxy", Info{Server: "https://x", ProxyURL: "ftp://u:hunter2@proxy"}, `invalid proxy "ftp://proxy": want`},
		{"AC-74 no proxy", Info{Server: "https://x", ProxyURL: "http://u:hunter2@ bad"}, `invalid proxy "[redacted]": want a URL`},
		{"impersonation without a user", Info{Server: "https://x", ImpersonateGroups: []string{"g"}}, "needs a user too"},
		{"a token with a line break", Info{Server: "https://x", Token: "hunter2\n"}, "invalid token: want one without line breaks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.info.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

// FuzzConnection validates an address with credentials, and sends a request if they are valid. No secret may appear in texts, or go to another host.
func FuzzConnection(f *testing.F) {
	f.Add("https://x", "hunter2hunter2", "", "", "me")
	f.Add("https://u:hunter2hunter2@x", "t", "Bearer", "http://u:hunter2hunter2@p", "")
	f.Add("http://[::1]:80/prefix", "hunter2\r\nX: y", "", "socks5://p", "a\nb")
	f.Add("https://x/%2e%2e/?q=hunter2#f", "", "hunter2 2", "%", "")
	f.Fuzz(func(t *testing.T, server, token, scheme, proxy, user string) {
		info := &Info{Server: server, Token: token, Scheme: scheme, ProxyURL: proxy, ImpersonateUser: user}
		err := info.Validate()
		if len(token) > 8 && strings.Contains(token, "hunter2") && !strings.Contains(server+scheme+proxy+user, "hunter2") {
			for _, text := range []string{safecall.ErrorText(err, ""), info.String()} {
				if strings.Contains(text, "hunter2") {
					t.Errorf("the token is told: %s", text)
				}
			}
		}
		if err != nil {
			return
		}
		target, err := url.Parse(info.Server)
		if err != nil || target.Host == "" || apirequest.LeadsTo(info.Server, target) != nil {
			t.Fatalf("%q is valid, and leads nowhere: %v", server, err)
		}
		to, err := http.NewRequest(http.MethodGet, strings.TrimRight(info.Server, "/")+"/api", nil)
		if err != nil {
			return // nothing is sent
		}
		if to.URL.Host != target.Host || to.URL.RawQuery != "" || !strings.HasSuffix(to.URL.Path, "/api") {
			t.Errorf("%q leads to %s", server, to.URL)
		}
		credentials := info.credentials()
		sent := credentials.Authorize(t.Context(), to, token)
		if got := sent.Header.Get("Authorization"); token != "" && !strings.HasSuffix(got, strings.TrimSpace(token)) {
			t.Errorf("the header is %q", got)
		}
		var wire bytes.Buffer
		if sent.Write(&wire) == nil && (strings.Count(wire.String(), "\r\n\r\n") > 1 || strings.Count(wire.String(), "\r\n") > 8) {
			t.Errorf("more is sent than was meant: %q", wire.String()) // Write replaces line breaks with spaces
		}
	})
}
