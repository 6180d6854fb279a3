// Package browser tests the site of the documentation in a browser.
package browser

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var screenshots = flag.String("browser.screenshots", "", "a `folder` for pictures of some pages, wide and narrow, light and dark")

// prefix is a folder on a server with the site.
const prefix = "/some/folder"

// serve builds the site, and returns its folder, and its address.
func serve(t *testing.T) (dir, top string) {
	t.Helper()
	dir = t.TempDir()
	cmd := exec.Command("go", "run", ".", "-out", dir)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := httptest.NewServer(http.StripPrefix(prefix, http.FileServer(http.Dir(dir))))
	t.Cleanup(server.Close)
	return dir, server.URL + prefix + "/"
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
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	b := &browser{Context: ctx, t: t}
	chromedp.ListenTarget(ctx, b.note)
	b.do(append([]chromedp.Action{network.Enable(), runtime.Enable(), log.Enable(), emulation.SetDeviceMetricsOverride(width, 900, 1, false)}, actions...)...)
	return b
}

// note records requests and errors.
func (b *browser) note(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, ev.Request.URL)
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, ev.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		b.errors = append(b.errors, fmt.Sprint("console.", ev.Type))
	case *log.EventEntryAdded:
		b.errors = append(b.errors, ev.Entry.Text+" "+ev.Entry.URL)
	}
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

// wait waits until an expression is true. During navigation to another page, it has no value.
func (b *browser) wait(expression string) {
	b.t.Helper()
	var value bool
	// The loop polls a browser, in which no event is certain for every expression.
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(20 * time.Millisecond) {
		if err := chromedp.Run(b, chromedp.Evaluate(expression, &value)); err == nil && value {
			return
		}
	}
	b.t.Fatalf("waited in vain for %s", expression)
}

// check fails the test if the browser has loaded anything from another address, or has reported errors.
func (b *browser) check(address string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, request := range b.requests {
		if !strings.HasPrefix(request, address) && !strings.HasPrefix(request, "data:") {
			b.t.Errorf("a request to elsewhere: %s", request)
		}
	}
	for _, err := range b.errors {
		b.t.Errorf("the browser complains: %s", err)
	}
}

func prefers(scheme string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
}

func TestSite(t *testing.T) {
	dir, top := serve(t)
	address := top + "latest"
	t.Run("all pages fit 320 pixels, and 1280", func(t *testing.T) { testWidths(t, dir, top) })
	t.Run("search, by keyboard alone", func(t *testing.T) {
		b := open(t, 1280, chromedp.Navigate(address+"/docs/handlers.html"))
		testSearch(b)
		b.check(top)
	})
	t.Run("search, in pages that are opened as files", func(t *testing.T) {
		b := open(t, 320, chromedp.Navigate("file://"+filepath.ToSlash(dir)+"/latest/docs/handlers.html"))
		testSearch(b)
		b.check("file://" + filepath.ToSlash(dir))
	})
	t.Run("dark mode, and its switch", func(t *testing.T) { testColors(t, top) })
	t.Run("keyboard", func(t *testing.T) { testKeyboard(t, top) })
	t.Run("without scripts", func(t *testing.T) { testWithoutScripts(t, top) })
	t.Run("an older page knows newer versions", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, "versions.json"), []byte(`["latest","7.0.0","0.1.0"]`), 0o644); err != nil {
			t.Fatal(err)
		}
		b := open(t, 1280, chromedp.Navigate(address+"/docs/handlers.html"))
		b.wait(`[...document.querySelectorAll('.versions a')].some(a => a.textContent === '7.0.0' && a.href.endsWith('/folder/7.0.0/index.html'))`)
		b.check(top)
	})
	if *screenshots != "" {
		if err := os.MkdirAll(*screenshots, 0o777); err != nil {
			t.Fatal(err)
		}
		takeScreenshots(t, address)
	}
}

