//go:build !linux

package cluster

import "syscall"

// endsWithParent is nothing where the kernel has no such service.
func endsWithParent() *syscall.SysProcAttr { return nil }
