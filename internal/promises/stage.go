package promises

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This file provides the steps of promises. They wait only for certain events, so a slow machine makes no difference. They run on the goroutine of a test.
// Another goroutine waits for the end of each process.

// patience is the timeout of each wait. The garbage collector of a cluster discovers new kinds twice a minute.
const patience = 2 * time.Minute

// Stage runs one example: it has the process, the namespace and the log.
type Stage struct {
	*testing.T
	*World
	Namespace string

	program string
	running []*process // including those that have ended
	// promised counts the promised outcomes of handlers, such as "create succeeded".
	promised  map[string]int
	uncounted []string // outcomes promised any number of times
	warned    []string // allowed texts of warnings and errors
}

// process is a running or finished example.
type process struct {
	cmd  *exec.Cmd
	log  Buffer
	done chan struct{} // closed at its end
}

// Buffer collects the output of a process while the test reads it.
type Buffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	// The loop polls processes, of which only the log and the objects are visible.
	for late := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// Start starts another process of the example in its namespace.
func (s *Stage) Start(options ...string) {
	s.Helper()
	s.Run(append([]string{"run", "--namespace=" + s.Namespace}, options...)...)
}

// Run starts the example.
func (s *Stage) Run(args ...string) {
	s.Helper()
	p := &process{cmd: s.Command(s.program, args), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its state has the result
		close(p.done)
	}()
	s.running = append(s.running, p)
}

// Stop interrupts the last process, and checks its exit status.
func (s *Stage) Stop() {
	s.Helper()
	p := s.running[len(s.running)-1]
	if p.cmd.Process.Signal(os.Interrupt) != nil { // Windows does not support it
		_ = p.cmd.Process.Kill()
		<-p.done
		return
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		s.Fatalf("it still runs %s after it was interrupted", patience)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		s.Errorf("it ends with the code %d", code)
	}
}

// curtain kills remaining processes after a failure, and logs their output.
func (s *Stage) curtain() {
	for _, p := range s.running {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	}
	if s.Failed() {
		s.Logf("it has told:\n%s", s.log())
	}
}

func (s *Stage) log() string {
	var all strings.Builder
	for _, p := range s.running {
		all.WriteString(p.log.String())
	}
	return all.String()
}

// Tells waits until the log contains all phrases.
func (s *Stage) Tells(phrases ...string) {
	s.Helper()
	for _, phrase := range phrases {
		s.TellsTimes(1, phrase)
	}
}

// TellsTimes waits until the log contains a phrase a number of times.
func (s *Stage) TellsTimes(n int, phrase string) {
	s.Helper()
	until(s.T, fmt.Sprintf("the log tells %d times %q", n, phrase), func() bool { return strings.Count(s.log(), phrase) >= n })
}

// DoesNotTell checks that the log does not contain a phrase.
func (s *Stage) DoesNotTell(phrase string) {
	s.Helper()
	if strings.Contains(s.log(), phrase) {
		s.Errorf("the log tells %q", phrase)
	}
}

// Warns waits for warnings or errors. Others are not allowed, except promised outcomes.
func (s *Stage) Warns(phrases ...string) {
	s.Helper()
	s.warned = append(s.warned, phrases...)
	s.Tells(phrases...)
}

// Succeeds promises one more success of each handler or daemon, and waits for them. The log has successes of timers and event handlers only if they change
// something.
func (s *Stage) Succeeds(ids ...string) { s.Helper(); s.promise("succeeded", ids...) }

// Fails promises one permanent failure of each handler.
func (s *Stage) Fails(ids ...string) { s.Helper(); s.promise("failed", ids...) }

// Retries promises one more failed attempt of each handler that will be retried.
func (s *Stage) Retries(ids ...string) { s.Helper(); s.promise("retries", ids...) }

// Ignores promises one more ignored error of each handler.
func (s *Stage) Ignores(ids ...string) { s.Helper(); s.promise("ignored", ids...) }

// Often promises outcomes, such as "tick succeeded", one or more times.
func (s *Stage) Often(outcomes ...string) {
	s.Helper()
	s.uncounted = append(s.uncounted, outcomes...)
	for _, outcome := range outcomes {
		until(s.T, outcome, func() bool { return s.outcomes()[outcome] > 0 })
	}
}

