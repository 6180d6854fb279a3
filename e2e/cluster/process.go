package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// This file runs one child process. It writes to a log file, and a goroutine waits for it. If the operating system supports that, the child ends with its
// parent.

type process struct {
	path, dir, log string
	args           []string

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended; nil before the first start
}

func (p *process) start() error {
	if p.running() {
		return fmt.Errorf("%s runs already", p.path)
	}
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own descriptor
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Dir = p.dir
	p.cmd.Env = append(os.Environ(), "HOME="+p.dir)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = EndsWithParent()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait() // its result is in its state
		close(done)
	}(p.cmd, p.done)
	return nil
}

func (p *process) running() bool {
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) kill() {
	if p.running() {
		_ = p.cmd.Process.Kill() // it may have just ended
		<-p.done
	}
}

// terminate shuts the process down and kills it after a timeout.
func (p *process) terminate(patience time.Duration) {
	if !p.running() {
		return
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err == nil {
		select {
		case <-p.done:
		case <-time.After(patience):
		}
	}
	p.kill()
}

func (p *process) state() string { return p.cmd.ProcessState.String() }

// tail returns the last lines of the log, except those of the level INFO.
func (p *process) tail(n int) string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error() + "\n"
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		if !information.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "")
}

var information = regexp.MustCompile(`^I\d{4} |"level":"(info|warn)"`)
