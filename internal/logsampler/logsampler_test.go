package logsampler

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lines collects log lines, without times.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.buf.Reset()
	return strings.TrimSpace(l.buf.String())
}

func newSampler() (*Sampler, *lines) {
	l := &lines{}
	return New(slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))), l
}

// count counts n successes, and returns how many are logged individually.
func count(s *Sampler, n int) (alone int) {
	for range n {
		if s.Count() == slog.LevelInfo {
			alone++
		}
	}
	return alone
}

const begin = `msg="Handlers succeed too often for a line each; logging their number instead" period=10s`

func TestSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, logged := newSampler()
		for range 5 { // a hundred per second are not a burst
			if n := count(s, limit); n != limit || s.Level() != slog.LevelInfo {
				t.Fatalf("%d successes of %d have a line", n, limit)
			}
			time.Sleep(time.Second)
		}
		if got := logged.take(); got != "" {
			t.Fatal(got)
		}
		if n := count(s, 250); n != limit || s.Level() != slog.LevelDebug {
			t.Fatalf("%d successes of a burst have a line, want %d", n, limit)
		}
		if got := logged.take(); got != begin {
			t.Fatal(got)
		}
		time.Sleep(Period - time.Second)
		if n := count(s, 850); n != 0 {
			t.Fatalf("%d successes within the period have a line", n)
		}
		time.Sleep(time.Second + 1)
		if got := logged.take(); got != `msg="Handlers succeeded" count=1000` {
			t.Fatal(got)
		}
		if n := count(s, 10); n != 0 { // there were many
			t.Fatalf("%d successes have a line", n)
		}
		time.Sleep(Period)
		if got := logged.take(); got != `msg="Handlers succeeded" count=10` {
			t.Fatal(got)
		}
		if n := count(s, 10); n != 10 || s.Level() != slog.LevelInfo { // and then few
			t.Fatalf("%d successes after the burst have a line", n)
		}
		time.Sleep(2 * Period)
		if got := logged.take(); got != "" {
			t.Fatal(got)
		}
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, logged := newSampler()
		count(s, limit+7)
		s.Stop()
		if got := logged.take(); got != begin+"\nmsg=\"Handlers succeeded\" count=7" {
			t.Fatal(got)
		}
		if n := count(s, 3*limit); n != 3*limit { // no sum would be logged
			t.Errorf("%d of %d have a line after the end", n, 3*limit)
		}
		s.Stop()
		time.Sleep(2 * Period)
		if got := logged.take(); got != "" {
			t.Error(got)
		}
		var none *Sampler
		if none.Stop(); none.Count() != slog.LevelInfo || none.Level() != slog.LevelInfo {
			t.Error("without a sampler, each success has its line")
		}
	})
}