func (s *Stage) promise(outcome string, ids ...string) {
	s.Helper()
	for _, id := range ids {
		key := id + " " + outcome
		s.promised[key]++
		until(s.T, fmt.Sprintf("%s, %d times", key, s.promised[key]), func() bool { return s.outcomes()[key] >= s.promised[key] })
	}
}

var outcomeLine = regexp.MustCompile(`\[([^\]/]+)/[^\]]+\] (?:Handler|Daemon|Timer|Webhook) '([^']+)' (succeeded|failed permanently|failed temporarily|failed with a denial|failed with an exception and will \w+)`)

var outcomeWords = map[string]string{
	"succeeded": "succeeded", "failed permanently": "failed", "failed temporarily": "retries", "failed with a denial": "denied",
	"failed with an exception and will try": "retries", "failed with an exception and will stop": "failed", "failed with an exception and will ignore": "ignored",
}

// outcomes counts the outcomes in the log for objects of the namespace.
func (s *Stage) outcomes() map[string]int {
	counts := map[string]int{}
	for _, m := range outcomeLine.FindAllStringSubmatch(s.log(), -1) {
		if m[1] == s.Namespace {
			counts[m[2]+" "+outcomeWords[m[3]]]++
		}
	}
	return counts
}

// settle checks, after the end of all processes, that there were no other outcomes.
func (s *Stage) settle() {
	s.Helper()
	for _, p := range s.running {
		select {
		case <-p.done:
		default:
			s.Error("a process was not stopped")
			return
		}
	}
	happened := s.outcomes()
	maps.DeleteFunc(happened, func(outcome string, _ int) bool { return slices.Contains(s.uncounted, outcome) })
	if !maps.Equal(happened, s.promised) {
		s.Errorf("the outcomes of handlers: got %v, want %v", happened, s.promised)
	}
	for line := range strings.Lines(s.log()) {
		bad := strings.Contains(line, "[WARN ]") || strings.Contains(line, "[ERROR]") || strings.HasPrefix(line, "panic:")
		said := func(phrase string) bool { return strings.Contains(line, phrase) }
		if bad && !outcomeLine.MatchString(line) && !slices.ContainsFunc(s.warned, said) {
			s.Errorf("it complains: %s", line)
		}
	}
}

// DoesNotPanic checks the log for panics of handlers, which do not end an operator.
func (s *Stage) DoesNotPanic() { s.Helper(); s.DoesNotTell("panic: ") }

// object returns the reference of the object in obj.yaml.
func (s *Stage) object() kopf.ObjectReference {
	return kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Namespace: s.Namespace, Name: "kopf-example-1"}
}

