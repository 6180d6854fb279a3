package kopf

import (
	"reflect"
	"sync"
)

// This file knows what handlers want to be remembered of an object, or of the operator, in memory only. It is read and written on the
// goroutines of the handlers.

// Memo keeps what handlers want to remember of an object, or of the operator, in
// memory only. It begins as a copy of the operator's memo, made when the object is first seen; values
// behind pointers are shared with it. A Memo is safe for concurrent use.
type Memo struct {
	mu     sync.Mutex // guards values
	values map[any]any
}

// Load returns the value stored under key, and whether there is one.
func (m *Memo) Load(key any) (any, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	return v, ok
}

// Store stores a value under key.
func (m *Memo) Store(key, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = make(map[any]any)
	}
	m.values[key] = value
}

// Delete forgets the value stored under key.
func (m *Memo) Delete(key any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}

// memory holds the memo of one object. It is made when it is used first: most objects are never remembered anything of.
type memory struct {
	mu   sync.Mutex // guards following
	seen bool
	memo *Memo
}

// see is called when the object is first seen: what the operator's memo gets later does not reach the object.
func (m *memory) see(operators *Memo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.seen && !operators.empty() {
		m.memo = operators.copy()
	}
	m.seen = true
}

// used reports whether there is anything to remember.
func (m *memory) used() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memo != nil
}

func (m *memory) get() *Memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.memo == nil {
		m.memo = &Memo{}
	}
	return m.memo
}

func (m *Memo) empty() bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.values) == 0
}

// copy returns a memo with the same values; structs of [MemoOf] are copied.
func (m *Memo) copy() *Memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Memo{}
	for k, v := range m.values {
		if c.values == nil {
			c.values = make(map[any]any, len(m.values))
		}
		if _, typed := k.(reflect.Type); typed {
			p := reflect.New(reflect.TypeOf(v).Elem())
			p.Elem().Set(reflect.ValueOf(v).Elem())
			v = p.Interface()
		}
		c.values[k] = v
	}
	return c
}
