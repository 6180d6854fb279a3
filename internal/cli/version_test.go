package cli

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	setting := func(pairs ...string) (all []debug.BuildSetting) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return all
	}
	const framework = "kopf 1.2.3 (go1.99, linux/amd64)\n"
	const moment = "2026-01-02T03:04:05Z"
	tests := []struct {
		name string
		info *debug.BuildInfo
		want string // text after the line about kopf
		json string
	}{
		{name: "unknown", json: `{"modified":false}`},
		{name: "go run", info: &debug.BuildInfo{Path: "command-line-arguments", Main: debug.Module{Path: "example.com/op", Version: "(devel)"}},
			json: `{"package":"command-line-arguments","module":"example.com/op","version":"(devel)","modified":false}`},
		{name: "go install", info: &debug.BuildInfo{Path: "example.com/op/cmd", Main: debug.Module{Path: "example.com/op", Version: "v1.0.0"}},
			want: "example.com/op/cmd v1.0.0\n",
			json: `{"package":"example.com/op/cmd","module":"example.com/op","version":"v1.0.0","modified":false}`},
		{name: "go build", info: &debug.BuildInfo{Path: "example.com/op", Main: debug.Module{Path: "example.com/op", Version: "v1.0.1-0.20260102030405-012345678901+dirty"},
			Settings: setting("-trimpath", "true", "vcs", "git", "vcs.revision", "0123", "vcs.time", moment, "vcs.modified", "true")},
			want: "example.com/op v1.0.1-0.20260102030405-012345678901+dirty (revision 0123, " + moment + ", modified)\n",
			json: `{"package":"example.com/op","module":"example.com/op","version":"v1.0.1-0.20260102030405-012345678901+dirty",` +
				`"vcs":"git","revision":"0123","time":"` + moment + `","modified":true}`},
		{name: "a revision alone", info: &debug.BuildInfo{Path: "example.com/op", Main: debug.Module{Path: "example.com/op", Version: "(devel)"},
			Settings: setting("vcs.revision", "0123", "vcs.modified", "false")},
			want: "example.com/op (revision 0123)\n",
			json: `{"package":"example.com/op","module":"example.com/op","version":"(devel)","revision":"0123","modified":false}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := version{Framework: "1.2.3", Go: "go1.99", Platform: "linux/amd64", Operator: buildOf(tt.info)}
			if got := v.String(); got != framework+tt.want {
				t.Errorf("for people: got %q, want %q", got, framework+tt.want)
			}
			if got, err := json.Marshal(v.Operator); err != nil || string(got) != tt.json {
				t.Errorf("in JSON: got %s (%v), want %s", got, err, tt.json)
			}
		})
	}
}

func TestVersionCommand(t *testing.T) {
	first := "kopf 1.2.3 (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")\n"
	for _, args := range []string{"version", "--version"} {
		if got := printed(t, args); !strings.HasPrefix(got, first) {
			t.Errorf("%s: got %q, want %q first", args, got, first)
		}
	}
	for _, args := range []string{"version -o json", "version --output=JSON", "--version -ojson"} {
		var got version
		if err := json.Unmarshal([]byte(printed(t, args)), &got); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if got.Framework != "1.2.3" || got.Go != runtime.Version() || got.Platform != runtime.GOOS+"/"+runtime.GOARCH || !strings.HasSuffix(got.Operator.Package, "internal/cli.test") {
			t.Errorf("%s: got %+v", args, got)
		}
	}
}
