package kopf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file reads lists of objects, page by page, while they come in: neither a page nor its objects are there twice, and an object that
// is skipped by the prefilter costs nothing but that. It runs on the goroutine of the caller.

// errStopped means that the callback wants no more objects.
var errStopped = errors.New("stopped")

// list hands over the objects of a resource while they come in, in pages unless the size is zero, and returns the version of the list.
func (c *Client) list(ctx context.Context, r Resource, namespace string, query url.Values, pageSize int, once bool, yield func(*Body) bool) (string, error) {
	return c.scanList(ctx, r, namespace, query, pageSize, once, func(o *rawjson.Header, raw []byte) bool { return yield(listedBody(o, raw, r)) }, nil)
}

// scanList is list for callers that want the outlines first, in bytes that are used again afterwards, and to do something between the
// pages, unless that is nil.
func (c *Client) scanList(ctx context.Context, r Resource, namespace string, query url.Values, pageSize int, once bool,
	handle func(o *rawjson.Header, raw []byte) bool, between func(context.Context)) (string, error) {
	page := &listPage{handle: handle}
	for {
		if err := c.page(ctx, r, namespace, query, pageSize, page, once); err != nil {
			return "", err
		}
		if page.next == "" {
			return page.version, nil
		}
		if between != nil {
			between(ctx)
		}
		query.Set("continue", page.next)
	}
}

// listPages yields objects while no request is under way.
func (c *Client) listPages(ctx context.Context, r Resource, o *ListOptions, yield func(*Body, error) bool) error {
	q := o.query()
	for {
		var items []*Body
		page := &listPage{repeatable: true}
		page.begin = func() { items = nil }
		page.handle = func(o *rawjson.Header, raw []byte) bool {
			items = append(items, listedBody(o, raw, r))
			return true
		}
		if err := c.page(ctx, r, o.Namespace, q, cmp.Or(o.PageSize, 500), page, false); err != nil {
			return err
		}
		for _, b := range items {
			if !yield(b, nil) {
				return errStopped
			}
		}
		if page.next == "" {
			return nil
		}
		q.Set("continue", page.next)
	}
}

// page requests one page.
func (c *Client) page(ctx context.Context, r Resource, namespace string, query url.Values, size int, page *listPage, once bool) error {
	if size > 0 {
		query.Set("limit", strconv.Itoa(size))
	}
	return c.do(ctx, &request{
		method: http.MethodGet, path: r.URL(url.PathEscape(namespace), "", ""), query: query, once: once,
		read: page.read,
	})
}

// listedBody returns the body of an item of a list, with bytes of its own. Most items have neither a kind nor an APIVersion.
func listedBody(o *rawjson.Header, raw []byte, r Resource) *Body {
	return outlined(o, bytes.Clone(raw[:o.End])).typed(r.APIVersion(), r.Kind)
}

// listPage reads one page of a list.
type listPage struct {
	begin           func() // the page begins, perhaps once more; may be nil
	handle          func(o *rawjson.Header, raw []byte) bool
	repeatable      bool // whether objects that were taken may come again
	version, next   string
	complete, taken bool

	from   io.Reader
	buffer []byte // what was read and not yet understood is in buffer[at:]
	at     int
	item   rawjson.Header
}

// pageBuffer is how much of a page is read at a time. An object that is larger makes the buffer grow.
const pageBuffer = 32 << 10

// maxObject is up to what size objects are read, in bytes. API servers keep none of more than a few million.
const maxObject = 64 << 20

// errTooLarge means that an object does not end.
var errTooLarge = fmt.Errorf("%w: an object has more than %d bytes", errUnreadable, maxObject)

// read reads the page as it comes in. A page that breaks off must not pass for a complete one, for what is not in it would be taken for
// deleted.
func (p *listPage) read(answer io.Reader) error {
	p.complete, p.taken, p.version, p.next = false, false, "", ""
	if p.from, p.at = answer, 0; p.buffer == nil {
		p.buffer = make([]byte, 0, pageBuffer)
	}
	p.buffer = p.buffer[:0]
	if p.begin != nil {
		p.begin()
	}
	if c, err := p.peek(); err != nil {
		return err
	} else if c != '{' {
		return fmt.Errorf("%w: a list in JSON is expected, with %q and not %q", errUnreadable, '{', c)
	}
	p.at++
	for first := true; ; first = false {
		more, err := p.more('}', first)
		if err == nil && more {
			err = p.member()
		}
		if err != nil {
			return p.broken(err)
		}
		if !more {
			break
		}
	}
	if !p.complete {
		return fmt.Errorf("%w: a list is expected, and there are no items", errUnreadable)
	}
	return nil
}

