package metrics

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// alone gives a test metrics of users of its own.
func alone(t *testing.T) {
	before, page := registered, users.Load()
	registered = &registry{names: make(map[string]string)}
	users.Store(nil)
	t.Cleanup(func() {
		registered = before
		users.Store(page)
	})
}

func register(t *testing.T, kind Type, name string, bounds []float64, labels ...string) *Family {
	t.Helper()
	f, err := Register("main.go:1", kind, name, "Help.", bounds, labels)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestUserMetrics(t *testing.T) {
	t.Run("OB-33 counters, gauges and histograms are on the page", func(t *testing.T) {
		alone(t)
		sent, length := register(t, Counter, "sent_total", nil, "to", "how"), register(t, Gauge, "length", nil)
		size, took := register(t, Histogram, "size_bytes", []float64{10, 1e6}, "to"), register(t, Histogram, "took_seconds", nil)
		m := newMetrics()
		wantLines(t, write(t, m, false), "# HELP sent_total Help.", "# TYPE sent_total counter", "# TYPE length gauge", "length 0", "# TYPE size_bytes histogram", `took_seconds_bucket{le="300"} 0`, "took_seconds_count 0")
		sent.Add(2, []string{"a", "x"})
		sent.Add(1, []string{"a", "x"})
		sent.Add(1, []string{"a\"\n\xff", "x"})
		for _, n := range []float64{-1, math.NaN(), math.Inf(1)} {
			sent.Add(n, []string{"a", "x"})
			size.Observe(math.Inf(1), []string{"b"})
		}
		length.Set(5, nil)
		length.Add(-7, nil)
		for _, n := range []float64{10, 11, 1e7} {
			size.Observe(n, []string{"b"})
		}
		took.Observe(2, nil)
		page := write(t, m, false)
		wantLines(t, page, `sent_total{to="a",how="x"} 3`, "sent_total{to=\"a\\\"\\n\uFFFD\",how=\"x\"} 1", "length -2", `size_bytes_bucket{to="b",le="10"} 1`, `size_bytes_bucket{to="b",le="1e+06"} 2`, `size_bytes_bucket{to="b",le="+Inf"} 3`,
			`size_bytes_sum{to="b"} 1.0000021e+07`, `size_bytes_count{to="b"} 3`, `took_seconds_bucket{le="1"} 0`, `took_seconds_bucket{le="5"} 1`)
		if err := Check([]byte(page)); err != nil {
			t.Error(err)
		}
		wantLines(t, write(t, m, true), "# TYPE sent counter", `sent_total{to="a",how="x"} 3`, `size_bytes_bucket{to="b",le="10.0"} 1`)
	})
	t.Run("OB-33 of more than a thousand series, the others are one", func(t *testing.T) {
		alone(t)
		f := register(t, Counter, "many_total", nil, "a", "b")
		for i := range 10_000 {
			f.Add(1, []string{strconv.Itoa(i), "b"})
		}
		f.Add(1, []string{"1", "b"})
		f.Add(1, []string{"too few"})
		f.Add(1, []string{"one", "too", "many"})
		m := newMetrics()
		page := write(t, m, false)
		wantLines(t, page, `many_total{a="other",b="other"} 9002`, `many_total{a="1",b="b"} 2`)
		if n := strings.Count(page, "\nmany_total{"); n != 1001 {
			t.Errorf("there are %d series, want 1000 and that of the others", n)
		}
		f.Add(1, []string{strings.Repeat("x", 1000), "b"})
		short := register(t, Gauge, "short", nil, "a")
		short.Set(1, []string{strings.Repeat("x", 1000)})
		if page := write(t, m, false); strings.Contains(page, strings.Repeat("x", maxValue+1)) {
			t.Error("the value of a label is not cut")
		}
	})
	t.Run("OB-33 bad names are refused", func(t *testing.T) {
		alone(t)
		register(t, Counter, "a_total", nil)
		register(t, Histogram, "h", nil)
		nine := strings.Split("a b c d e f g h i", " ")
		for _, one := range []struct {
			kind   Type
			name   string
			bounds []float64
			labels []string
			want   string
		}{
			{Counter, "", nil, nil, `invalid name "": want letters`},
			{Gauge, "1x", nil, nil, `invalid name "1x": want letters`},
			{Gauge, "a-b", nil, nil, `invalid name "a-b": want letters`},
			{Counter, "a", nil, nil, `invalid name "a": want counters, and nothing else, to end with _total`},
			{Gauge, "x_total", nil, nil, `invalid name "x_total": want counters, and nothing else`},
			{Counter, "a_total", nil, nil, `invalid name "a_total": a metric that was registered at main.go:1 has the name "a_total"`},
			{Gauge, "a", nil, nil, `invalid name "a": a metric that was registered at main.go:1`},
			{Gauge, "h_sum", nil, nil, `invalid name "h_sum": a metric that was registered at main.go:1`},
			{Gauge, "kopf_x", nil, nil, `invalid name "kopf_x": the operator has the metrics kopf_…`},
			{Gauge, "workqueue_depth", nil, nil, `invalid name "workqueue_depth": the operator has`},
			{Gauge, "controller_runtime_reconcile_time_seconds_sum", nil, nil, "the operator has"},
			{Gauge, "x", nil, nine, `want at most 8`},
			{Gauge, "x", nil, []string{"a:b"}, `invalid label "a:b" of "x"`},
			{Gauge, "x", nil, []string{"__a"}, `invalid label "__a"`},
			{Gauge, "x", nil, []string{"le"}, `invalid label "le"`},
			{Gauge, "x", nil, []string{"a", "a"}, `invalid label "a"`},
			{Histogram, "x", []float64{1, 1}, nil, `invalid bucket 1 of "x"`},
			{Histogram, "x", []float64{1, math.Inf(1)}, nil, `invalid bucket +Inf of "x"`},
			{Histogram, "x", make([]float64, 51), nil, `want at most 50`},
		} {
			if _, err := Register("main.go:2", one.kind, one.name, "", one.bounds, one.labels); err == nil || !strings.Contains(err.Error(), one.want) {
				t.Errorf("%q: got %v, want %s", one.name, err, one.want)
			}
		}
		register(t, Gauge, "x", nil, nine[:8]...)
	})
	t.Run("OB-33 they can be used on all goroutines", func(t *testing.T) {
		alone(t)
		f := register(t, Counter, "n_total", nil, "a")
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				g := register(t, Histogram, "h"+strconv.Itoa(i), nil, "a")
				for j := range 1000 {
					f.Add(1, []string{strconv.Itoa(j % 10)})
					g.Observe(1, []string{"b"})
				}
				write(t, newMetrics(), i%2 == 0)
			})
		}
		all.Wait()
		wantLines(t, write(t, newMetrics(), false), `n_total{a="0"} 800`, `h7_count{a="b"} 1000`)
	})
}

