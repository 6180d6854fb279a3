package ownership

import "testing"

// TestLost has objects after applies that have emptied maps.
func TestLost(t *testing.T) {
	c := parse(t, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"m":{},"deep":{"m":{},"n":1},"l":[{"k":1,"m":{}},{"k":2}]}}`)
	const fields = `{"f:metadata":{"f:annotations":{"f:x":{}}},"f:spec":{"f:m":{},"f:deep":{"f:m":{},"f:n":{}},"f:l":{"k:{\"k\":1}":{".":{},"f:k":{},"f:m":{}},"k:{\"k\":2}":{".":{},"f:k":{}}}}}`
	for spec, want := range map[string]bool{
		`{"m":{},"deep":{"m":{},"n":1},"l":[{"k":2},{"k":1,"m":{"default":1}}]}`: false,
		`{"deep":{"m":{},"n":1},"l":[{"k":2},{"k":1,"m":{}}]}`:                   true,
		`{"m":null,"deep":{"m":{},"n":1},"l":[{"k":2},{"k":1,"m":{}}]}`:          true,
		`{"m":{},"deep":{"n":1},"l":[{"k":2},{"k":1,"m":{}}]}`:                   true,
		`{"m":{},"deep":{"m":{},"n":1},"l":[{"k":2,"m":{}},{"k":1}]}`:            true,
		`{"m":{},"deep":{"m":{},"n":1},"l":[{"k":2,"m":{}}]}`:                    false,
		`{"m":1,"deep":{"m":{},"n":1},"l":3}`:                                    false, // a webhook has changed them to that
	} {
		t.Run("RC-50 "+spec, func(t *testing.T) {
			if got := new(Checker).Lost(c, []byte(fields), []byte(`{"metadata":{"annotations":{}},"spec":`+spec+`}`)); got != want {
				t.Errorf("got %t, want %t", got, want)
			}
		})
	}
	t.Run("RC-50 a map that the manager does not own is not lost", func(t *testing.T) {
		for _, fields := range []string{`{"f:spec":{"f:deep":{"f:n":{}}}}`, `{"f:spec":{}}`, `{}`, ``, `null`, `{"f:spec":{"f:l":{"k:{":{},"k:{\"k\":9}":{"f:m":{}}}}}`} {
			if new(Checker).Lost(c, []byte(fields), []byte(`{"spec":{"l":[{"k":9}]}}`)) {
				t.Errorf("a map is lost that is not in %s", fields)
			}
		}
	})
	t.Run("RC-50 a map that the same apply does not bring back is never kept", func(t *testing.T) {
		k, lost := &Checker{}, []byte(`{"spec":{"deep":{"m":{},"n":1},"l":[{"k":1}]}}`)
		k.NoteLost(c, []byte(fields), []byte(`{"spec":{"deep":{"m":{},"n":1},"l":[{"k":1,"m":{}}]}}`))
		if !k.Lost(c, []byte(fields), lost) {
			t.Error("the map of the item is not lost")
		}
		k.NoteLost(c, []byte(fields), lost)
		if k.Lost(c, []byte(fields), lost) {
			t.Error("the maps that are never kept are lost")
		}
		if k.Forget("example.com/v1", "Thing"); k.facts != 0 || !k.Lost(c, []byte(fields), lost) {
			t.Errorf("of a kind that is forgotten, %d facts are known", k.facts)
		}
	})
	t.Run("RC-50 empty labels are not lost", func(t *testing.T) {
		c := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{}},"data":{"x":"y"}}`)
		if new(Checker).Lost(c, []byte(`{"f:metadata":{"f:labels":{}},"f:data":{"f:x":{}}}`), []byte(`{"metadata":{},"data":{"x":"y"}}`)) {
			t.Error("they are")
		}
	})
}
