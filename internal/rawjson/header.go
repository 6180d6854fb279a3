package rawjson

// Range is a part of some bytes, from an index up to another. The zero value is absent.
type Range struct{ From, To int }

// Of returns the bytes of the range, or nil if it is absent. Like [Lookup], it is not inlined.
//
//go:noinline
func (r Range) Of(raw []byte) []byte {
	if r.To == 0 {
		return nil
	}
	return raw[r.From:r.To:r.To]
}

// Header holds the places of the parts of an object in its bytes, found in one pass. Every event takes this path, and most objects are not read any further.
// The ranges are those of values, with their quotes and brackets.
type Header struct {
	End                                                       int // of the object
	APIVersion, Kind, Metadata, Spec, Status                  Range
	Name, Namespace, UID, ResourceVersion, DeletionTimestamp  Range // of the metadata, like the following ones
	Labels, Annotations, Finalizers, OwnerReferences, Managed Range

	Other      [MaxOther]HeaderMember // the other stanzas and the spec, in their order
	OtherCount int                    // their number, which may exceed MaxOther
}

// HeaderMember is the place of a member of an object.
type HeaderMember struct{ Key, Value Range }

// MaxOther is the number of stanzas that a header holds in addition to the usual ones. Few kinds have more than three.
const MaxOther = 6

// Scan finds the parts of the object at the start of data. The last of equal keys wins. It returns ErrTruncated if the data ends before the object.
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

// scanMetadata finds the parts of the metadata, which begins at data[i], and returns the index after it.
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

// field returns the range for a key of the metadata, or nil for other keys.
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

// MemberReader iterates over the members of the object at Data[At]. After Next, At is the index of a value, and the caller must set it to the index after that
// value.
type MemberReader struct {
	Data  []byte
	At    int
	Key   Range // with quotes
	begun bool
	Err   error // why there are no more members; nil at the end of the object
}

// Next moves to the next member, and reports whether there is one. After the last one, At is the index after the object.
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

// Name returns the decoded key.
func (m *MemberReader) Name() []byte { return Text(m.Key.Of(m.Data)) }