// testWidths visits each page, with all collapsible parts open.
func testWidths(t *testing.T, dir, top string) {
	for _, width := range []int64{320, 1280} {
		b, n := open(t, width), 0
		err := fs.WalkDir(os.DirFS(filepath.Join(dir, "latest")), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".html" {
				return err
			}
			n++
			b.do(chromedp.Navigate(top + "latest/" + name))
			const widest = `(() => { document.querySelectorAll('details').forEach(e => { e.open = true }); return document.documentElement.scrollWidth })()`
			if got := js[int64](b, widest); got > width {
				t.Errorf("%s is %d pixels wide, want %d", name, got, width)
			}
			return nil
		})
		if err != nil || n < 80 {
			t.Errorf("%d pages (%v)", n, err)
		}
		b.check(top)
	}
}

// slash presses the key like a keyboard: if the page prevents the default, it does not become text.
var slash = input.DispatchKeyEvent(input.KeyDown).WithKey("/").WithCode("Slash").WithText("/")

// testSearch searches, and follows a result.
func testSearch(b *browser) {
	b.t.Helper()
	b.wait(`!document.querySelector('.search').hidden`)
	for query, want := range map[string]string{"leader election": "leader election", "rate limit": "limits", "OnCreate": "func oncreate"} {
		b.do(slash)
		b.wait(`document.activeElement.id === 'site-query' && document.activeElement.value === ''`)
		b.do(chromedp.KeyEvent(query))
		b.wait(`document.querySelectorAll('#site-results a').length > 0 && document.getElementById('site-query').getAttribute('aria-expanded') === 'true'`)
		if got := js[string](b, `document.querySelector('#site-results a').textContent`); !strings.Contains(strings.ToLower(got), want) {
			b.t.Errorf("the first result for %q is %q", query, got)
		}
		if all := js[string](b, `[...document.querySelectorAll('#site-results a')].map(a => a.href).join(' ')`); query == "leader election" && !strings.Contains(all, "high-availability.html") {
			b.t.Errorf("the results for %q are %s", query, all)
		}
		b.do(chromedp.KeyEvent(kb.Escape))
		b.wait(`document.getElementById('site-results').hidden && document.getElementById('site-query').value === ''`)
		b.do(chromedp.Blur("#site-query"))
	}
	b.do(slash, chromedp.KeyEvent("retries"))
	b.wait(`document.querySelectorAll('#site-results a').length > 2`)
	b.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowUp))
	chosen := js[string](b, `document.querySelector('#site-results [aria-selected=true]').href`)
	if second := js[string](b, `document.querySelectorAll('#site-results a')[1].href`); chosen != second {
		b.t.Errorf("the arrows have chosen %s, want %s", chosen, second)
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.wait(fmt.Sprintf(`location.href === %q && (location.hash === '' || document.querySelector(':target') !== null)`, chosen))
}

// contrasts returns the texts with less contrast than the guidelines for accessibility require.
const contrasts = `(() => {
	const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length === 4 && m[3] === 0 ? null : m };
	const luminance = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 }); return .2126 * r + .7152 * g + .0722 * b };
	const back = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c) return c } return [255, 255, 255] };
	const found = new Set();
	for (const e of document.querySelectorAll('body *')) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length || e.closest('.anchor, .unseen, svg')) continue;
		const [a, b] = [luminance(parse(getComputedStyle(e).color)), luminance(back(e))];
		const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (ratio < 4.5) found.add(ratio.toFixed(1) + ' ' + e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 30));
	}
	return [...found];
})()`

const dark = `getComputedStyle(document.body).backgroundColor.match(/\d+/g).every(v => v < 60)`

