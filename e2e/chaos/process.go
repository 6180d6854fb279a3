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

// This file keeps the operator running: whenever a process of it has ended, there is another one.

type supervisor struct {
	binary, dir string
	role        string // "" or that of the tenant
	seed        uint64
	families    []string
	args        []string
	counter     *atomic.Int64                 // numbers the processes; shared by the replicas of an operator
	prepare     func(run int) (string, error) // writes the kubeconfig of a process, and returns its path
	replica     bool                          // of several, which share their log and their journal

	mu      sync.Mutex // guards all below
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has been waited for
	wanted  bool          // whether the end of the process that runs was asked for
	over    bool          // no other one is started
	run     int           // the number of cmd
	spans   []life        // when each process has run
	peak    int64         // bytes, the most that a process has had
	strange []string      // how processes have ended that nobody had asked to
	err     error
}

// start runs a process, and another one whenever it has ended.
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
	cmd.WaitDelay = 5 * time.Second // nobody else is to have the output
	cmd.SysProcAttr = cluster.EndsWithParent()
	if err := cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	s.cmd, s.ended, s.wanted = cmd, make(chan struct{}), false
	s.spans = append(s.spans, life{s.run, span{from: time.Now()}})
	go s.wait(cmd, s.ended, log)
	return nil
}

// podID is what the process that runs is called. Replicas begin their identity in an election with it.
func (s *supervisor) podID() string {
	if s.replica {
		return replicaPrefix + strconv.Itoa(s.run)
	}
	return "the-operator" + s.role
}

// file is the path of a file of this operator.
func (s *supervisor) file(name string) string { return filepath.Join(s.dir, name+s.role) }

func (s *supervisor) log() string { return s.file("log") }

func (s *supervisor) journal() string { return s.file("journal") }

// ends are how processes have ended that nobody had asked to, and what has kept another one from being started.
func (s *supervisor) ends() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.strange), s.err
}

// lives are the times in which processes have run.
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

// process names the process that runs.
func (s *supervisor) process() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("process %d of the operator %s", s.run, s.role)
}

// lineLimit is up to which length lines of the log are kept: those with whole objects can be very long.
const lineLimit = 4 << 10

// lineCutter writes lines, and no more of each than so much.
type lineCutter struct {
	file    *os.File
	prefix  string // of each line
	written int    // of the line that is being written
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

// saidLines is how many of the last lines of the log about an object are told.
const saidLines = 2000

// said are the last lines of the log about an object.
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

// tail are so many of the last lines of the log.
func (s *supervisor) tail(lines int) []string {
	file, err := os.Open(s.log())
	if err != nil {
		return []string{err.Error()}
	}
	defer file.Close()
	const most = 100 * lineLimit
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, io.SeekEnd) // else it is told from its beginning
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return []string{err.Error()}
	}
	all := strings.Split(string(data), "\n")
	return all[max(0, len(all)-lines):]
}

// lastWords are the last lines of the log that are no messages for debugging, of replicas those with a prefix.
func (s *supervisor) lastWords(prefix string) []string {
	look := 100
	if s.replica { // which shares the log with others
		look = 10_000
	}
	lines := slices.DeleteFunc(s.tail(look), func(line string) bool {
		return s.replica && !strings.HasPrefix(line, prefix) || strings.Contains(line, "[DEBUG]") || strings.Contains(line, "[INFO ]") || line == ""
	})
	return lines[max(0, len(lines)-10):]
}

func (s *supervisor) wait(cmd *exec.Cmd, ended chan struct{}, log *os.File) {
	_ = cmd.Wait()  // how it ended stands in its state
	_ = log.Close() // what could not be written is missing in the report
	s.mu.Lock()
	s.spans[len(s.spans)-1].to = time.Now()
	words := strings.Join(s.lastWords(fmt.Sprintf("process %d: ", s.run)), " ")
	// Who cannot log in ends, and is started again by whoever runs it.
	plugin := strings.Contains(words, "the exec plugin")
	if s.replica { // or cannot reach the API server at its start, as it is cut off
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
		text := fmt.Sprintf("%s is still there %s after %s", s.process(), stoppingTime, signal)
		s.mu.Lock()
		s.strange = append(s.strange, text)
		s.mu.Unlock()
		_ = cmd.Process.Signal(syscall.SIGQUIT) // has Go write the stacks of all goroutines into the log, and end the process
		select {
		case <-ended:
		case <-time.After(stoppingTime):
			_ = cmd.Process.Kill() // likewise
			<-ended
		}
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
