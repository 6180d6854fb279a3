package chaos

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// This file has the audit log of the API server, with all writes of the gardens and their children.
// The operator and the clients differ by their user agents.

// auditPolicy selects the writes of gardens and config maps.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
	{"level": "RequestResponse", "verbs": ["create", "update", "patch", "delete"], "namespaces": ["` + namespace + `"],
	 "resources": [{"group": "", "resources": ["configmaps"]}, {"group": "` + group + `", "resources": ["gardens"]}]},
	{"level": "None"}]}`

func (b *bench) auditLog() string { return filepath.Join(b.dir, "audit") }

// auditArgs writes the policy, and returns the arguments of the API server.
func (b *bench) auditArgs() ([]string, error) {
	policy := filepath.Join(b.dir, "audit-policy")
	args := []string{"--audit-policy-file=" + policy, "--audit-log-path=" + b.auditLog()}
	return args, os.WriteFile(policy, []byte(auditPolicy), 0o600)
}

// auditEvent is a write in the audit log.
type auditEvent struct {
	Verb, UserAgent          string
	ObjectRef                struct{ Resource, Name string }
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
	StageTimestamp           time.Time
	RequestObject            json.RawMessage
	ResponseObject           auditedObject
}

// auditedObject has the fields of a written object that the report shows.
type auditedObject struct {
	Metadata struct {
		UID, ResourceVersion, DeletionTimestamp string
		OwnerReferences                         []owner
	}
	Data    map[string]string
	Message string // of a Status
}

// shownRequest is the maximum length of a reported request.
const shownRequest = 700

func (e *auditEvent) String() string {
	o := &e.ResponseObject
	text := fmt.Sprintf("%s: %s %s %s, answered at %s with %d: version=%s uid=%s", cmp.Or(e.UserAgent, "unknown"), e.Verb,
		e.ObjectRef.Resource, e.ObjectRef.Name, e.StageTimestamp.Local().Format(clock), e.ResponseStatus.Code,
		o.Metadata.ResourceVersion, o.Metadata.UID)
	if o.Metadata.DeletionTimestamp != "" {
		text += " deleted=" + o.Metadata.DeletionTimestamp
	}
	text += fmt.Sprintf(" owners=%v data=%v %s", o.Metadata.OwnerReferences, o.Data, o.Message)
	return text + "\n\t" + string(e.RequestObject[:min(len(e.RequestObject), shownRequest)])
}

// audited returns the writes of gardens and config maps with some names.
func (b *bench) audited(names ...string) ([]line, error) {
	file, err := os.Open(b.auditLog())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []line
	reader := bufio.NewReader(file)
	for {
		text, err := reader.ReadBytes('\n')
		var e auditEvent
		// A killed API server leaves an incomplete line.
		if json.Unmarshal(text, &e) == nil && slices.Contains(names, e.ObjectRef.Name) {
			all = append(all, line{e.RequestReceivedTimestamp, e.String()})
		}
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// line is a line of a history.
type line struct {
	time time.Time
	text string
}

func writeLines(w io.Writer, lines []line) {
	slices.SortStableFunc(lines, func(a, b line) int { return a.time.Compare(b.time) })
	for _, l := range lines {
		fmt.Fprintln(w, l.time.Local().Format(clock), l.text)
	}
}

// isOfChild reports whether a violation is about a child of a garden.
func (v Violation) isOfChild() bool {
	return slices.Contains([]string{childrenWished, childrenPruned, childrenOthers}, v.Rule) ||
		v.Rule == leftovers && strings.HasPrefix(v.Name, "g-")
}

// gardenOf returns the name of the garden of a child.
func gardenOf(child string) string {
	if i := strings.LastIndexByte(child, '-'); i > len("g-") {
		return child[:i]
	}
	return child
}

// childHistory returns the writes of a child and its garden, the starts of the operator, and the
// failed requests for them.
func (b *bench) childHistory(r *Report, child string) []line {
	lines, err := b.audited(child, gardenOf(child))
	if err != nil {
		lines = []line{{time.Now(), err.Error()}}
	}
	for _, i := range r.incidents {
		ofKinds := strings.HasSuffix(i.Path, "/gardens") || strings.HasSuffix(i.Path, "/configmaps")
		if ofKinds || strings.HasSuffix(i.Path, "/"+child) || strings.HasSuffix(i.Path, "/"+gardenOf(child)) {
			lines = append(lines, line{i.Time, "fault: " + i.What})
		}
	}
	return append(lines, r.starts()...)
}
