package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// This file keeps the operator running: whenever a process of it has ended, there is another one.

type supervisor struct {
	binary, dir string
	seed        uint64

	mu      sync.Mutex // guards all below
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has been waited for
	wanted  bool          // whether the end of the process that runs was asked for
	over    bool          // no other one is started
	runs    int
	peak    int64    // bytes, the most that a process has had
	strange []string // how processes have ended that nobody had asked to
	err     error
}

// start runs a process, and another one whenever it has ended.
func (s *supervisor) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	log, err := os.OpenFile(s.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(s.binary, "run", "--all-namespaces", "--peering=chaos", "--priority=10", "--log-format=full", "--verbose")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(s.dir, "kubeconfig"), "POD_ID=the-operator",
		"CHAOS_DIR="+s.dir, "CHAOS_SEED="+strconv.FormatUint(s.seed, 10), "CHAOS_RUN="+strconv.Itoa(s.runs))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = cluster.EndsWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.ended, s.wanted = cmd, make(chan struct{}), false
	go s.wait(cmd, s.ended)
	return nil
}

func (s *supervisor) log() string { return filepath.Join(s.dir, "log") }

// said are the lines of the log about an object, and the end of it all if there is no name.
func (s *supervisor) said(name string) []string {
	data, err := os.ReadFile(s.log())
	if err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(string(data), "\n")
	if name == "" {
		return lines[max(0, len(lines)-100):]
	}
	return slices.DeleteFunc(lines, func(line string) bool {
		return !strings.Contains(line, "["+namespace+"/"+name+"]") && !strings.Contains(line, "/"+name+"/") && !strings.Contains(line, "/"+name+`"`)
	})
}

// lastWords are the last lines of the log that are no messages for debugging.
func (s *supervisor) lastWords() []string {
	lines := slices.DeleteFunc(s.said(""), func(line string) bool {
		return strings.Contains(line, "[DEBUG]") || strings.Contains(line, "[INFO ]") || line == ""
	})
	return lines[max(0, len(lines)-10):]
}

func (s *supervisor) wait(cmd *exec.Cmd, ended chan struct{}) {
	_ = cmd.Wait() // how it ended stands in its state
	s.mu.Lock()
	words := strings.Join(s.lastWords(), " ")
	// Who cannot log in ends, and is started again by whoever runs it.
	plugin := strings.Contains(words, "the exec plugin")
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

// kill ends the process at once, as kill -9 does.
func (s *supervisor) kill() { s.end(os.Kill, false) }

// stop asks the process to end, and waits for that.
func (s *supervisor) stop() { s.end(os.Interrupt, false) }

// finish stops the process, and starts no other one.
func (s *supervisor) finish() { s.end(os.Interrupt, true) }

// stoppingTime is how long an operator may take for its orderly end.
const stoppingTime = 30 * time.Second

func (s *supervisor) end(signal os.Signal, over bool) {
	s.measure()
	s.mu.Lock()
	cmd, ended := s.cmd, s.ended
	s.wanted, s.over = true, s.over || over
	s.mu.Unlock()
	_ = cmd.Process.Signal(signal) // it may have just ended by itself
	select {
	case <-ended:
	case <-time.After(stoppingTime):
		s.mu.Lock()
		s.strange = append(s.strange, fmt.Sprintf("still there %s after %s", stoppingTime, signal))
		s.mu.Unlock()
		_ = cmd.Process.Kill() // likewise
		<-ended
	}
}

// measure looks at the memory of the process. Only Linux tells.
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

// census asks the operator what it knows of itself.
func (s *supervisor) census(ctx context.Context) (*journal.Census, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.dir, "census.sock"))
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
