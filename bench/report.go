package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/e2e/cluster"
)

// introduction is the part of the page that is written by hand.
//
//go:embed page.md
var introduction string

// headings are those of the places, in the order of the page.
var headings = []struct{ place, title, text string }{
	{replayName, "On the replaying server", ""},
	{realName, "On a real control plane", "All times here include waiting for the server, which takes CPU time away from the operators."},
	{websitesName, "Operators that make other objects", "Measured on a real control plane, once each. Each widget has a website: a ConfigMap with a page, a Deployment and a Service. kopf declares them in a reconcile handler. " +
		"The operator of controller-runtime calls `CreateOrUpdate` for each of them, from typed caches, and patches its status only if it changes. *Requests alone* also follows all these objects, and sends the same applies and patches as kopf. It keeps only the UID and the size of each widget. Memory is that of objects, children, and the program. Requests do not include lists and watches."},
	{replicasName, "Several replicas", "Only kopf, on the replaying server, with `--leader-elect`. A replica is *standing by* while it follows the objects, and another holder has the Lease. In a *take-over*, the wall time begins with the answer that gives the replica the Lease. " +
		"It ends when the server gets the first patch for a pending object. In *hand-overs*, p50 and p99 are the median and the longest time. It begins with the signal to the working replica, at any time between two attempts of the other one. " +
		"It ends with the first patch of the other replica. A killed replica leaves the Lease to expire, after 15 s."},
	{"sweep", "How the costs grow", "An operator reads each object at its start. After that, only changes cost CPU time. All points are from one run each. " +
		"Only kopf and the requests alone run with the largest number of objects."},
	{"build", "Size", "Static binaries without debugging data."},
}

// write writes the page about all findings, and the plots, to a folder.
func (b *bench) write(ctx context.Context, folder string) error {
	intro, err := b.introduction(ctx)
	if err != nil {
		return err
	}
	page := bytes.NewBufferString(intro)
	b.summarize(page)
	for _, h := range headings {
		fmt.Fprintf(page, "\n## %s\n", h.title)
		if h.text != "" {
			fmt.Fprintf(page, "\n%s\n", h.text)
		}
		for _, f := range b.findings {
			if f.place != h.place {
				continue
			}
			f.describe(page)
			for _, c := range f.charts {
				if err := c.write(folder); err != nil {
					return err
				}
			}
		}
	}
	return os.WriteFile(filepath.Join(folder, "performance.md"), page.Bytes(), 0o644)
}

// introduction fills in the data of the run.
func (b *bench) introduction(ctx context.Context) (string, error) {
	info, err := buildinfo.ReadFile(filepath.Join(b.dir, "runtime"))
	if err != nil {
		return "", err
	}
	kubernetes, err := cluster.Version(ctx)
	if err != nil {
		return "", err
	}
	version := ""
	for _, m := range info.Deps {
		if m.Path == "sigs.k8s.io/controller-runtime" {
			version = m.Version
		}
	}
	lines := 0
	for _, file := range []string{"operators/requests/requests.go", "operators/client/main.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		lines += bytes.Count(source, []byte("\n"))
	}
	return strings.NewReplacer(
		"{{cores}}", counted(runtime.NumCPU(), "core"), "{{go}}", "Go "+strings.TrimPrefix(runtime.Version(), "go"), "{{runtime}}", version,
		"{{kubernetes}}", kubernetes, "{{rounds}}", counted(b.rounds, ""), "{{lines}}", fmt.Sprint(lines),
	).Replace(introduction), nil
}

// counted formats a number of things, in words if it is small.
func counted(n int, of string) string {
	text := fmt.Sprint(n)
	if words := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight"}; n < len(words) {
		text = words[n]
	}
	if of != "" {
		text += " " + of
		if n != 1 {
			text += "s"
		}
	}
	return text
}

// summarize writes the number of met targets, and the missed ones.
func (b *bench) summarize(page *bytes.Buffer) {
	met, missed := 0, table{header: []string{"missed", "operator", "measured", "requests alone", "goal"}}
	for _, f := range b.findings {
		for _, v := range f.verdicts {
			if v.met {
				met++
				continue
			}
			missed.rows = append(missed.rows, []string{fmt.Sprintf("%s, %s: %s", f.place, f.job, v.target), v.operator, v.measured, v.limit, v.most})
		}
	}
	fmt.Fprintf(page, "\n## Missed targets\n\nOf %d targets, %d are met. ", met+len(missed.rows), met)
	if len(missed.rows) == 0 {
		page.WriteString("None is missed.\n")
		return
	}
	page.WriteString("These are missed:\n\n" + missed.markdown())
	page.WriteString("\nThe requests alone are the lower limit. The rest is the cost of kopf. " +
		"`go run . -jobs REGEXP -operators kopf -profiles FOLDER` writes profiles of it.\n")
}

// describe writes the section about a job.
func (f finding) describe(page *bytes.Buffer) {
	fmt.Fprintf(page, "\n### %s\n", strings.ToUpper(f.job[:1])+f.job[1:])
	if f.text != "" {
		fmt.Fprintf(page, "\n%s\n", f.text)
	}
	for _, c := range f.charts {
		fmt.Fprintf(page, "\n![%s](%s)\n", c.title, c.file)
	}
	tables := slices.Clone(f.tables)
	if len(f.verdicts) > 0 {
		tables = append(tables, verdicts(f.verdicts))
	}
	for _, t := range tables {
		page.WriteString("\n" + t.markdown())
	}
	if f.command != "" {
		fmt.Fprintf(page, "\n```sh\ncd bench && %s\n```\n", f.command)
	}
}
