// Package connection manages the connection to the API server: the result of a login, the built-in logins, the HTTP clients, and the set of valid credentials.
package connection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
)

// Error reports that there are no usable credentials, or that the API server has rejected them all.
type Error struct {
	Message string // the credentials that kopf tried, and their places
	Err     error  // nil for none
}

// Error returns the message with its cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Info has the address of the API server and the credentials. Its fields are those of kopf.ConnectionInfo.
type Info struct {
	Server                          string
	CAFile                          string
	CAData                          []byte
	InsecureSkipTLSVerify           bool
	TLSServerName                   string
	Username                        string
	Password                        string
	Scheme                          string
	Token                           string
	TokenFile                       string
	CertificateFile                 string
	CertificateData                 []byte
	KeyFile                         string
	KeyData                         string
	ImpersonateUser, ImpersonateUID string
	ImpersonateGroups               []string
	ImpersonateExtra                map[string][]string
	DefaultNamespace                string
	ProxyURL                        string
	TrustEnv                        bool
	Priority                        int
	Expiration                      time.Time
	HTTPClient                      *http.Client
	KubeContext, User               string
}

// UserName returns the user of the requests, as far as known.
func (i *Info) UserName() string { return cmp.Or(i.ImpersonateUser, i.Username, i.User) }

// Host returns the host of the API server with its port, if it has one.
func (i *Info) Host() string {
	_, rest, _ := strings.Cut(i.Server, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// Validate returns an error for unusable information, before any request.
func (i *Info) Validate() error {
	server, err := url.Parse(i.Server)
	switch {
	case err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http":
		return fmt.Errorf("invalid server %q: want a URL with https or http, such as \"https://10.0.0.1:6443\"", apirequest.RedactURL(i.Server))
	case server.User != nil || server.RawQuery != "" || server.Fragment != "":
		return fmt.Errorf("invalid server %q: want a URL with a scheme, a host and a path alone", apirequest.RedactURL(i.Server))
	case (i.Token != "" || i.TokenFile != "" || i.Scheme != "") && (i.Username != "" || i.Password != ""):
		return errors.New("a token and a username with a password exclude each other")
	case i.CAFile != "" && len(i.CAData) > 0:
		return errors.New("CAFile and CAData exclude each other")
	case i.CertificateFile != "" && len(i.CertificateData) > 0:
		return errors.New("CertificateFile and CertificateData exclude each other")
	case i.KeyFile != "" && len(i.KeyData) > 0:
		return errors.New("KeyFile and KeyData exclude each other")
	case i.ImpersonateUser == "" && (i.ImpersonateUID != "" || len(i.ImpersonateGroups)+len(i.ImpersonateExtra) > 0):
		return errors.New("impersonation of a uid, groups or extra needs a user too")
	case strings.ContainsAny(i.Token+i.Scheme, "\r\n"):
		return errors.New("invalid token: want one without line breaks")
	}
	return i.validateProxy()
}

// checkFiles returns an error if the information is unusable, or a file of it cannot be read.
func (i *Info) checkFiles() error {
	if err := i.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := i.NewHTTPClient(ctx, 0, nil, Alone)
	return err
}

func (i *Info) validateProxy() error {
	if i.ProxyURL == "" {
		return nil
	}
	if proxy, err := url.Parse(i.ProxyURL); err == nil && slices.Contains([]string{"http", "https", "socks5", "socks5h"}, proxy.Scheme) {
		return nil
	}
	return fmt.Errorf("invalid proxy %q: want a URL with http, https or socks5", apirequest.RedactURL(i.ProxyURL))
}

// hasCertificate reports whether there are both a client certificate and a key.
func (i *Info) hasCertificate() bool {
	return (i.CertificateFile != "" || len(i.CertificateData) > 0) && (i.KeyFile != "" || len(i.KeyData) > 0)
}

// String returns the server and the kind of credentials, without secrets.
func (i *Info) String() string {
	parts := []string{"no URL"} // an invalid URL could have a password anywhere
	if _, err := url.Parse(i.Server); err == nil {
		parts[0] = apirequest.RedactURL(i.Server)
	}
	for _, p := range []struct {
		given bool
		text  string
	}{
		{i.Token != "", "token"},
		{i.TokenFile != "", "token file " + i.TokenFile},
		{i.Username != "", "user " + i.Username},
		{i.hasCertificate(), "certificate " + i.CertificateFile},
		{i.HTTPClient != nil, "own HTTP client"},
		{i.ImpersonateUser != "", "as " + i.ImpersonateUser},
		{i.InsecureSkipTLSVerify, "insecure"},
		{!i.Expiration.IsZero(), "until " + i.Expiration.Format(time.RFC3339)},
	} {
		if p.given {
			parts = append(parts, strings.TrimSpace(p.text))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Format prints [Info.String] for each verb, so that no secrets are printed.
func (i *Info) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, i.String()) }

// expired reports whether the credentials have expired.
func (i *Info) expired() bool {
	return !i.Expiration.IsZero() && !time.Now().Before(i.Expiration)
}

// equal reports whether the credentials are equal for the server.
func (i *Info) equal(other *Info) bool {
	a, b := *i, *other
	same := a.HTTPClient == b.HTTPClient
	a.HTTPClient, a.Expiration, a.Priority = b.HTTPClient, b.Expiration, b.Priority
	return same && reflect.DeepEqual(a, b)
}
