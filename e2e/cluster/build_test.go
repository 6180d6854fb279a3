package cluster

import (
	"io"
	"strings"
	"testing"
)

func TestBinariesRefuseWhatIsNotThere(t *testing.T) {
	for variable, value := range map[string]string{VersionVariable: "1.2", BinariesVariable: t.TempDir()} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(BinariesVariable, "")
			t.Setenv(variable, value)
			dir, err := Binaries(t.Context(), io.Discard)
			if err == nil || !strings.Contains(err.Error(), variable) || !strings.Contains(err.Error(), value) {
				t.Errorf("got %q, %v, want an error that names %s and %s", dir, err, variable, value)
			}
		})
	}
}

func TestModuleFiles(t *testing.T) {
	for minor, want := range map[string]string{"": "v1.36.", "1.36": "v1.36.", "1.35": "v1.35.", "v1.34": "v1.34.", "1.33": "v1.33."} {
		t.Setenv(VersionVariable, minor)
		s, err := findSource(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(s.version, want) {
			t.Errorf("%q: got %s, want %s…", minor, s.version, want)
		}
	}
}
