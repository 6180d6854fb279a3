package rawjson

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrBrokenFrame is the error of a watch that ended in the middle of an event.
var ErrBrokenFrame = errors.New("the watch broke off in the middle of an event")

// frameBuffer is the size of a TLS record, which arrives at once.
const frameBuffer = 16 << 10

// ReadFrames splits a watch stream into lines of any length. It reuses the buffer after each call of handle.
func ReadFrames(r io.Reader, handle func(line []byte) error) error {
	b := bufio.NewReaderSize(r, frameBuffer)
	var long []byte
	for {
		line, err := b.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if long = append(long, line...); len(long) > MaxObject {
				return ErrTooLarge
			}
			continue
		}
		if err != nil {
			if rest := len(bytes.TrimSpace(line)) + len(long); rest > 0 && errors.Is(err, io.EOF) {
				return ErrBrokenFrame
			} else if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if long != nil {
			line, long = append(long, line...), nil
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := handle(line); err != nil {
			return err
		}
	}
}

// Frame is one watch event, as bytes.
type Frame struct {
	Type   string
	Raw    []byte // the object, and the bytes after it
	Object Header
}

// Scan finds the parts of a frame.
func (f *Frame) Scan(line []byte) error {
	f.Type, f.Raw = "", nil
	w := MemberReader{Data: line}
	for w.Next() {
		end, err := 0, error(nil)
		if string(w.Name()) == "object" {
			f.Raw = line[w.At:]
			err = f.Object.Scan(f.Raw)
			end = w.At + f.Object.End
		} else if end, err = SkipValue(line, w.At); err == nil && string(w.Name()) == "type" {
			f.Type = eventType(line[w.At:end])
		}
		if err != nil {
			return fmt.Errorf("%w: an event with an object is expected: %w", ErrUnreadable, err)
		}
		w.At = end
	}
	if w.Err == nil && f.Raw == nil {
		w.Err = errors.New("there is none")
	}
	if w.Err != nil {
		return fmt.Errorf("%w: an event with an object is expected: %w", ErrUnreadable, w.Err)
	}
	return nil
}

// eventType returns the type of an event. It does not allocate for the usual types.
func eventType(quoted []byte) string {
	for _, known := range [...]string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK"} {
		if len(quoted) == len(known)+2 && string(quoted[1:len(quoted)-1]) == known {
			return known
		}
	}
	return Unquote(quoted)
}
