// Package browser tests the live page in a browser.
package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kopf-go/kopf"
)

// The picture in docs/live-page.png has the name of the test program in its title:
// go test -c -o website-operator . && ./website-operator -test.run LivePage$/OB-20 -browser.screenshot FILE
var screenshot = flag.String("browser.screenshot", "", "a `file` for a picture of the page, as in the documentation")

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: websites.example.com}
spec:
  scope: Namespaced
  group: example.com
  names: {kind: Website, plural: websites}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

const markup = `<script>document.title='hacked'</script><img src=http://evil.example/x onerror=document.title='hacked'>`

// operator runs an operator with objects in several states, and returns the address of its page.
func operator(t *testing.T, adjust func(*kopf.PageSettings)) string {
	t.Helper()
	server := kopf.NewAPIServer(nil)
	manifests := definition
	for _, name := range []string{"home", "shop", "blog", "wiki", "docs", "evil", "a-name-that-is-as-long-as-names-may-be-" + strings.Repeat("x", 200)} {
		manifests += "---\napiVersion: example.com/v1\nkind: Website\nmetadata: {name: " + name + ", namespace: default}\n"
	}
	if err := server.Apply([]byte(manifests)); err != nil {
		t.Fatal(err)
	}
	r := &kopf.Registry{}
	r.OnCreate("websites", func(ctx context.Context, c *kopf.Change) error {
		switch c.Name() {
		case "shop":
			return kopf.Temporary(errors.New("the database is down"), time.Hour)
		case "blog":
			return kopf.Temporary(errors.New(markup), time.Hour)
		case "wiki", markup:
			<-ctx.Done()
		}
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	r.OnUpdate("websites", func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "update"})
	r.OnDaemon("websites", func(ctx context.Context, d *kopf.Daemon) error {
		<-ctx.Done()
		return nil
	}, &kopf.DaemonOptions{ID: "monitor", WithoutFinalizer: true})
	settings := kopf.NewSettings()
	settings.Process.Decisions = 1000
	settings.Process.Page = kopf.PageSettings{Enabled: true, Stacks: true}
	if adjust != nil {
		adjust(&settings.Process.Page)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connection := server.ConnectionInfo()
	connection.HTTPClient = &http.Client{Transport: &renaming{connection.HTTPClient.Transport}}
	op := &kopf.Operator{Registry: r, Settings: settings, Connection: connection, Logger: slog.New(slog.DiscardHandler), LivenessEndpoint: "http://127.0.0.1/healthz", LivenessListener: listener}
	kopf.NewRunner(t, op, nil)
	return "http://" + listener.Addr().String()
}

// renaming gives an object in lists a name that no API server would accept.
type renaming struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (r *renaming) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.base.RoundTrip(req)
	if err != nil || !strings.HasSuffix(req.URL.Path, "/websites") || req.URL.Query().Has("watch") {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	name, err := json.Marshal(markup)
	if err != nil {
		return nil, err
	}
	body = bytes.ReplaceAll(body, []byte(`"name":"evil"`), append([]byte(`"name":`), name...))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Del("Content-Length")
	return resp, nil
}

// browser is a tab, with its requests and errors.
type browser struct {
	context.Context
	t *testing.T

	mu       sync.Mutex
	requests []string
	errors   []string
}

// open opens a tab of a width.
func open(t *testing.T, width int64, actions ...chromedp.Action) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("there is no chromium: run.sh installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-background-networking", true))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	b := &browser{Context: ctx, t: t}
	chromedp.ListenTarget(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch ev := ev.(type) {
		case *network.EventRequestWillBeSent:
			b.requests = append(b.requests, ev.Request.URL)
		case *runtime.EventExceptionThrown:
			b.errors = append(b.errors, ev.ExceptionDetails.Error())
		}
	})
	b.do(append([]chromedp.Action{network.Enable(), runtime.Enable(), emulation.SetDeviceMetricsOverride(width, 900, 1, false)}, actions...)...)
	return b
}

