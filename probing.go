package kopf

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
)

// This file tells others how the operator is.

// newMeter returns the counters of an operator.
func newMeter(g *Registry) *metrics {
	m := &metrics{goroutines: runtime.NumGoroutine, memory: residentMemory}
	var ids []HandlerID
	for _, h := range g.snapshot() {
		ids = append(ids, h.id)
	}
	m.know(ids)
	return m
}

// residentMemory returns how much memory the process takes, in bytes, or 0 where the system does not tell.
func residentMemory() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(data)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64) // nothing, if it is no number
	return pages * int64(os.Getpagesize())
}
