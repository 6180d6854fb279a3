package funcid

import "testing"

func plain() {}

type controller struct{ name string } // not empty, so that two have different addresses

func (controller) Update()  {}
func (*controller) create() {}

func generic[T any]() {}

func TestName(t *testing.T) {
	literal := func() {}
	for _, tt := range []struct {
		fn   any
		name string
	}{
		{plain, "plain"},
		{(&controller{}).create, "controller.create"},
		{controller{}.Update, "controller.Update"},
		{(*controller).create, "controller.create"},
		{generic[int], "generic"},
		{literal, ""},
	} {
		if name, symbol := Of(tt.fn).Name(); name != tt.name || symbol == "" {
			t.Errorf("got the name %q of %q, want %q", name, symbol, tt.name)
		}
	}
	if name, symbol := (ID{}).Name(); name != "" || symbol != "" {
		t.Errorf("got the name %q, %q of no function", name, symbol)
	}
}

func TestOf(t *testing.T) {
	one, other := &controller{}, &controller{name: "other"}
	closure := func(n int) func() int { return func() int { return n } }
	first := closure(1)
	for _, pair := range [][2]any{{plain, plain}, {first, first}, {one.create, one.create}} {
		if Of(pair[0]) != Of(pair[1]) {
			t.Errorf("%v is another function than itself", Of(pair[0]))
		}
	}
	if Of(first) == Of(closure(2)) || Of(one.create) == Of(other.create) {
		t.Error("two closures, or the methods of two receivers, are one function")
	}
}
