package cluster

import "syscall"

// EndsWithParent returns attributes by which the kernel kills the child at the end of its parent. Ctrl+C in the terminal does not reach the child, so that
// the parent can shut it down.
func EndsWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
