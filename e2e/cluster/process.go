package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// This file knows one child process: it writes to a log file and is waited for by a goroutine of
// its own. The kernel ends it with its parent where the kernel can do that.

type process struct {
	path, dir, log string
	args           []string

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has been waited for; nil before the first start
}

func (p *process) start() error {
	if p.running() {
		return fmt.Errorf("%s runs already", p.path)
	}
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
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
		_ = cmd.Wait() // how it ended stands in its state
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
		_ = p.cmd.Process.Kill() // it may have just ended by itself
		<-p.done
	}
}

// terminate asks the process to end and kills it when that takes too long.
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

// tail returns the last lines of the log but for those that merely inform.
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
