package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// This file supervises the operator: it starts another process whenever one has ended.

type supervisor struct {
	binary, dir string
	role        string // "" or the role of the tenant
	seed        uint64
	families    []string
	args        []string
	counter     *atomic.Int64                 // numbers the processes; shared by the replicas of an operator
	prepare     func(run int) (string, error) // writes the kubeconfig of a process, and returns its path
	replica     bool                          // one of several, which share their log and their journal

	mu      sync.Mutex // guards all below
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has been waited for
	wanted  bool          // whether the bench has requested the end of the running process
	over    bool          // no other process is started
	run     int           // the number of cmd
	spans   []life        // the times in which processes ran
	peak    int64         // bytes, the maximum of all processes
	strange []string      // unexpected ends of processes
	err     error
}

// start starts a process, and another one whenever one has ended.
func (s *supervisor) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = int(s.counter.Add(1))
	kubeconfig, err := s.prepare(s.run)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(s.binary, append([]string{"run", "--log-format=full", "--verbose"}, s.args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "POD_ID="+s.podID(), "CHAOS_JOURNAL="+s.journal(),
		"CHAOS_DIR="+s.dir, "CHAOS_SEED="+strconv.FormatUint(s.seed, 10), "CHAOS_RUN="+strconv.Itoa(s.run), "CHAOS_ROLE="+s.role,
		"CHAOS_FAMILIES="+strings.Join(s.families, ","))
	output := &lineCutter{file: log}
	if s.replica {
		output.prefix = fmt.Sprintf("process %d: ", s.run)
	}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = 5 * time.Second // child processes must not block the output
	cmd.SysProcAttr = cluster.EndsWithParent()
	if err := cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	s.cmd, s.ended, s.wanted = cmd, make(chan struct{}), false
	s.spans = append(s.spans, life{s.run, span{from: time.Now()}})
	go s.wait(cmd, s.ended, log)
	return nil
}

// podID returns the pod ID of the running process. Replicas use it as a prefix of their identity in an election.
func (s *supervisor) podID() string {
	if s.replica {
		return replicaPrefix + strconv.Itoa(s.run)
	}
	return "the-operator" + s.role
}

// file returns the path of a file of this operator.
func (s *supervisor) file(name string) string { return filepath.Join(s.dir, name+s.role) }

func (s *supervisor) log() string { return s.file("log") }

func (s *supervisor) journal() string { return s.file("journal") }

// ends returns the unexpected ends of processes, and the error that prevented the start of another one.
func (s *supervisor) ends() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.strange), s.err
}

// lives returns the times in which processes ran.
func (s *supervisor) lives() []life {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.spans)
	if len(all) == 0 {
		return nil
	}
	if last := &all[len(all)-1]; last.to.IsZero() {
		last.to = time.Now()
	}
	return all
}

// process returns the name of the running process.
func (s *supervisor) process() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("process %d of the operator %s", s.run, s.role)
}

// lineLimit is the maximum length of a log line: those with whole objects can be very long.
const lineLimit = 4 << 10

// lineCutter truncates lines to a maximum length.
type lineCutter struct {
	file    *os.File
	prefix  string // a prefix of each line
	written int    // the length of the current line
}

func (c *lineCutter) Write(data []byte) (int, error) {
	for line := range bytes.Lines(data) {
		text := line[:min(len(line), max(0, lineLimit-c.written))]
		if c.written == 0 {
			text = append([]byte(c.prefix), text...)
		}
		ended := bytes.HasSuffix(line, []byte("\n"))
		if ended && !bytes.HasSuffix(text, []byte("\n")) {
			text = append(slices.Clone(text), '\n')
		}
		if _, err := c.file.Write(text); err != nil {
			return 0, err
		}
		if c.written += len(line); ended {
			c.written = 0
		}
	}
	return len(data), nil
}

// saidLines is the maximum number of reported log lines about an object.
const saidLines = 2000

// said returns the last lines of the log about an object.
func (s *supervisor) said(name string) []string {
	file, err := os.Open(s.log())
	if err != nil {
		return []string{err.Error()}
	}
	defer file.Close()
	var told []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if !strings.Contains(line, "["+namespace+"/"+name+"]") && !strings.Contains(line, "/"+name+"/") && !strings.Contains(line, "/"+name+`"`) {
			continue
		}
		if told = append(told, line); len(told) == 2*saidLines {
			told = slices.Clone(told[saidLines:])
		}
	}
	return told[max(0, len(told)-saidLines):]
}

