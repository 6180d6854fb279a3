package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/safecall"
)

// This file holds the metrics of other libraries, written by a user's function as text. They are checked, because one bad line makes the whole page unusable.

// The limits of a user's function.
const (
	maxWritten = 1 << 20         // bytes that it can add to a page
	maxWriting = 3 * time.Second // for its call and the calls before it; scrapers wait a few times as long
)

// writer is a user's function that writes metrics.
type writer struct {
	call  func(io.Writer) error
	where string        // place of the registration
	turn  chan struct{} // holds a token while the function is called

	mu      sync.Mutex // guards following
	checked bool       // whether its output has been found valid
	logged  bool       // whether the log has a line about invalid output
}

// RegisterWriter adds a function that writes metrics. The first argument is the place in the source that registers it.
func RegisterWriter(where string, call func(io.Writer) error) {
	registered.mu.Lock()
	defer registered.mu.Unlock()
	registered.writers = append(registered.writers, &writer{call: call, where: where, turn: make(chan struct{}, 1)})
	registered.announce()
}

// written is the result of a call of the function.
type written struct {
	text limited
	err  error
}

// collect calls the function, and returns its output. A call that hangs costs one goroutine, and the pages omit its output.
func (w *writer) collect() ([]byte, error) {
	late := time.NewTimer(maxWriting)
	defer late.Stop()
	select {
	case w.turn <- struct{}{}:
	case <-late.C:
		return nil, errors.New("it has not returned from an earlier call")
	}
	done := make(chan written, 1)
	go func() {
		defer func() { <-w.turn }()
		var r written
		r.err = safecall.Do(func() error { return w.call(&r.text) })
		done <- r
	}()
	select {
	case r := <-done:
		if r.err == nil && len(r.text) == maxWritten {
			r.err = fmt.Errorf("it has written more than %d bytes", maxWritten)
		}
		return r.text, r.err
	case <-late.C:
		return nil, fmt.Errorf("it has not returned in %s", maxWriting)
	}
}

// write writes the function's output, without the metrics whose names are in taken, and adds the names of its own to taken.
func (w *writer) write(p *page, taken map[string]bool) {
	text, err := w.collect()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && !w.checked {
		err = Check(text)
	}
	if w.checked = w.checked || err == nil; err != nil {
		if !w.logged {
			p.log.Error("The metrics of a function were left out of the page", "registered", w.where, "error", err, "help", "K1104")
		}
		w.logged = true
		return
	}
	w.logged = false
	own := make(map[string]bool)
	for line := range bytes.Lines(text) {
		_, name, _ := split(line)
		if own[name] = true; name != "" && (taken[name] || isOurs(name)) {
			continue
		}
		if p.b = append(p.b, line...); line[len(line)-1] != '\n' {
			p.text("\n")
		}
	}
	maps.Copy(taken, own)
}

// limited is a buffer that drops everything beyond maxWritten.
type limited []byte

func (l *limited) Write(b []byte) (int, error) {
	*l = append(*l, b[:min(len(b), maxWritten-len(*l))]...)
	return len(b), nil
}

// split returns the keyword of a comment ("" for a sample), the metric name ("" without one), and the text after the name.
func split(line []byte) (keyword, name, rest string) {
	text := strings.TrimRight(string(line), "\n")
	if comment, is := strings.CutPrefix(strings.TrimLeft(text, " \t"), "#"); is {
		words := strings.SplitN(strings.TrimLeft(comment, " \t"), " ", 3)
		if (words[0] == "HELP" || words[0] == "TYPE") && len(words) > 1 {
			return words[0], words[1], strings.Join(words[2:], " ")
		}
		return "#", "", ""
	}
	i := strings.IndexAny(text, "{ ")
	if i < 0 {
		i = len(text)
	}
	return "", text[:i], text[i:]
}

// Check validates a page in the text format.
func Check(text []byte) error {
	c := &checker{types: make(map[string]string), seen: make(map[string]bool)}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if err := c.line(line); err != nil {
			return fmt.Errorf("line %d, %q: %w", number, bytes.TrimRight(line[:min(len(line), maxValue)], "\n"), err)
		}
	}
	return nil
}

