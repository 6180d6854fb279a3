package metrics

import (
	"bytes"
	"os"
	"strconv"
)

// ResidentMemory returns how much memory the process takes, in bytes, or 0 where the system does not tell.
func ResidentMemory() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(data)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64) // nothing, if it is no number
	return pages * int64(os.Getpagesize())
}
