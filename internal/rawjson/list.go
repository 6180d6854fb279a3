package rawjson

import (
	"errors"
	"fmt"
	"io"
)

// ListPage reads pages of a list of objects, one after another.
type ListPage struct {
	// Take receives the header of each object, and bytes that begin with the object and are reused after the call. An error stops the reading.
	Take          func(h *Header, raw []byte) error
	Version, Next string // of the list, and its continue token; "" on the last page
	Taken         bool   // Take was called for this page

	complete bool
	from     io.Reader
	buffer   []byte // buffer[at:] is not parsed yet
	at       int
	item     Header
}

// pageBuffer is the size of one read. The buffer grows for a larger object.
const pageBuffer = 32 << 10

// MaxObject is the maximum size of an object, in bytes. API servers store at most a few million bytes.
const MaxObject = 64 << 20

// ErrUnreadable is the error of a complete response that does not come from an API server, such as the error page of a proxy.
var ErrUnreadable = errors.New("the answer cannot be understood")

// ErrTooLarge is the error of an object beyond MaxObject. It wraps ErrUnreadable.
var ErrTooLarge = fmt.Errorf("%w: an object has more than %d bytes", ErrUnreadable, MaxObject)

// Read reads a page while it arrives. It returns an error for a truncated page, because objects missing in a complete page count as deleted.
func (p *ListPage) Read(answer io.Reader) error {
	p.complete, p.Taken, p.Version, p.Next = false, false, "", ""
	if p.from, p.at = answer, 0; p.buffer == nil {
		p.buffer = make([]byte, 0, pageBuffer)
	}
	p.buffer = p.buffer[:0]
	if c, err := p.peek(); err != nil {
		return err
	} else if c != '{' {
		return fmt.Errorf("%w: a list in JSON is expected, with %q and not %q", ErrUnreadable, '{', c)
	}
	p.at++
	for first := true; ; first = false {
		more, err := p.more('}', first)
		if err == nil && more {
			err = p.member()
		}
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if !p.complete {
		return fmt.Errorf("%w: a list is expected, and there are no items", ErrUnreadable)
	}
	return nil
}

// member reads one member of the list.
func (p *ListPage) member() error {
	quoted, err := p.value()
	if err != nil {
		return err
	}
	if !IsQuoted(quoted) {
		return fmt.Errorf("%w: %w", ErrUnreadable, ErrMalformed)
	}
	key := Unquote(quoted)
	if c, err := p.peek(); err != nil {
		return err
	} else if c != ':' {
		return fmt.Errorf("%w: %w", ErrUnreadable, ErrMalformed)
	}
	p.at++
	if key == "items" {
		return p.items()
	}
	value, err := p.value()
	if err == nil && key == "metadata" {
		p.Version, p.Next = StringAt(value, "resourceVersion"), StringAt(value, "continue")
	}
	return err
}

func (p *ListPage) items() error {
	c, err := p.peek()
	if err != nil {
		return err
	}
	if c != '[' {
		value, err := p.value()
		if err == nil && !IsNull(value) { // some servers write an empty list as null
			err = fmt.Errorf("%w: the items of a list are %.20q", ErrUnreadable, value)
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
		p.Taken = true
		if err := p.Take(&p.item, p.buffer[p.at:]); err != nil {
			return err
		}
		p.at += p.item.End
	}
}

// object finds the next item. The indices of its header start at the item.
func (p *ListPage) object() error {
	for {
		err := p.item.Scan(p.buffer[p.at:])
		if !errors.Is(err, ErrTruncated) {
			if err != nil {
				err = fmt.Errorf("%w: %w", ErrUnreadable, err)
			}
			return err
		}
		if err := p.grow(); err != nil {
			return err
		}
	}
}

// grow reads more of an item. It doubles the data of a large item, because the item is scanned from its start again.
func (p *ListPage) grow() error {
	before := len(p.buffer) - p.at
	enough := before + 1
	if before >= pageBuffer {
		enough = 2 * before
	}
	for len(p.buffer)-p.at < enough {
		if err := p.fill(); err != nil {
			if len(p.buffer)-p.at > before && !errors.Is(err, ErrTooLarge) {
				return nil // perhaps the item is complete
			}
			return err
		}
	}
	return nil
}

// value returns the bytes of the next value. They are valid until the next read.
func (p *ListPage) value() ([]byte, error) {
	if _, err := p.peek(); err != nil {
		return nil, err
	}
	for {
		end, err := SkipValue(p.buffer, p.at)
		if err == nil && end < len(p.buffer) { // a number at the end of the buffer may be incomplete
			value := p.buffer[p.at:end]
			p.at = end
			return value, nil
		}
		if err != nil && !errors.Is(err, ErrTruncated) {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
}

// more moves to the next member or item, and reports whether there is one before the bracket.
func (p *ListPage) more(bracket byte, first bool) (bool, error) {
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
		return false, fmt.Errorf("%w: %w", ErrUnreadable, ErrMalformed)
	}
	p.at++
	_, err = p.peek()
	return true, err
}

// peek returns the next byte that is not white space.
func (p *ListPage) peek() (byte, error) {
	for {
		if p.at = SkipSpace(p.buffer, p.at); p.at < len(p.buffer) {
			return p.buffer[p.at], nil
		}
		if err := p.fill(); err != nil {
			return 0, err
		}
	}
}

// fill reads more of the page. It drops the parsed bytes.
func (p *ListPage) fill() error {
	if p.at > 0 {
		p.buffer = p.buffer[:copy(p.buffer, p.buffer[p.at:])]
		p.at = 0
	}
	if len(p.buffer) > MaxObject {
		return ErrTooLarge
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
