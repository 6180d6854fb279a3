package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that the secrets of credentials are never logged or returned, in 3-admission-auth-client.md.

const theSecret = "hunter2"

var _ = Suite("auth_secrets", func(t *testing.T, c *C) {
	// trouble runs an operator with a login that has the secret, and returns all of its output: its log lines and its error.
	trouble := func(c *C, login func(ctx context.Context, l *kopf.Login, info *kopf.ConnectionInfo) (*kopf.ConnectionInfo, error), fault func(*Request) (*http.Response, error), adjust ...func(*kopf.Operator)) string {
		e := newEntry()
		e.registry.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) { return login(ctx, l, e.info()) },
			&kopf.ActivityOptions{ID: "login", Retries: 1})
		e.registry.OnCreate(Examples, ready, named("create"))
		op, wire, logs := c.operatorOn(&e.registry)
		if fault != nil {
			wire.Fault(fault)
		}
		e.door(op)
		op.Settings = kopf.NewSettings()
		op.Settings.Networking.ErrorBackoffs = []time.Duration{time.Second}
		for _, f := range adjust {
			f(op)
		}
		ctx, cancel := context.WithTimeout(c.Context(), 10*time.Minute)
		defer cancel()
		told := fmt.Sprint(op.Run(ctx))
		for _, line := range logs.All() {
			told += fmt.Sprintln(line.Level, line.Message, line.Attrs)
		}
		return told
	}
	conceals := func(c *C, told string, words ...string) {
		c.Helper()
		if strings.Contains(told, theSecret) {
			c.Errorf("the secret is told:\n%s", told)
		}
		for _, word := range words {
			if !strings.Contains(told, word) {
				c.Errorf("%q is not told:\n%s", word, told)
			}
		}
	}
	with := func(change func(info *kopf.ConnectionInfo)) func(context.Context, *kopf.Login, *kopf.ConnectionInfo) (*kopf.ConnectionInfo, error) {
		return func(_ context.Context, _ *kopf.Login, info *kopf.ConnectionInfo) (*kopf.ConnectionInfo, error) {
			change(info)
			return info, nil
		}
	}
	fail := func(resp func() (*http.Response, error)) func(*Request) (*http.Response, error) {
		return func(*Request) (*http.Response, error) { return resp() }
	}
	for name, answer := range map[string]func() (*http.Response, error){
		"refused":     func() (*http.Response, error) { return Answer(401, "Unauthorized", "who are you?"), nil },
		"forbidden":   func() (*http.Response, error) { return Answer(403, "Forbidden", "not you"), nil },
		"unreachable": func() (*http.Response, error) { return nil, errors.New("no route to the host") },
		"no JSON":     func() (*http.Response, error) { return document("<html>"), nil },
	} {
		c.Run(t, "AC-72 the token and the password are not told when a server is "+name, func(c *C) {
			c.OnlyInBubble("it waits")
			conceals(c, trouble(c, with(func(info *kopf.ConnectionInfo) { info.Token = theSecret }), fail(answer)), "Initial authentication has been initiated")
			conceals(c, trouble(c, with(func(info *kopf.ConnectionInfo) { info.Username, info.Password = "me", theSecret }), fail(answer)), "Initial authentication")
		})
	}
	c.Run(t, "AC-69 what is wrong with credentials is told without them", func(c *C) {
		c.OnlyInBubble("it waits")
		for word, change := range map[string]func(info *kopf.ConnectionInfo){
			"exclude each other":          func(info *kopf.ConnectionInfo) { info.Token, info.Password = theSecret, theSecret },
			`invalid server "https://x"`:  func(info *kopf.ConnectionInfo) { info.Server = "https://me:" + theSecret + "@x" },
			"line breaks":                 func(info *kopf.ConnectionInfo) { info.Token = theSecret + "\n" },
			`invalid proxy "ftp://proxy"`: func(info *kopf.ConnectionInfo) { info.ProxyURL = "ftp://me:" + theSecret + "@proxy" },
			"invalid proxy":               func(info *kopf.ConnectionInfo) { info.ProxyURL = "http://me:" + theSecret + "@ proxy" },
			"neither PEM nor base64":      func(info *kopf.ConnectionInfo) { info.HTTPClient, info.CAData = nil, []byte("@"+theSecret) },
			"client certificate is neither PEM": func(info *kopf.ConnectionInfo) {
				info.HTTPClient, info.KeyData, info.CertificateData = nil, "@"+theSecret, []byte("@"+theSecret)
			},
		} {
			conceals(c, trouble(c, with(change), nil), word)
		}
	})
	c.Run(t, "DF-72 a URL's query, user and password are shown nowhere", func(c *C) {
		c.OnlyInBubble("it waits")
		for word, change := range map[string]func(info *kopf.ConnectionInfo){
			`"https://x/api"`: func(info *kopf.ConnectionInfo) { info.Server = "https://x/api?token=" + theSecret },
			`"https://user"`:  func(info *kopf.ConnectionInfo) { info.Server = "https://" + theSecret + "@user" },
			`"https://x/f"`:   func(info *kopf.ConnectionInfo) { info.Server = "https://x/f#" + theSecret },
			`"ftp://proxy"`:   func(info *kopf.ConnectionInfo) { info.ProxyURL = "ftp://" + theSecret + "@proxy?" + theSecret },
		} {
			told := trouble(c, func(_ context.Context, l *kopf.Login, info *kopf.ConnectionInfo) (*kopf.ConnectionInfo, error) {
				change(info)
				l.Logger.Info("Logged in", "info", info, "text", fmt.Sprintf("%+v %s", info, info))
				return info, nil
			}, nil)
			conceals(c, told, word)
		}
		for place, word := range map[string]string{
			"https://me:" + theSecret + "@sso.example.com/login?state=" + theSecret: "redirects to https://sso.example.com/login",
			"//" + theSecret + "@sso.example.com/login#" + theSecret:                "://sso.example.com/login",
		} {
			redirect := func() (*http.Response, error) {
				resp := Answer(http.StatusFound, "Found", "log in")
				resp.Header.Set("Location", place)
				return resp, nil
			}
			conceals(c, trouble(c, with(func(*kopf.ConnectionInfo) {}), fail(redirect)), word)
		}
		endpoint := func(op *kopf.Operator) {
			op.LivenessEndpoint = "https://me:" + theSecret + "@host/healthz?token=" + theSecret
		}
		conceals(c, trouble(c, with(func(*kopf.ConnectionInfo) {}), nil, endpoint), `"https://host/healthz"`)
	})
	c.Run(t, "AC-62 a broken kubeconfig is told without its secrets", func(c *C) {
		c.OnlyInBubble("it waits")
		const head = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://x'}}]\n"
		for _, user := range []string{
			"token: \"" + theSecret, "token: [" + theSecret + "]", "token: {a: " + theSecret + "}", "password: " + theSecret + ": x: y", "token: " + theSecret + "\n  x", "client-key-data: '@" + theSecret + "', client-certificate-data: x",
			"username: me, password: " + theSecret + ", token: " + theSecret, "token: !!int " + theSecret, "token: 'a' " + theSecret, "as-groups: " + theSecret, "exec: " + theSecret,
		} {
			path := filepath.Join(c.TempDir(), "config")
			c.writeFile(path, []byte(head+"users: [{name: u, user: {"+user+"}}]\n"))
			told := trouble(c, func(ctx context.Context, l *kopf.Login, _ *kopf.ConnectionInfo) (*kopf.ConnectionInfo, error) {
				info, err := kopf.LoginWithKubeconfig(ctx, l)
				if err == nil {
					err = errors.New("it can be read")
				}
				l.Logger.Debug("The login.", "info", info)
				return nil, err
			}, nil, func(op *kopf.Operator) { op.Kubeconfig = path })
			if strings.Contains(told, theSecret) {
				c.Errorf("%s: the secret is told:\n%s", user, told)
			}
		}
	})
	c.Run(t, "AC-69 a login that panics is told without what it holds", func(c *C) {
		c.OnlyInBubble("it waits")
		told := trouble(c, func(_ context.Context, l *kopf.Login, info *kopf.ConnectionInfo) (*kopf.ConnectionInfo, error) {
			info.Token = theSecret
			panic(info)
		}, nil)
		conceals(c, told, "panic")
	})
})
