package kopf

// This file finds the parts of an object that everything needs in one pass over its bytes, and makes nothing of them. It is on the way of
// every event: most objects are looked at in this way only, and never read any further. It computes, and knows no state.

// span is a part of some bytes, by the indices of its begin and of its end. The zero span is of what is not there.
type span struct{ from, to int }

// of returns the part, nil of what is not there.
func (s span) of(raw []byte) []byte {
	if s.to == 0 {
		return nil
	}
	return raw[s.from:s.to:s.to]
}

// outline is where the parts of an object are in its bytes. The spans are of values, with their quotes and brackets.
type outline struct {
	end                                     int // of the object
	apiVersion, kind, meta, status          span
	name, namespace, uid, version, deletion span // in the metadata, as the following
	labels, annotations, finalizers         span

	rest [maxRest]struct{ key, value span } // the other stanzas, in their order
	more int                                // how many of them there are, and may be more than there is room for
}

// maxRest is the number of stanzas, beside the usual ones, that outlines have room for. Few kinds have more than three.
const maxRest = 6

// scan finds the parts of the object that the data begins with. Of equal keys, the last one counts. The error is errCut if the data end
// before the object does.
func (o *outline) scan(data []byte) error {
	*o = outline{}
	w := members{data: data}
	for w.next() {
		end, err := 0, error(nil)
		switch string(w.name()) {
		case "metadata":
			end, err = o.scanMeta(data, w.at)
			o.meta = span{w.at, end}
		case "apiVersion":
			end, err = skipValue(data, w.at)
			o.apiVersion = span{w.at, end}
		case "kind":
			end, err = skipValue(data, w.at)
			o.kind = span{w.at, end}
		case "status":
			end, err = skipValue(data, w.at)
			o.status = span{w.at, end}
		default:
			end, err = skipValue(data, w.at)
			if o.more < maxRest {
				o.rest[o.more].key, o.rest[o.more].value = w.key, span{w.at, end}
			}
			o.more++
		}
		if err != nil {
			return err
		}
		w.at = end
	}
	o.end = w.at
	return w.err
}

// scanMeta finds the parts of the metadata that begin at data[i], and returns the index after them.
func (o *outline) scanMeta(data []byte, i int) (int, error) {
	o.name, o.namespace, o.uid, o.version, o.deletion = span{}, span{}, span{}, span{}, span{}
	o.labels, o.annotations, o.finalizers = span{}, span{}, span{}
	if i >= len(data) || data[i] != '{' {
		return skipValue(data, i)
	}
	w := members{data: data, at: i}
	for w.next() {
		end, err := skipValue(data, w.at)
		if err != nil {
			return 0, err
		}
		if field := o.field(w.name()); field != nil {
			*field = span{w.at, end}
		}
		w.at = end
	}
	return w.at, w.err
}

// field returns the span of a key in the metadata, nil if it does not matter.
func (o *outline) field(key []byte) *span {
	switch string(key) {
	case "name":
		return &o.name
	case "namespace":
		return &o.namespace
	case "uid":
		return &o.uid
	case "resourceVersion":
		return &o.version
	case "deletionTimestamp":
		return &o.deletion
	case "labels":
		return &o.labels
	case "annotations":
		return &o.annotations
	case "finalizers":
		return &o.finalizers
	}
	return nil
}

// members walks over the members of an object: after next, at is the index of a value, and whoever walks sets it to the index after that.
type members struct {
	data  []byte
	at    int
	key   span // with its quotes
	begun bool
	err   error // why there are no more, nil at the end of the object
}

// next goes to the next member, and tells whether there is one. After the last one, at is the index after the object.
func (m *members) next() bool {
	i := skipSpace(m.data, m.at)
	if !m.begun {
		if m.begun = true; i >= len(m.data) || m.data[i] != '{' {
			m.err = errJSON
			return false
		}
		i = skipSpace(m.data, i+1)
	} else if i < len(m.data) && m.data[i] == ',' {
		i = skipSpace(m.data, i+1)
	}
	if i >= len(m.data) {
		m.err = errCut
		return false
	}
	if m.data[i] != '"' {
		if m.at = i + 1; m.data[i] != '}' {
			m.err = errJSON
		}
		return false
	}
	end, err := skipString(m.data, i)
	if err != nil {
		m.err = err
		return false
	}
	m.key = span{i, end}
	if i = skipSpace(m.data, end); i >= len(m.data) {
		m.err = errCut
		return false
	}
	if m.data[i] != ':' {
		m.err = errJSON
		return false
	}
	m.at = skipSpace(m.data, i+1)
	return true
}

// name returns what the key means.
func (m *members) name() []byte { return textOf(m.key.of(m.data)) }

// body makes a body of the object, which keeps the bytes.
func (o *outline) body(raw []byte) *Body {
	return &Body{
		raw: raw[:o.end:o.end], meta: o.meta.of(raw), status: o.status.of(raw),
		labels: o.labels.of(raw), annotations: o.annotations.of(raw), finalizers: o.finalizers.of(raw),
		identity: identity{
			apiVersion: unquote(o.apiVersion.of(raw)), kind: unquote(o.kind.of(raw)), namespace: unquote(o.namespace.of(raw)),
			name: unquote(o.name.of(raw)), uid: unquote(o.uid.of(raw)), version: unquote(o.version.of(raw)),
		},
		deleting: !isNull(o.deletion.of(raw)),
	}
}
