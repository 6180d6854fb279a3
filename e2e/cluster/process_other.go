//go:build !linux

package cluster

import "syscall"

// EndsWithParent returns nil, because the operating system does not support it.
func EndsWithParent() *syscall.SysProcAttr { return nil }
