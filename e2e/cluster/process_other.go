//go:build !linux

package cluster

import "syscall"

// EndsWithParent is nothing where the kernel has no such service.
func EndsWithParent() *syscall.SysProcAttr { return nil }
