package cluster

import "syscall"

// EndsWithParent makes the kernel kill the child when we are gone, and keeps a Ctrl+C in the
// terminal from reaching it before we have said goodbye.
func EndsWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
