package livepage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/inspection"
)

// Cluster is the API server that proxies requests to the pods of an operator.
type Cluster interface {
	// Read reads a path, with an optional token for the live page. It returns the status code of the response, or 0 without one.
	Read(ctx context.Context, path string, query url.Values, token string) (data []byte, code int, err error)
}

// Pods selects the pods of an operator.
type Pods struct {
	Namespace string
	Name      string // of one pod; "" for all pods with the labels
	Selector  string
	Port      int
	TokenFile string // "" for none
}

// PodState is the state of the operator in a pod, or an error. The names of its fields in JSON are stable.
type PodState struct {
	Pod   string          `json:"pod"`
	State json.RawMessage `json:"state,omitempty"`
	Error string          `json:"error,omitempty"`
}

// States reads the states from the pods, through the proxy of the API server. It returns an error if there are no pods, or if all requests fail.
func (p *Pods) States(ctx context.Context, cluster Cluster) ([]PodState, error) {
	token := ""
	if p.TokenFile != "" {
		data, err := os.ReadFile(p.TokenFile)
		if err != nil {
			return nil, err
		}
		token = strings.TrimSpace(string(data))
	}
	names := []string{p.Name}
	if p.Name == "" {
		var err error
		if names, err = p.find(ctx, cluster); err != nil {
			return nil, err
		}
	}
	all, failures := make([]PodState, len(names)), make([]error, len(names))
	turns := make(chan struct{}, maxAsked)
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			data, err := p.ask(ctx, cluster, name, token)
			if all[i] = (PodState{Pod: name, State: data}); err != nil {
				all[i].Error, failures[i] = err.Error(), fmt.Errorf("pod %q: %w", name, err)
			}
		})
	}
	asked.Wait()
	if !slices.Contains(failures, nil) {
		return nil, errors.Join(failures...)
	}
	return all, nil
}

// The limits of the requests to pods.
const (
	maxAsked  = 10 // concurrent requests
	askWithin = 10 * time.Second
)

func (p *Pods) path() string { return "/api/v1/namespaces/" + url.PathEscape(p.Namespace) + "/pods" }

// find returns the names of the pods that match the labels.
func (p *Pods) find(ctx context.Context, cluster Cluster) (names []string, err error) {
	data, code, err := cluster.Read(ctx, p.path(), url.Values{"labelSelector": {p.Selector}, "limit": {strconv.Itoa(maxRows)}}, "")
	if code == http.StatusForbidden {
		return nil, fmt.Errorf("missing permission to list pods in the namespace %q, so name one by --pod: %w", p.Namespace, err)
	} else if err != nil {
		return nil, fmt.Errorf("list the pods of the operator: %w", err)
	}
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("list the pods of the operator: %w", err)
	}
	for _, item := range list.Items {
		names = append(names, item.Metadata.Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no pods in the namespace %q have the labels %q: name others by --pods, or one by --pod", p.Namespace, p.Selector)
	}
	return names, nil
}

// ask returns the state of the operator in a pod.
func (p *Pods) ask(ctx context.Context, cluster Cluster, name, token string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askWithin, fmt.Errorf("no answer in %s", askWithin))
	defer cancel()
	data, code, err := cluster.Read(ctx, fmt.Sprintf("%s/%s:%d/proxy%s", p.path(), url.PathEscape(name), p.Port, statePath), nil, token)
	switch {
	case code == http.StatusForbidden:
		return nil, fmt.Errorf("missing permission to get pods/proxy in the namespace %q: %w", p.Namespace, err)
	case code == http.StatusUnauthorized:
		return nil, fmt.Errorf("the live page needs a token, or another one: give it by --page-token: %w", err)
	case code == http.StatusNotFound:
		return nil, fmt.Errorf("there is no such pod, or its operator has no live page, which run --page switches on: %w", err)
	case code >= http.StatusInternalServerError:
		return nil, fmt.Errorf("nothing answers at the port %d, which run --liveness=http://0.0.0.0:%d/healthz opens: %w", p.Port, p.Port, err)
	case err != nil:
		return nil, err
	case !json.Valid(data):
		return nil, errors.New("the answer is no JSON: want the live page of an operator")
	}
	return data, nil
}

// WriteReport writes the states of the operators in pods as text.
func WriteReport(w io.Writer, pods []PodState) error {
	var b strings.Builder
	for i, pod := range pods {
		if i > 0 {
			b.WriteString("\n")
		}
		var s State
		err := errors.New(pod.Error)
		if pod.Error == "" {
			err = json.Unmarshal(pod.State, &s)
		}
		if err != nil {
			fmt.Fprintf(&b, "Pod %s: %s\n", inspection.Clean(pod.Pod), inspection.Clean(err.Error()))
			continue
		}
		s.write(&b, pod.Pod)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write writes the state of the operator in a pod as text.
func (s *State) write(b *strings.Builder, pod string) {
	work := "working"
	switch {
	case !s.Ready:
		work = "starting"
	case s.PausedFor != "":
		work = "paused for " + s.PausedFor
	case s.Election != nil && !s.Election.Leading:
		work = "standing by for " + s.Election.Holder
	}
	fmt.Fprintf(b, "Pod %s: %s for %s, kopf %s, %d MiB, %d goroutines\n", inspection.Clean(pod), inspection.Clean(work), inspection.Age(s.Time.Sub(s.Started)), inspection.Clean(s.Version), s.Memory>>20, s.Goroutines)
	rows := [][]string{}
	for _, r := range s.Resources {
		rows = append(rows, []string{r.Resource, strconv.FormatInt(r.Objects, 10), strconv.Itoa(r.Working), strconv.Itoa(r.Waiting), strconv.Itoa(r.Delayed), strconv.FormatInt(r.Failed, 10)})
	}
	writeColumns(b, "RESOURCE\tOBJECTS\tWORKING\tWAITING\tDELAYED\tFAILED", rows)
	rows = nil
	for _, t := range s.Streams {
		if t.Error != "" || !t.Open || !t.Listed {
			rows = append(rows, []string{t.Resource, t.Namespace, strconv.FormatInt(t.Restarts, 10), t.Error})
		}
	}
	writeColumns(b, "BROKEN STREAM\tNAMESPACE\tRESTARTS\tERROR", rows)
	rows = nil
	for _, c := range present(s.Calls) {
		rows = append(rows, []string{named(c.Object), c.Handler, inspection.Age(s.Time.Sub(c.Since))})
	}
	writeColumns(b, "RUNNING CALL\tHANDLER\tFOR", rows)
	rows = nil
	for _, r := range present(s.Retries) {
		next := "now"
		if wait := r.Next.Sub(s.Time); wait > time.Second {
			next = "in " + inspection.Age(wait)
		}
		rows = append(rows, []string{named(r.Object), r.Handler, strconv.Itoa(r.Attempts), next, cut.End(r.Error, 100)})
	}
	writeColumns(b, "IN RETRY\tHANDLER\tATTEMPTS\tNEXT\tERROR", rows)
}

// named returns the text for an object, or "" for nil.
func named(o *inspection.Object) string {
	if o == nil {
		return ""
	}
	return o.String()
}

// present returns the elements that are not nil.
func present[T any](all []*T) []*T {
	return slices.DeleteFunc(all, func(one *T) bool { return one == nil })
}

// writeColumns writes a table, unless it has no rows.
func writeColumns(b *strings.Builder, header string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, header)
	for _, cells := range rows {
		for i := range cells {
			if cells[i] = inspection.Clean(cells[i]); cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	t.Flush() //nolint:errcheck // it goes to a builder
}