// tail returns the last lines of the log.
func (s *supervisor) tail(lines int) []string {
	file, err := os.Open(s.log())
	if err != nil {
		return []string{err.Error()}
	}
	defer file.Close()
	const most = 100 * lineLimit
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, io.SeekEnd) // otherwise read from the start
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return []string{err.Error()}
	}
	all := strings.Split(string(data), "\n")
	return all[max(0, len(all)-lines):]
}

// lastWords returns the last lines of the log above the level DEBUG, for replicas those with a prefix.
func (s *supervisor) lastWords(prefix string) []string {
	look := 100
	if s.replica { // it shares the log with others
		look = 10_000
	}
	lines := slices.DeleteFunc(s.tail(look), func(line string) bool {
		return s.replica && !strings.HasPrefix(line, prefix) || strings.Contains(line, "[DEBUG]") || strings.Contains(line, "[INFO ]") || line == ""
	})
	return lines[max(0, len(lines)-10):]
}

func (s *supervisor) wait(cmd *exec.Cmd, ended chan struct{}, log *os.File) {
	_ = cmd.Wait()  // its result is in its state
	_ = log.Close() // a write error makes the report incomplete
	s.mu.Lock()
	s.spans[len(s.spans)-1].to = time.Now()
	words := strings.Join(s.lastWords(fmt.Sprintf("process %d: ", s.run)), " ")
	// An operator exits when its login fails, and is restarted, as by a kubelet.
	plugin := strings.Contains(words, "the exec plugin")
	if s.replica { // or cannot reach the API server at its start
		plugin = plugin || strings.Contains(words, "Operator has failed") && strings.Contains(words, "/api")
	}
	if !plugin && (!s.wanted || s.over && !cmd.ProcessState.Success()) {
		s.strange = append(s.strange, cmd.ProcessState.String()+" after "+words)
	}
	over := s.over
	s.mu.Unlock()
	close(ended)
	if over {
		return
	}
	if err := s.start(); err != nil {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
}

// kill ends the process by force, like kill -9.
func (s *supervisor) kill() { s.end(os.Kill, false) }

// stop shuts the process down, and waits for that.
func (s *supervisor) stop() { s.end(os.Interrupt, false) }

// finish stops the process, and starts no other one.
func (s *supervisor) finish() { s.end(os.Interrupt, true) }

// stoppingTime is the time limit for an orderly shutdown.
const stoppingTime = 30 * time.Second

func (s *supervisor) end(signal os.Signal, over bool) {
	s.measure()
	s.mu.Lock()
	cmd, ended := s.cmd, s.ended
	s.wanted, s.over = true, s.over || over
	s.mu.Unlock()
	_ = cmd.Process.Signal(signal) // it may have just ended
	select {
	case <-ended:
	case <-time.After(stoppingTime):
		text := fmt.Sprintf("%s is still there %s after %s", s.process(), stoppingTime, signal)
		s.mu.Lock()
		s.strange = append(s.strange, text)
		s.mu.Unlock()
		_ = cmd.Process.Signal(syscall.SIGQUIT) // the Go runtime logs the stacks of all goroutines, and ends the process
		select {
		case <-ended:
		case <-time.After(stoppingTime):
			_ = cmd.Process.Kill() // likewise
			<-ended
		}
	}
}

// measure reads the memory of the process. It works on Linux only.
func (s *supervisor) measure() {
	s.mu.Lock()
	defer s.mu.Unlock()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
			s.peak = max(s.peak, kilobytes<<10)
		}
	}
}

// census requests the state of the operator.
func (s *supervisor) census(ctx context.Context) (*journal.Census, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s.mu.Lock()
	run := s.run
	s.mu.Unlock()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.dir, fmt.Sprintf("census-%d.sock", run)))
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://operator/", nil)
	if err != nil {
		return nil, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	census := &journal.Census{}
	return census, json.NewDecoder(resp.Body).Decode(census)
}