func testColors(t *testing.T, top string) {
	address := top + "latest"
	for _, scheme := range []string{"light", "dark"} {
		b := open(t, 1280, prefers(scheme))
		for _, name := range []string{"index", "docs/types", "docs/architecture", "reference", "examples/01-minimal/main.go"} {
			b.do(chromedp.Navigate(address + "/" + name + ".html"))
			if got := js[bool](b, dark); got != (scheme == "dark") {
				t.Errorf("%s: dark is %v for those who prefer %s", name, got, scheme)
			}
			for _, complaint := range js[[]string](b, contrasts) {
				t.Errorf("%s, %s: the contrast is low: %s", name, scheme, complaint)
			}
		}
	}
	b := open(t, 1280, prefers("light"), chromedp.Navigate(address+"/index.html"))
	for range 2 { // there, and back
		before := js[bool](b, dark)
		b.do(chromedp.Click("#site-theme"), chromedp.Navigate(address+"/docs/handlers.html"))
		if js[bool](b, dark) == before || js[string](b, `document.getElementById('site-theme').getAttribute('aria-pressed')`) != fmt.Sprint(!before) {
			t.Errorf("the choice is not remembered: dark is still %v", before)
		}
	}
	b.check(top)
}

func testKeyboard(t *testing.T, top string) {
	address := top + "latest"
	const focus = `document.activeElement.id || document.activeElement.textContent.trim()`
	b := open(t, 320, chromedp.Navigate(address+"/docs/handlers.html"))
	b.do(chromedp.KeyEvent(kb.Tab))
	if got := js[string](b, focus); got != "Skip to the content" || js[float64](b, `document.activeElement.getBoundingClientRect().left`) < 0 {
		t.Errorf("the first stop is %q, want the skip link, where it is seen", got)
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.wait(`document.activeElement.id === 'site-content'`)
	b.do(chromedp.Evaluate(`scrollTo(0, 0); document.querySelector('.source').focus()`, nil), chromedp.KeyEvent(kb.Tab))
	if got := js[string](b, focus); got != "Menu" {
		t.Errorf("after the header, the focus is on %q, want Menu", got)
	}
	if outline := js[string](b, `getComputedStyle(document.activeElement).outlineStyle`); outline != "solid" {
		t.Errorf("the focus is not seen: %s", outline)
	}
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab))
	if got := js[string](b, focus); got != "Overview" || !js[bool](b, `document.activeElement.getClientRects().length > 0`) {
		t.Errorf("in the menu, the focus is on %q, want Overview", got)
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.wait(`location.pathname.endsWith('/latest/')`) // the server redirects index.html to it
	b.check(top)
}

func testWithoutScripts(t *testing.T, top string) {
	address := top + "latest"
	wide := open(t, 1280, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(top+"latest/docs/handlers.html"))
	if err := chromedp.Run(wide, chromedp.WaitVisible(`.menu a[href$="docs/errors.html"]`), chromedp.WaitVisible(`.contents a`)); err != nil {
		t.Errorf("on a wide screen, the navigation is hidden: %v", err)
	}
	b := open(t, 320, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(address+"/docs/handlers.html"))
	b.do(chromedp.Click(`.menu > summary`), chromedp.Click(`.menu a[href$="docs/errors.html"]`, chromedp.NodeVisible))
	b.do(chromedp.WaitVisible(`.menu a[aria-current][href$="docs/errors.html"]`, chromedp.AtLeast(0)))
	var shown bool
	if err := chromedp.Run(b, chromedp.Evaluate(`document.querySelector('.search').getClientRects().length > 0`, &shown)); err == nil && shown {
		t.Error("a search is shown that cannot work")
	}
	b.check(top)
}

func takeScreenshots(t *testing.T, address string) {
	for _, name := range []string{"index", "docs/index", "docs/handlers", "docs/types", "docs/architecture", "docs/performance", "reference", "examples/01-minimal/main.go"} {
		for _, form := range []struct {
			width  int64
			scheme string
		}{{320, "light"}, {1280, "light"}, {1280, "dark"}} {
			var picture []byte
			b := open(t, form.width, prefers(form.scheme), chromedp.Navigate(address+"/"+name+".html"), chromedp.CaptureScreenshot(&picture))
			file := filepath.Join(*screenshots, fmt.Sprintf("%s-%d-%s.png", strings.ReplaceAll(name, "/", "-"), form.width, form.scheme))
			if err := os.WriteFile(file, picture, 0o644); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}
