package installation

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Run("TD-37 the name of a program becomes one that a Service can have", func(t *testing.T) {
		for program, want := range map[string]string{
			"web": "web", "contract.test": "contract-test", "My_Operator": "my-operator", "1web": "operator-1web", "-": "operator", "": "operator", "é": "operator", strings.Repeat("a", 49) + ".b": strings.Repeat("a", 49),
		} {
			if got := NameOf(program); got != want || CheckName(got) != nil {
				t.Errorf("%q: got %q, %v, want %q", program, got, CheckName(got), want)
			}
		}
	})
	t.Run("TD-37 names, images and versions", func(t *testing.T) {
		for _, tt := range []struct {
			check     func(string) error
			good, bad string
		}{
			{CheckName, "a web-1 " + strings.Repeat("a", 50), "1web web- Web a.b a_b " + strings.Repeat("a", 51)},
			{CheckImage, "web web:1 example.com:5000/a/b:v1.2_3@sha256:00 registry/a__b", "web: /web a$b {{x}} a\\b"},
			{CheckChartVersion, "0.1.0 1.2.3-rc.1 1.2.3-0.a-b+build.01 10.20.30", "1 1.2 01.2.3 1.2.3- 1.2.3-01 1.2.3-a..b 1.2.3+ v1.2.3 1.2.3.4 1.2.x -1.2.3"},
			{CheckKind, "Role roles ROLEBINDINGS networkpolicies", "Pod role,x networkpolicyies"},
		} {
			for _, text := range strings.Fields(tt.good) {
				if err := tt.check(text); err != nil {
					t.Errorf("%q: %v", text, err)
				}
			}
			for _, text := range append(strings.Fields(tt.bad), "", "a b") {
				if err := tt.check(text); err == nil {
					t.Errorf("%q is taken", text)
				}
			}
		}
	})
	t.Run("TD-44 the tag of an image is what a chart installs", func(t *testing.T) {
		for image, want := range map[string]string{"web": "", "web:1": "1", "example.com:5000/web": "", "example.com:5000/web:v2@sha256:00": "v2", "web@sha256:00": ""} {
			if got := tag(image); got != want {
				t.Errorf("%q: got %q, want %q", image, got, want)
			}
		}
	})
}
