package structschema

import "testing"

func TestReadQuantity(t *testing.T) {
	for data, want := range map[string]string{`"500m"`: "500m", `1.50`: "1.50", `2`: "2", `null`: ""} {
		if got, err := ReadQuantity([]byte(data)); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", data, got, err, want)
		}
	}
	for _, data := range []string{`{}`, `true`, `[1]`, ``, `"`} {
		if got, err := ReadQuantity([]byte(data)); err == nil {
			t.Errorf("%s: got %q, want an error", data, got)
		}
	}
}

func TestReadIntOrString(t *testing.T) {
	for _, tt := range []struct {
		data   string
		number int32
		text   string
		fails  bool
	}{
		{`5`, 5, "", false},
		{`-2147483648`, -2147483648, "", false},
		{`2147483648`, 0, "", true},
		{`"5%"`, 0, "5%", false},
		{`null`, 7, "old", false},
		{`1.5`, 0, "", true},
		{`{}`, 0, "", true},
	} {
		number, text, err := ReadIntOrString([]byte(tt.data), 7, "old")
		if number != tt.number || text != tt.text || (err != nil) != tt.fails {
			t.Errorf("%s: got %d, %q, %v, want %d, %q", tt.data, number, text, err, tt.number, tt.text)
		}
	}
}
