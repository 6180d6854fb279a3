package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// version is the output of the command version.
type version struct {
	Framework string `json:"frameworkVersion"`
	Go        string `json:"goVersion"`
	Platform  string `json:"platform"`
	Operator  build  `json:"operator"`
}

// build is the build information of a program. All fields may be missing.
type build struct {
	Package  string `json:"package,omitempty"`
	Module   string `json:"module,omitempty"`
	Version  string `json:"version,omitempty"` // of the module; "(devel)" without one
	VCS      string `json:"vcs,omitempty"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified"` // the work tree had changes since the revision
}

// versionText returns the output of the command version, as text or as JSON.
func (l *Line) versionText(format string) (string, error) {
	info, _ := debug.ReadBuildInfo() // missing in GOPATH mode
	v := version{Framework: l.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Operator: buildOf(info)}
	if format == "" {
		return v.String(), nil
	}
	data, err := json.MarshalIndent(v, "", "  ")
	return string(data) + "\n", err
}

// buildOf returns the known build information.
func buildOf(info *debug.BuildInfo) (b build) {
	if info == nil {
		return b
	}
	b.Package, b.Module, b.Version = info.Path, info.Main.Path, info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs":
			b.VCS = s.Value
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String returns a line about kopf, and one about the operator if its version or revision is known.
func (v version) String() string {
	text := fmt.Sprintf("kopf %s (%s, %s)\n", v.Framework, v.Go, v.Platform)
	o := v.Operator
	known := o.Version != "" && o.Version != "(devel)"
	var details []string
	if o.Revision != "" {
		details = append(details, "revision "+o.Revision)
	}
	if o.Time != "" {
		details = append(details, o.Time)
	}
	if o.Modified {
		details = append(details, "modified")
	}
	if !known && o.Revision == "" {
		return text
	}
	text += o.Package
	if known {
		text += " " + o.Version
	}
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	return text + "\n"
}