func TestWriters(t *testing.T) {
	t.Run("OB-33 what a function writes is checked once, and left out with a line in the log if it is wrong", func(t *testing.T) {
		alone(t)
		var log strings.Builder
		m := newMetrics()
		m.state.Log = slog.New(slog.NewTextHandler(&log, nil))
		text := "good 1\nbad line\n"
		RegisterWriter("main.go:7", func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
		if !TextOnly() {
			t.Error("there could be a page of OpenMetrics")
		}
		for range 2 {
			if page := write(t, m, false); strings.Contains(page, "good 1") {
				t.Errorf("the page has bad lines\n%s", page)
			}
		}
		if got := log.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "main.go:7") || !strings.Contains(got, `line 2, \"bad line\": invalid number \"line\": want a decimal one`) {
			t.Errorf("got the log %s", got)
		}
		text = "# TYPE good counter\ngood{a=\"b\"} 1 1700000000000\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total -7\nkopf_handler_duration_seconds_count 1\nlast 2"
		page := write(t, m, false)
		wantLines(t, page, `good{a="b"} 1 1700000000000`, "last 2")
		if strings.Contains(page, "process_cpu_seconds_total -7") || strings.Contains(page, "kopf_handler_duration_seconds_count 1") || strings.Count(page, "# TYPE process_cpu_seconds_total") > 1 {
			t.Errorf("the page has metrics twice\n%s", page)
		}
		text = "bad line\n"
		if page := write(t, m, false); !strings.Contains(page, "bad line") {
			t.Error("it is checked again")
		}
	})
	t.Run("OB-33 metrics that are on the page already are left out", func(t *testing.T) {
		alone(t)
		register(t, Counter, "sent_total", nil)
		for i := range 2 {
			RegisterWriter("main.go:7", func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "# TYPE sent_total counter\nsent_total 5\n# TYPE both gauge\nboth{a=\"b\"} %d\nboth{a=\"c\"} 7\n# TYPE only_%d gauge\nonly_%d 1\n", i, i, i)
				return err
			})
		}
		page := write(t, newMetrics(), false)
		wantLines(t, page, "sent_total 0", `both{a="b"} 0`, `both{a="c"} 7`, "only_0 1", "only_1 1")
		if err := Check([]byte(page)); err != nil {
			t.Errorf("the page has something twice: %v", err)
		}
	})
	t.Run("OB-33 a function that does not return leaves the pages to the others", func(t *testing.T) {
		alone(t)
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			m := newMetrics()
			m.state.Log = slog.New(slog.NewTextHandler(&log, nil))
			end := make(chan struct{})
			var calls atomic.Int32
			RegisterWriter("main.go:7", func(io.Writer) error {
				calls.Add(1)
				<-end
				return nil
			})
			RegisterWriter("main.go:8", func(w io.Writer) error { _, err := io.WriteString(w, "well 1\n"); return err })
			for range 3 {
				began := time.Now()
				wantLines(t, write(t, m, false), "well 1")
				if took := time.Since(began); took > maxWriting {
					t.Errorf("the page has taken %s", took)
				}
			}
			if n := calls.Load(); n != 1 || strings.Count(log.String(), "it has not returned in 3s") != 1 {
				t.Errorf("got %d calls, and the log %s", n, log.String())
			}
			close(end)
			synctest.Wait()
			write(t, m, false)
			if n := calls.Load(); n != 2 {
				t.Errorf("got %d calls after the first one has ended, want 2", n)
			}
		})
	})
	t.Run("OB-33 a help that is no UTF-8 leaves the page one", func(t *testing.T) {
		alone(t)
		if _, err := Register("main.go:1", Gauge, "odd", "Of \xff things.\nAnd more.", nil, nil); err != nil {
			t.Fatal(err)
		}
		page := write(t, newMetrics(), false)
		wantLines(t, page, "# HELP odd Of \uFFFD things.\\nAnd more.")
		if err := Check([]byte(page)); err != nil {
			t.Error(err)
		}
	})
	for name, call := range map[string]func(io.Writer) error{
		"an error": func(w io.Writer) error { io.WriteString(w, "x 1\n"); return errors.New("broken") },
		"a panic":  func(io.Writer) error { panic("broken") },
		"too much": func(w io.Writer) error {
			for range maxWritten / 4 {
				if n, err := io.WriteString(w, "x 1\n\n"); n != 5 || err != nil {
					return fmt.Errorf("%d, %w", n, err)
				}
			}
			return nil
		},
	} {
		t.Run("OB-33 the page is without a function that ends with "+name, func(t *testing.T) {
			alone(t)
			var log strings.Builder
			m := newMetrics()
			m.state.Log = slog.New(slog.NewTextHandler(&log, nil))
			RegisterWriter("main.go:7", call)
			write(t, m, false)
			if page := write(t, m, false); strings.Contains(page, "\nx 1") || !strings.Contains(page, "kopf_queue_depth 0") {
				t.Errorf("got the page\n%s", page)
			}
			if strings.Count(log.String(), "level=ERROR") != 1 {
				t.Errorf("got the log %s", log.String())
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "\n# x\n#\n": "", "a 1\n": "", "a{} 1\n": "", `a{b="c",} NaN`: "", `a{b="\\\"\n"} -1e-7 5`: "", "a 1 -5\n": `invalid time "-5"`, "# HELP a\n# HELP a b\n# TYPE a untyped\na +Inf": "",
		"# HELP a \xff":                  "want UTF-8",
		"# HELP\x00 a":                   "want UTF-8",
		"a\t1":                           "want UTF-8",
		"a 1\r\n":                        "want UTF-8",
		"1a 1":                           `line 1, "1a 1": invalid name "1a"`,
		"a":                              "want a space before the number",
		"a  1":                           "invalid number",
		"a{b=\"c\"}1":                    "want a space before the number",
		"a{b=c} 1":                       `the label "b" has no value in quotes`,
		`a{b="\x"} 1`:                    `the label "b" has no value`,
		`a{b="} 1`:                       `the label "b" has no value`,
		`a{b="c" 1`:                      "want them in braces",
		`a{b="c",b=""}1`:                 `the label "b" is there twice`,
		`a{b-c="d"} 1`:                   `invalid label "b-c"`,
		`a{b} 1`:                         "want them in braces",
		"a 0x1p-2":                       "invalid number",
		"a 1_000":                        "invalid number",
		"a 1 2 3":                        "want a number, and perhaps a time",
		"a 1 x":                          `invalid time "x"`,
		"a 1\n\na 2":                     `line 3, "a 2": the series is there twice`,
		"# TYPE a x":                     `invalid type "x": want one of counter`,
		"# TYPE a gauge\n# TYPE a gauge": `the type of "a" is there twice`,
	} {
		err := Check([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("# TYPE a counter\na{b=\"c\"} 1 2\n")
	f.Add("a{b=\"\\n\",} NaN\n")
	f.Fuzz(func(t *testing.T, text string) {
		if Check([]byte(text)) != nil {
			return
		}
		for line := range strings.Lines(text) { // with which the line is alone as good
			if err := Check([]byte(line)); err != nil {
				t.Errorf("%q is right, and its line %q is not: %v", text, line, err)
			}
		}
	})
}