// Apply applies a file of the examples, with its objects in the namespace of the stage.
func (s *Stage) Apply(file string) {
	s.Helper()
	resources, err := s.client.Resources(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, object := range s.manifests(s.T, file) {
		if slices.ContainsFunc(resources, func(r kopf.Resource) bool {
			return r.Namespaced && r.APIVersion() == object["apiVersion"] && r.Kind == object["kind"]
		}) {
			object["metadata"].(map[string]any)["namespace"] = s.Namespace
		}
		if err := s.client.Apply(s.Context(), object, &kopf.WriteOptions{FieldManager: "promises"}); err != nil {
			s.Fatal(err)
		}
	}
}

// Install applies the manifests that a command of the example prints, and waits until the API server serves their kinds.
func (s *Stage) Install(args ...string) {
	s.Helper()
	printed, err := s.Command(s.program, args).Output()
	if err != nil {
		s.Fatal(err)
	}
	objects, err := kopf.ParseManifests(printed)
	if err != nil || len(objects) == 0 {
		s.Fatalf("%d manifests: %v", len(objects), err)
	}
	for _, object := range objects {
		if err := s.client.Apply(s.Context(), object, &kopf.WriteOptions{FieldManager: "promises"}); err != nil {
			s.Fatal(err)
		}
		ref, err := kopf.ReferenceOf(object)
		if err != nil {
			s.Fatal(err)
		}
		s.Becomes(ref, "to be served", func(o *kopf.Body) bool { return o != nil && kopf.IsReady(o) })
	}
}

// Create creates the object of obj.yaml.
func (s *Stage) Create() { s.Helper(); s.Apply("obj.yaml") }

// Change patches the object.
func (s *Stage) Change(patch map[string]any) {
	s.Helper()
	if _, err := s.client.Patch(s.Context(), s.object(), patch, nil); err != nil {
		s.Fatal(err)
	}
}

// Delete deletes the object, and waits until it does not exist any more.
func (s *Stage) Delete() {
	s.Helper()
	if s.Meanwhile != nil {
		s.Meanwhile(s)
	}
	if err := s.client.Delete(s.Context(), s.object(), nil); err != nil {
		s.Fatal(err)
	}
	s.Becomes(s.object(), "to be gone", func(object *kopf.Body) bool { return object == nil })
}

// Becomes waits until an object satisfies the condition, which receives nil if the object does not exist.
func (s *Stage) Becomes(ref kopf.ObjectReference, what string, condition func(object *kopf.Body) bool) *kopf.Body {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	object, err := kopf.WaitFor(ctx, s.client, ref, what, condition)
	if err != nil {
		s.Fatal(err)
	}
	return object
}

// Has waits until a field of the object has a value. Nil means absent.
func (s *Stage) Has(path kopf.FieldPath, want any) { s.Helper(); s.HasOf(s.object(), path, want) }

// HasOf is Has for any object.
func (s *Stage) HasOf(ref kopf.ObjectReference, path kopf.FieldPath, want any) {
	s.Helper()
	s.Becomes(ref, fmt.Sprintf("to have %s: %v", path, want), func(object *kopf.Body) bool {
		return object != nil && reflect.DeepEqual(generic(s.T, object.Get(path)), generic(s.T, want))
	})
}

// generic converts a value to decoded JSON.
func generic(t *testing.T, value any) (decoded any) {
	t.Helper()
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, &decoded)
	}
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

const finalizer = "kopf.zalando.org/KopfFinalizerMarker"

// Held waits until the object has kopf's finalizer. [Stage.Delete] waits for its removal.
func (s *Stage) Held() { s.Helper(); s.Has("metadata.finalizers", []string{finalizer}) }

// Free waits until the object has no finalizers.
func (s *Stage) Free() { s.Helper(); s.Has("metadata.finalizers", nil) }

// Handled waits until a change of the object is handled, and only the last-handled configuration,
// and perhaps failures, are stored.
func (s *Stage) Handled() {
	s.Helper()
	s.Becomes(s.object(), "to be handled", func(object *kopf.Body) bool {
		if object == nil {
			return false
		}
		var ours []string
		for key := range object.Annotations() {
			if strings.HasPrefix(key, "kopf.zalando.org/") && key != "kopf.zalando.org/failed-handlers" {
				ours = append(ours, key)
			}
		}
		return slices.Equal(ours, []string{"kopf.zalando.org/last-handled-configuration"})
	})
}

// Posted waits for a Kubernetes event in the namespace.
func (s *Stage) Posted(kind, reason, message string) {
	s.Helper()
	until(s.T, fmt.Sprintf("the event %s %s: %s", kind, reason, message), func() bool {
		for event, err := range s.client.List(s.Context(), kopf.ObjectReference{APIVersion: "v1", Kind: "Event"}, &kopf.ListOptions{Namespace: s.Namespace}) {
			if err != nil {
				s.Fatal(err)
			}
			if event.Get("type") == kind && event.Get("reason") == reason && event.Get("message") == message {
				return true
			}
		}
		return false
	})
}

// FreeAddress returns an unused address of this machine.
func (s *Stage) FreeAddress() string {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// Answers waits until a page is available, and returns it.
func (s *Stage) Answers(url string) (page string) {
	s.Helper()
	until(s.T, "an answer of "+url, func() bool {
		resp, err := http.Get(url)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		page = string(data)
		return err == nil && resp.StatusCode == http.StatusOK
	})
	return page
}