// member reads one member of the list.
func (p *listPage) member() error {
	quoted, err := p.value()
	if err != nil {
		return err
	}
	if !rawjson.IsQuoted(quoted) {
		return fmt.Errorf("%w: %w", errUnreadable, rawjson.ErrMalformed)
	}
	key := rawjson.Unquote(quoted)
	if c, err := p.peek(); err != nil {
		return err
	} else if c != ':' {
		return fmt.Errorf("%w: %w", errUnreadable, rawjson.ErrMalformed)
	}
	p.at++
	if key == "items" {
		return p.items()
	}
	value, err := p.value()
	if err == nil && key == "metadata" {
		p.version, p.next = rawjson.StringAt(value, "resourceVersion"), rawjson.StringAt(value, "continue")
	}
	return err
}

func (p *listPage) items() error {
	c, err := p.peek()
	if err != nil {
		return err
	}
	if c != '[' {
		value, err := p.value()
		if err == nil && !rawjson.IsNull(value) { // so some servers write an empty list
			err = fmt.Errorf("%w: the items of a list are %.20q", errUnreadable, value)
		}
		p.complete = err == nil
		return err
	}
	p.at++
	for first := true; ; first = false {
		if more, err := p.more(']', first); err != nil || !more {
			p.complete = err == nil
			return err
		}
		if err := p.object(); err != nil {
			return err
		}
		p.taken = !p.repeatable
		taken := p.handle(&p.item, p.buffer[p.at:])
		if p.at += p.item.End; !taken {
			return fmt.Errorf("%w: %w", errInterrupted, errStopped)
		}
	}
}

// object finds the next item. Its outline counts from where the page is.
func (p *listPage) object() error {
	for {
		err := p.item.Scan(p.buffer[p.at:])
		if !errors.Is(err, rawjson.ErrTruncated) {
			if err != nil {
				err = fmt.Errorf("%w: %w", errUnreadable, err)
			}
			return err
		}
		if err := p.grow(); err != nil {
			return err
		}
	}
}

// grow reads more of an item. Of a large one, it reads as much again as there is, for the item is gone through from its beginning then.
func (p *listPage) grow() error {
	before := len(p.buffer) - p.at
	enough := before + 1
	if before >= pageBuffer {
		enough = 2 * before
	}
	for len(p.buffer)-p.at < enough {
		if err := p.fill(); err != nil {
			if len(p.buffer)-p.at > before && !errors.Is(err, errTooLarge) {
				return nil // it may be enough
			}
			return err
		}
	}
	return nil
}

// value returns the bytes of the next value, until more is read.
func (p *listPage) value() ([]byte, error) {
	if _, err := p.peek(); err != nil {
		return nil, err
	}
	for {
		end, err := rawjson.SkipValue(p.buffer, p.at)
		if err == nil && end < len(p.buffer) { // a number that ends where the buffer ends may go on
			value := p.buffer[p.at:end]
			p.at = end
			return value, nil
		}
		if err != nil && !errors.Is(err, rawjson.ErrTruncated) {
			return nil, fmt.Errorf("%w: %w", errUnreadable, err)
		}
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
}

// more goes to the next member or item, and reports whether there is one before the bracket.
func (p *listPage) more(bracket byte, first bool) (bool, error) {
	c, err := p.peek()
	if err != nil {
		return false, err
	}
	if c == bracket {
		p.at++
		return false, nil
	}
	if first {
		return true, nil
	}
	if c != ',' {
		return false, fmt.Errorf("%w: %w", errUnreadable, rawjson.ErrMalformed)
	}
	p.at++
	_, err = p.peek()
	return true, err
}

// peek returns the next byte that is no white space.
func (p *listPage) peek() (byte, error) {
	for {
		if p.at = rawjson.SkipSpace(p.buffer, p.at); p.at < len(p.buffer) {
			return p.buffer[p.at], nil
		}
		if err := p.fill(); err != nil {
			return 0, err
		}
	}
}

// fill reads more of the page. What was understood makes room for it.
func (p *listPage) fill() error {
	if p.at > 0 {
		p.buffer = p.buffer[:copy(p.buffer, p.buffer[p.at:])]
		p.at = 0
	}
	if len(p.buffer) > maxObject {
		return errTooLarge
	}
	if len(p.buffer) == cap(p.buffer) {
		p.buffer = append(make([]byte, 0, 2*cap(p.buffer)), p.buffer...)
	}
	for range 100 {
		n, err := p.from.Read(p.buffer[len(p.buffer):cap(p.buffer)])
		if p.buffer = p.buffer[:len(p.buffer)+n]; n > 0 {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// broken marks errors after which the page must not be read once more, because objects were taken from it.
func (p *listPage) broken(err error) error {
	if p.taken && !errors.Is(err, errStopped) {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return err
}