func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// js returns the value of an expression.
func js[T any](b *browser, expression string) (value T) {
	b.t.Helper()
	b.do(chromedp.Evaluate(expression, &value))
	return value
}

// wait waits until an expression is true.
func (b *browser) wait(expression string) {
	b.t.Helper()
	b.do(chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(20*time.Second)))
}

// html stores the document, without a script.
func html(into *string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		root, err := dom.GetDocument().Do(ctx)
		if err != nil {
			return err
		}
		*into, err = dom.GetOuterHTML().WithBackendNodeID(root.BackendNodeID).Do(ctx)
		return err
	})
}

// check fails the test if the page has sent requests to other servers, or has errors.
func (b *browser) check(address string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, request := range b.requests {
		if !strings.HasPrefix(request, address+"/") {
			b.t.Errorf("a request to elsewhere: %s", request)
		}
	}
	for _, err := range b.errors {
		b.t.Errorf("the script: %s", err)
	}
}

const shown = `document.querySelectorAll('#s-retries tbody tr').length === 2 && document.querySelectorAll('#s-calls tbody tr').length === 2`

func TestLivePage(t *testing.T) {
	address := operator(t, nil)
	t.Run("OB-20 the page shows what the operator is doing, and changes", func(t *testing.T) {
		b := open(t, 1100, chromedp.Navigate(address+"/"))
		b.wait(shown)
		text := js[string](b, `document.body.innerText`)
		for _, want := range []string{"the database is down", "Website default/shop", "websites.v1.example.com", "working", "Live", "monitor"} {
			if !strings.Contains(text, want) {
				t.Errorf("the page has no %q: %s", want, text)
			}
		}
		before := js[string](b, `document.getElementById('facts').textContent`)
		b.wait(fmt.Sprintf(`document.getElementById('facts').textContent !== %q`, before))
		if *screenshot != "" { // without the objects with strange names
			var picture []byte
			b.do(chromedp.Evaluate(`document.querySelectorAll('#s-retries tbody tr, #s-calls tbody tr').forEach(e => { e.hidden = e.textContent.includes('<script>') })`, nil),
				emulation.SetDeviceMetricsOverride(820, 1000, 1, false), chromedp.CaptureScreenshot(&picture))
			if err := os.WriteFile(*screenshot, picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b.check(address)
	})
	t.Run("OB-19 markup in names and errors stays text", func(t *testing.T) {
		b := open(t, 1100, chromedp.Navigate(address+"/"))
		b.wait(shown)
		for _, section := range []string{"retries", "calls"} { // they have an error and a name
			if got := js[string](b, `[...document.querySelectorAll('#s-`+section+` td')].map(e => e.textContent).join(' ')`); !strings.Contains(got, markup) {
				t.Errorf("the section %s is %q", section, got)
			}
		}
		b.do(chromedp.Evaluate(`[...document.querySelectorAll('#s-calls a')].find(a => a.textContent.includes('<script>')).click()`, nil))
		b.wait(`document.getElementById('name').textContent.includes('<script>')`)
		if n := js[int](b, `document.querySelectorAll('main img, main script').length`); n != 0 || strings.Contains(js[string](b, `document.title`), "hacked") {
			t.Errorf("%d elements of values, and the title is %q", n, js[string](b, `document.title`))
		}
		b.do(chromedp.Navigate(address + "/?plain"))
		if got := js[string](b, `document.body.textContent`); !strings.Contains(got, markup) || js[int](b, `document.querySelectorAll('img, script').length`) != 0 {
			t.Errorf("without a script, the page is %q", got)
		}
		b.check(address)
	})
	t.Run("OB-23 the policy holds: no other script runs, and nothing is loaded from elsewhere", func(t *testing.T) {
		b := open(t, 1100, chromedp.Navigate(address+"/"))
		b.wait(shown)
		b.do(chromedp.Evaluate(`(() => { const s = document.createElement('script'); s.textContent = 'window.ran = true'; document.body.append(s); const i = document.createElement('img'); i.src = 'http://evil.example/x'; document.body.append(i) })()`, nil))
		if js[bool](b, `window.ran === true`) {
			t.Error("another script has run")
		}
		b.do(chromedp.Evaluate(`window.other = ''; fetch('http://127.0.0.1:9/').then(() => { window.other = 'loaded' }, () => { window.other = 'refused' }); 0`, nil))
		if b.wait(`window.other !== ''`); js[string](b, `window.other`) != "refused" {
			t.Error("another address was reached")
		}
	})
	t.Run("OB-26 the page works by keyboard, and keeps the focus while it changes", func(t *testing.T) {
		b := open(t, 1100, chromedp.Navigate(address+"/"))
		b.wait(shown)
		b.do(chromedp.KeyEvent(kb.Tab))
		if got := js[string](b, `document.activeElement.textContent`); got != "In retry" {
			t.Errorf("the first element in the order of tabs is %q", got)
		}
		for range 10 { // over the other sections, and the search
			b.do(chromedp.KeyEvent(kb.Tab))
		}
		focus := js[string](b, `document.activeElement.textContent`)
		if !strings.HasPrefix(focus, "Website default/") {
			t.Fatalf("the focus is on %q", focus)
		}
		b.do(chromedp.Sleep(2500 * time.Millisecond))
		if got := js[string](b, `document.activeElement.textContent`); got != focus {
			t.Errorf("a change has moved the focus from %q to %q", focus, got)
		}
		if outline := js[string](b, `getComputedStyle(document.activeElement).outlineStyle`); outline != "solid" {
			t.Errorf("the focus is not seen: %s", outline)
		}
		b.do(chromedp.KeyEvent(kb.Enter))
		b.wait(`!document.getElementById('one').hidden && document.activeElement.id === 'name' && document.querySelectorAll('#parts table').length > 0`)
		if got := js[string](b, `document.getElementById('one').innerText`); !strings.Contains(got, focus) || !strings.Contains(got, "create: called") {
			t.Errorf("the page of the object is %q", got)
		}
		b.check(address)
	})
	t.Run("DF-73 objects can be searched, and the title names the operator", func(t *testing.T) {
		b := open(t, 1100, chromedp.Navigate(address+"/"))
		b.wait(shown)
		if title := js[string](b, `document.title`); !strings.Contains(title, " on ") {
			t.Errorf("the title is %q", title)
		}
		b.do(chromedp.Focus(`#text`), chromedp.KeyEvent("default/sho"), chromedp.KeyEvent(kb.Enter))
		b.wait(`document.querySelectorAll('#found tbody tr').length === 1`)
		b.do(chromedp.Click(`#found a`))
		b.wait(`!document.getElementById('one').hidden && document.getElementById('name').textContent === 'Website default/shop'`)
		b.do(chromedp.Click(`#one a`))
		b.wait(`!document.getElementById('hour').hidden && document.getElementById('c-waiting').textContent !== ''`)
		b.check(address)
	})
	t.Run("OB-21 a running handler has its stack", func(t *testing.T) {
		b := open(t, 1100, chromedp.Navigate(address+"/#Website/default/wiki"))
		b.wait(`document.querySelectorAll('#parts pre').length > 0`)
		if got := js[string](b, `document.getElementById('parts').innerText`); !strings.Contains(got, "browser.operator.func1") {
			t.Errorf("the page is %q", got)
		}
		b.check(address)
	})
	t.Run("OB-26 the page fits 320 pixels, also with long names, and on the page of an object", func(t *testing.T) {
		for _, path := range []string{"/", "/#Website/default/wiki", "/?plain"} {
			b := open(t, 320, chromedp.Navigate(address+path))
			if path == "/" {
				b.wait(shown)
			}
			b.do(chromedp.Sleep(500 * time.Millisecond))
			if width := js[int](b, `document.documentElement.scrollWidth`); width > 320 {
				t.Errorf("%s is %d pixels wide", path, width)
			}
			b.check(address)
		}
	})
	t.Run("OB-26 the page is dark in the dark, with enough contrast in both", func(t *testing.T) {
		for scheme, dark := range map[string]bool{"dark": true, "light": false} {
			b := open(t, 1100, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}), chromedp.Navigate(address+"/"))
			b.wait(shown)
			const luminance = `const lum = c => { const [r, g, b] = c.match(/[\d.]+/g).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 }); return .2126 * r + .7152 * g + .0722 * b }; `
			back := js[float64](b, `(() => { `+luminance+`return lum(getComputedStyle(document.body).backgroundColor) })()`)
			if (back < 0.1) != dark {
				t.Errorf("%s: the background has the luminance %v", scheme, back)
			}
			worst := js[float64](b, `(() => { `+luminance+`const back = lum(getComputedStyle(document.body).backgroundColor);
				return Math.min(...[...document.querySelectorAll('main *, header *')].filter(e => e.textContent && e.offsetParent && !['INPUT', 'BUTTON'].includes(e.tagName)).map(e => { const l = lum(getComputedStyle(e).color); return (Math.max(l, back) + .05) / (Math.min(l, back) + .05) })) })()`)
			if worst < 4.5 {
				t.Errorf("%s: the contrast is %.1f, want 4.5", scheme, worst)
			}
		}
	})
	t.Run("OB-26 without scripts, the page leads to the plain one", func(t *testing.T) {
		var first, plain string
		b := open(t, 1100, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(address+"/"), html(&first))
		if !strings.Contains(first, `<noscript><p>`) || !strings.Contains(first, `<a href="?plain">`) {
			t.Errorf("the page has no link: %s", first)
		}
		if b.do(chromedp.Navigate(address+"/?plain"), html(&plain)); !strings.Contains(plain, "the database is down") {
			t.Errorf("the plain page is %s", plain)
		}
	})
	t.Run("OB-26 the page works behind a path of a proxy, as that of the API server", func(t *testing.T) {
		target, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		const path = "/api/v1/namespaces/default/pods/operator:8080/proxy"
		behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = "" }}
		proxy := httptest.NewServer(http.StripPrefix(path, behind))
		t.Cleanup(proxy.Close)
		b := open(t, 1100, chromedp.Navigate(proxy.URL+path+"/"))
		b.wait(shown)
		b.do(chromedp.Click(`#s-retries a`))
		b.wait(`document.querySelectorAll('#parts table').length > 0`)
		b.check(proxy.URL + path)
	})
}

func TestLivePageToken(t *testing.T) {
	t.Run("OB-24 the page asks for the token, and shows nothing without it", func(t *testing.T) {
		const token = "0123456789abcdef0123456789abcdef"
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		address := operator(t, func(s *kopf.PageSettings) { s.TokenFile = file })
		b := open(t, 1100, chromedp.Navigate(address+"/"))
		b.wait(`!document.getElementById('ask').hidden && document.activeElement.id === 'token'`)
		if text := js[string](b, `document.body.innerText`); strings.Contains(text, "Website") {
			t.Errorf("without the token, the page is %q", text)
		}
		b.do(chromedp.KeyEvent("wrong"), chromedp.KeyEvent(kb.Enter))
		b.wait(`document.getElementById('link').textContent === 'The token is wrong'`)
		b.do(chromedp.KeyEvent(token), chromedp.KeyEvent(kb.Enter))
		b.wait(shown)
		if stored := js[string](b, `JSON.stringify([localStorage.length, sessionStorage.length, document.cookie, location.href.includes('0123')])`); stored != `[0,0,"",false]` {
			t.Errorf("the token is kept: %s", stored)
		}
		b.check(address)
	})
}
