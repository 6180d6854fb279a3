package connection

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/connshare"
	"github.com/kopf-go/kopf/internal/credtransport"
)

// Connections says how requests use connections.
type Connections bool

const (
	// Alone uses HTTP/1.1, with one connection for each running request.
	Alone Connections = false
	// Sharing uses HTTP/2 if the server offers it. A server allows some hundred requests on one connection.
	Sharing Connections = true
)

// connecting returns the settings of connections.
func (i *Info) connecting(timeout time.Duration, c Connections) *credtransport.Connecting {
	return &credtransport.Connecting{
		Timeout: timeout, HTTP2: c == Sharing, ServerName: i.TLSServerName, InsecureSkipVerify: i.InsecureSkipTLSVerify,
		Authorities: i.authorities(), Certificate: i.Certificate(), ProxyFromEnv: i.TrustEnv, ProxyURL: i.ProxyURL,
	}
}

// NewHTTPClient returns a client that adds the credentials to its requests. A positive timeout limits the time to connect.
// Its connections are closed when ctx ends, unless the client is the user's own.
func (i *Info) NewHTTPClient(ctx context.Context, connectTimeout time.Duration, s *credtransport.Session, c Connections) (*http.Client, error) {
	client := &http.Client{CheckRedirect: credtransport.SameHost}
	if i.HTTPClient != nil {
		own := *i.HTTPClient
		client = &own
		client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
			if err := credtransport.SameHost(req, via); err != nil || i.HTTPClient.CheckRedirect == nil {
				return err
			}
			return i.HTTPClient.CheckRedirect(req, via)
		}
	} else {
		var err error
		if client.Transport, err = i.roundTripper(ctx, connectTimeout, c); err != nil {
			return nil, err
		}
	}
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	authorizing := &credtransport.Transport{Next: next, Session: s, Credentials: i.credentials()}
	client.Transport = authorizing
	return client, authorizing.Check()
}

// roundTripper returns a transport with the client certificate as the only credentials.
func (i *Info) roundTripper(ctx context.Context, connectTimeout time.Duration, c Connections) (next http.RoundTripper, err error) {
	if connecting := i.connecting(connectTimeout, c); i.CAFile != "" {
		next, err = credtransport.NewAuthorityTransport(ctx, connecting)
	} else {
		next, err = connecting.NewTransport(ctx)
	}
	if c == Sharing {
		next = connshare.New(next)
	}
	return next, err
}

// credentials returns the credentials that are added to requests.
func (i *Info) credentials() credtransport.Credentials {
	return credtransport.Credentials{
		Token: i.Token, TokenFile: i.TokenFile, Scheme: i.Scheme, Username: i.Username, Password: i.Password,
		ImpersonateUser: i.ImpersonateUser, ImpersonateUID: i.ImpersonateUID, ImpersonateGroups: i.ImpersonateGroups, ImpersonateExtra: i.ImpersonateExtra,
	}
}

// authorities returns the CA bundle for the server's certificate. Without one, the system's bundle applies.
func (i *Info) authorities() credtransport.Authorities {
	return credtransport.Authorities{Data: i.CAData, File: i.CAFile}
}

// Certificate returns the source of the client certificate, or nil.
func (i *Info) Certificate() *credtransport.CertificateSource {
	if !i.hasCertificate() {
		return nil
	}
	return &credtransport.CertificateSource{CertificateData: i.CertificateData, CertificateFile: i.CertificateFile, KeyData: []byte(i.KeyData), KeyFile: i.KeyFile}
}

// Send sends a request to the API server with the current credentials, and repeats it with others if the server rejects them.
func (s *Store) Send(r *http.Request) (*http.Response, error) {
	var resp *http.Response
	err := s.Do(r.Context(), func(cred *Credential) (bool, error) {
		if resp != nil {
			credtransport.Drain(resp.Body)
			resp = nil
		}
		if err := apirequest.LeadsTo(cred.Info.Server, r.URL); err != nil {
			return false, err
		}
		again, err := credtransport.Again(r.Context(), r)
		if err != nil {
			return false, err
		}
		repeatable := r.Body == nil || r.GetBody != nil
		client := cred.Client
		if r.Header.Get("Upgrade") != "" { // which HTTP/2 does not have
			client = cred.WriteClient
		}
		if resp, err = client.Transport.RoundTrip(again); err != nil {
			return repeatable && apirequest.RefusesCertificate(err), err
		}
		refused := repeatable && resp.StatusCode == http.StatusUnauthorized
		if refused {
			err = errors.New(resp.Status)
		}
		return refused, err
	})
	if r.GetBody != nil || resp == nil { // the body was not used, or failed
		credtransport.CloseBody(r)
	}
	if resp != nil && resp.StatusCode == http.StatusUnauthorized {
		return resp, nil
	}
	return resp, err
}
