package rawjson

// Range is a part of some bytes, by the indices of its begin and of its end. The zero range is of what is not there.
type Range struct{ From, To int }

// Of returns the part, nil of what is not there. Like [Lookup], it is not copied to its callers.
//
//go:noinline
func (r Range) Of(raw []byte) []byte {
	if r.To == 0 {
		return nil
	}
	return raw[r.From:r.To:r.To]
}

// Header is where the parts of an object are in its bytes, as one pass finds them: it is on the way of every event, and most objects are
// never read any further. The ranges are of values, with their quotes and brackets.
type Header struct {
	End                                                       int // of the object
	APIVersion, Kind, Metadata, Spec, Status                  Range
	Name, Namespace, UID, ResourceVersion, DeletionTimestamp  Range // in the metadata, as the following
	Labels, Annotations, Finalizers, OwnerReferences, Managed Range

	Other      [MaxOther]HeaderMember // the other stanzas, and the spec, in their order
	OtherCount int                    // how many of them there are, and may be more than there is room for
}

// HeaderMember is where a member of an object is in its bytes.
type HeaderMember struct{ Key, Value Range }

// MaxOther is the number of stanzas, besides the usual ones, that a header has room for. Few kinds have more than three.
const MaxOther = 6

// Scan finds the parts of the object that the data begins with. Of equal keys, the last one counts. The error is ErrTruncated if the data end
// before the object does.
func (h *Header) Scan(data []byte) error {
	*h = Header{}
	w := MemberReader{Data: data}
	for w.Next() {
		end, err := 0, error(nil)
		switch string(w.Name()) {
		case "metadata":
			end, err = h.scanMetadata(data, w.At)
			h.Metadata = Range{w.At, end}
		case "apiVersion":
			end, err = SkipValue(data, w.At)
			h.APIVersion = Range{w.At, end}
		case "kind":
			end, err = SkipValue(data, w.At)
			h.Kind = Range{w.At, end}
		case "status":
			end, err = SkipValue(data, w.At)
			h.Status = Range{w.At, end}
		default:
			end, err = SkipValue(data, w.At)
			if string(w.Name()) == "spec" {
				h.Spec = Range{w.At, end}
			}
			if h.OtherCount < MaxOther {
				h.Other[h.OtherCount].Key, h.Other[h.OtherCount].Value = w.Key, Range{w.At, end}
			}
			h.OtherCount++
		}
		if err != nil {
			return err
		}
		w.At = end
	}
	h.End = w.At
	return w.Err
}

// scanMetadata finds the parts of the metadata that begin at data[i], and returns the index after them.
func (h *Header) scanMetadata(data []byte, i int) (int, error) {
	h.Name, h.Namespace, h.UID, h.ResourceVersion, h.DeletionTimestamp = Range{}, Range{}, Range{}, Range{}, Range{}
	h.Labels, h.Annotations, h.Finalizers, h.OwnerReferences, h.Managed = Range{}, Range{}, Range{}, Range{}, Range{}
	if i >= len(data) || data[i] != '{' {
		return SkipValue(data, i)
	}
	w := MemberReader{Data: data, At: i}
	for w.Next() {
		end, err := SkipValue(data, w.At)
		if err != nil {
			return 0, err
		}
		if field := h.field(w.Name()); field != nil {
			*field = Range{w.At, end}
		}
		w.At = end
	}
	return w.At, w.Err
}

// field returns the range of a key in the metadata, nil if it does not matter.
func (h *Header) field(key []byte) *Range {
	switch string(key) {
	case "name":
		return &h.Name
	case "namespace":
		return &h.Namespace
	case "uid":
		return &h.UID
	case "resourceVersion":
		return &h.ResourceVersion
	case "deletionTimestamp":
		return &h.DeletionTimestamp
	case "labels":
		return &h.Labels
	case "annotations":
		return &h.Annotations
	case "finalizers":
		return &h.Finalizers
	case "ownerReferences":
		return &h.OwnerReferences
	case "managedFields":
		return &h.Managed
	}
	return nil
}

// MemberReader walks over the members of the object that begins at Data[At]: after Next, At is the index of a value, and the caller sets it to
// the index after that value.
type MemberReader struct {
	Data  []byte
	At    int
	Key   Range // with its quotes
	begun bool
	Err   error // why there are no more, nil at the end of the object
}

// Next goes to the next member, and reports whether there is one. After the last one, At is the index after the object.
func (m *MemberReader) Next() bool {
	i := SkipSpace(m.Data, m.At)
	if !m.begun {
		if m.begun = true; i >= len(m.Data) || m.Data[i] != '{' {
			m.Err = ErrMalformed
			return false
		}
		i = SkipSpace(m.Data, i+1)
	} else if i < len(m.Data) && m.Data[i] == ',' {
		i = SkipSpace(m.Data, i+1)
	}
	if i >= len(m.Data) {
		m.Err = ErrTruncated
		return false
	}
	if m.Data[i] != '"' {
		if m.At = i + 1; m.Data[i] != '}' {
			m.Err = ErrMalformed
		}
		return false
	}
	end, err := skipString(m.Data, i)
	if err != nil {
		m.Err = err
		return false
	}
	m.Key = Range{i, end}
	if i = SkipSpace(m.Data, end); i >= len(m.Data) {
		m.Err = ErrTruncated
		return false
	}
	if m.Data[i] != ':' {
		m.Err = ErrMalformed
		return false
	}
	m.At = SkipSpace(m.Data, i+1)
	return true
}

// Name returns what the key means.
func (m *MemberReader) Name() []byte { return Text(m.Key.Of(m.Data)) }
