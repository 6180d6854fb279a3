package kopf

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// This file knows which credentials are good at the moment. Requests pick one, say when the server
// has refused it, and wait for a new login when none is left. It starts no goroutines: a login
// runs on the goroutine of one of the requests that wait for it.

// credential is one way to be let in, with the clients made of it.
type credential struct {
	ID           string          // of the login handler that gave it
	Info         *ConnectionInfo // not to be changed
	Client       *http.Client    // for ordinary requests: HTTP/2 where offered
	StreamClient *http.Client    // for watches: HTTP/1.1, a connection each
}

// errCredentialClosed is found in the error of a request or a stream that was cut off because its
// credential was removed. It is to be repeated with another one; vault.do does so.
var errCredentialClosed = errors.New("the credentials of the connection were removed")

// vault holds the credentials of one operator.
type vault struct {
	// login gets new credentials by the ids of their handlers, run once however many requests wait.
	// Its error is given to all of them, as a *LoginError.
	login func(ctx context.Context) (map[string]*ConnectionInfo, error)
	// connectTimeout and streamTimeout limit the connecting of the two clients; zero means no limit.
	connectTimeout, streamTimeout time.Duration
}

// newVault returns a vault without credentials; the first pick logs in.
func newVault(login func(ctx context.Context) (map[string]*ConnectionInfo, error)) *vault {
	return &vault{login: login}
}

// do runs one request: it picks a credential and calls try with it, again and with another one as long as
// try tells that the server has refused the credential (HTTP 401). err is then what do returns when
// there is nothing left to try. A request cut off because its credential was removed is repeated too.
func (v *vault) do(ctx context.Context, try func(*credential) (refused bool, err error)) error {
	cred, err := v.pick(ctx)
	if err != nil {
		return err
	}
	_, err = try(cred)
	return err
}

// pick returns one of the best credentials, after a login if there are none. It fails with a *LoginError, or when ctx ends.
func (v *vault) pick(ctx context.Context) (*credential, error) {
	return nil, &LoginError{Message: "not implemented yet"}
}

// invalidate removes a credential that the server has refused; cause is its answer.
func (v *vault) invalidate(cred *credential, cause error) {}

// close ends all connections; nothing is picked afterwards.
func (v *vault) close() {}
