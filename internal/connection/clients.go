package connection

import (
	"errors"
	"net/http"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/connshare"
	"github.com/kopf-go/kopf/internal/credtransport"
)

// Connections is how requests get theirs.
type Connections bool

const (
	// Alone gives each request that is under way one of its own, by HTTP/1.1.
	Alone Connections = false
	// Sharing has requests share a few by HTTP/2, where that is offered: a server allows some hundred on each.
	Sharing Connections = true
)

// NewTransport returns a transport without credentials but the client's certificate.
func (i *Info) NewTransport(connectTimeout time.Duration, c Connections) (*http.Transport, error) {
	connecting := &credtransport.Connecting{
		Timeout: connectTimeout, HTTP2: c == Sharing, ServerName: i.TLSServerName, InsecureSkipVerify: i.InsecureSkipTLSVerify,
		Authorities: i.authorities(), ProxyFromEnv: i.TrustEnv, ProxyURL: i.ProxyURL,
	}
	connecting.Certificate = i.Certificate()
	return connecting.NewTransport()
}

// NewHTTPClient returns a client whose requests are let in. The time to connect is limited if it is positive.
func (i *Info) NewHTTPClient(connectTimeout time.Duration, s *credtransport.Session, c Connections) (*http.Client, error) {
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
		t, err := i.NewTransport(connectTimeout, c)
		if err != nil {
			return nil, err
		}
		if client.Transport = t; i.CAFile != "" {
			if client.Transport, err = credtransport.NewAuthorityTransport(t, i.authorities()); err != nil {
				return nil, err
			}
		}
		if c == Sharing {
			client.Transport = connshare.New(client.Transport)
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

// credentials returns what lets requests in.
func (i *Info) credentials() credtransport.Credentials {
	return credtransport.Credentials{
		Token: i.Token, TokenFile: i.TokenFile, Scheme: i.Scheme, Username: i.Username, Password: i.Password,
		ImpersonateUser: i.ImpersonateUser, ImpersonateUID: i.ImpersonateUID, ImpersonateGroups: i.ImpersonateGroups, ImpersonateExtra: i.ImpersonateExtra,
	}
}

// authorities returns what the server's certificate is checked against; without any PEM, that is the system's.
func (i *Info) authorities() credtransport.Authorities {
	return credtransport.Authorities{Data: i.CAData, File: i.CAFile}
}

// Certificate returns where the client's certificate comes from, nil if it has none.
func (i *Info) Certificate() *credtransport.CertificateSource {
	if !i.hasCertificate() {
		return nil
	}
	return &credtransport.CertificateSource{CertificateData: i.CertificateData, CertificateFile: i.CertificateFile, KeyData: []byte(i.KeyData), KeyFile: i.KeyFile}
}

// Send sends one request to the API server with the credentials of the moment, again if they are refused.
func (s *Store) Send(r *http.Request) (*http.Response, error) {
	var resp *http.Response
	err := s.Do(r.Context(), func(cred *Credential) (bool, error) {
		if resp != nil {
			credtransport.Drain(resp.Body)
			resp = nil
		}
		if err := apirequest.LeadsTo(cred.Info.Server, r.URL); err != nil {
			credtransport.CloseBody(r)
			return false, err
		}
		again, err := credtransport.Again(r.Context(), r)
		if err != nil {
			return false, err
		}
		repeatable := r.Body == nil || r.GetBody != nil
		if resp, err = cred.Client.Transport.RoundTrip(again); err != nil {
			return repeatable && apirequest.RefusesCertificate(err), err
		}
		refused := repeatable && resp.StatusCode == http.StatusUnauthorized
		if refused {
			err = errors.New(resp.Status)
		}
		return refused, err
	})
	if resp != nil && resp.StatusCode == http.StatusUnauthorized {
		return resp, nil
	}
	return resp, err
}
