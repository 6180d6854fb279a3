package httplimit

import (
	"cmp"
	"fmt"
	"net"
	"net/url"

	"github.com/kopf-go/kopf/internal/apirequest"
)

// SplitEndpoint returns the listening address and the path of a liveness endpoint's URL.
func SplitEndpoint(endpoint string) (address, path string, err error) {
	u, err := url.Parse(endpoint)
	shown := apirequest.RedactURL(endpoint)
	if err != nil {
		return "", "", fmt.Errorf("the liveness endpoint %q: expected a URL", shown)
	}
	if u.Scheme != "http" {
		return "", "", fmt.Errorf("the liveness endpoint %q has the scheme %q: expected http, such as http://0.0.0.0:8080/healthz", shown, u.Scheme)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return "", "", fmt.Errorf("the liveness endpoint %q has more than a path: expected no query and no fragment", shown)
	}
	address = net.JoinHostPort(cmp.Or(u.Hostname(), "localhost"), cmp.Or(u.Port(), "80"))
	if _, _, err := net.SplitHostPort(address); err != nil { // package url accepts brackets that do not match
		return "", "", fmt.Errorf("the liveness endpoint %q has the host %q: expected a name or an address", shown, u.Host)
	}
	return address, cmp.Or(u.Path, "/"), nil
}