// checker holds the state of the lines so far.
type checker struct {
	types map[string]string
	seen  map[string]bool // samples, by name and labels
}

var typeNames = []string{"counter", "gauge", "histogram", "summary", "untyped"}

func (c *checker) line(line []byte) error {
	keyword, name, rest := split(line)
	switch {
	case !utf8.Valid(line) || bytes.ContainsFunc(bytes.TrimRight(line, "\n"), func(r rune) bool { return r < ' ' }):
		return errors.New("want UTF-8 without control characters")
	case keyword == "#", keyword == "" && name == "" && rest == "":
		return nil
	case !isName(name, true):
		return fmt.Errorf("invalid name %q: want letters, digits, underscores and colons, and no digit first", name)
	case keyword == "HELP":
		return nil
	case keyword == "TYPE":
		if !slices.Contains(typeNames, rest) {
			return fmt.Errorf("invalid type %q: want one of %s", rest, strings.Join(typeNames, ", "))
		}
		if c.types[name] != "" {
			return fmt.Errorf("the type of %q is there twice", name)
		}
		c.types[name] = rest
		return nil
	}
	labels, number, err := labels(rest)
	if err != nil {
		return err
	}
	if key := name + labels; c.seen[key] {
		return fmt.Errorf("the series is there twice")
	} else if c.seen[key] = true; len(c.seen) > 1<<14 {
		clear(c.seen) // limits memory; duplicates further apart are not found
	}
	fields := strings.Split(number, " ")
	if len(fields) > 2 {
		return fmt.Errorf("invalid end %q: want a number, and perhaps a time in milliseconds", number)
	}
	if _, err := strconv.ParseFloat(fields[0], 64); err != nil || strings.ContainsAny(fields[0], "_xXpP") {
		return fmt.Errorf("invalid number %q: want a decimal one", fields[0])
	}
	if len(fields) == 2 {
		if _, err := strconv.ParseUint(fields[1], 10, 63); err != nil {
			return fmt.Errorf("invalid time %q: want milliseconds since 1970", fields[1])
		}
	}
	return nil
}

// labels returns the labels at the beginning of a text as written, and the text after the space that follows them.
func labels(text string) (labels, rest string, err error) {
	i := 0
	var names []string
	if strings.HasPrefix(text, "{") {
		i++
		for i < len(text) && text[i] != '}' {
			end := strings.IndexByte(text[i:], '=')
			if end < 0 {
				break
			}
			name := text[i : i+end]
			if !isName(name, false) {
				return "", "", fmt.Errorf("invalid label %q: want letters, digits and underscores, and no digit first", name)
			}
			if slices.Contains(names, name) {
				return "", "", fmt.Errorf("the label %q is there twice", name)
			}
			names = append(names, name)
			if i = valueEnd(text, i+end+1); i < 0 {
				return "", "", fmt.Errorf("the label %q has no value in quotes, with the escapes \\\\, \\\" and \\n", name)
			}
			if strings.HasPrefix(text[i:], ",") {
				i++
			} else if !strings.HasPrefix(text[i:], "}") {
				break
			}
		}
		if !strings.HasPrefix(text[i:], "}") {
			return "", "", fmt.Errorf("invalid labels %q: want them in braces, with commas between them", text)
		}
		i++
	}
	rest, spaced := strings.CutPrefix(text[i:], " ")
	if !spaced {
		return "", "", fmt.Errorf("invalid end %q: want a space before the number", text[i:])
	}
	return text[:i], rest, nil
}

// valueEnd returns the index after the quoted value that begins at an index, or -1.
func valueEnd(text string, i int) int {
	if i >= len(text) || text[i] != '"' {
		return -1
	}
	for i++; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			if i++; i >= len(text) || text[i] != '\\' && text[i] != '"' && text[i] != 'n' {
				return -1
			}
		}
	}
	return -1
}
