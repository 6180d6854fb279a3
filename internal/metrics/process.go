package metrics

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// began is approximately the start time of the process.
var began = time.Now()

// ticks is the number of /proc clock units per second. On Linux, programs always see this number.
const ticks = 100

// process returns the memory of the process, in bytes, and its processor time, in seconds. Both are 0 on systems other than Linux.
func process() (memory, cpu float64) {
	number := func(fields [][]byte, i int) float64 {
		if i >= len(fields) {
			return 0
		}
		n, _ := strconv.ParseFloat(string(fields[i]), 64) // 0 if it is not a number
		return n
	}
	data, _ := os.ReadFile("/proc/self/statm") // exists only on Linux
	memory = number(bytes.Fields(data), 1) * float64(os.Getpagesize())
	data, _ = os.ReadFile("/proc/self/stat")
	data = data[bytes.LastIndexByte(data, ')')+1:] // the program name can contain spaces and parentheses; the third field follows it
	fields := bytes.Fields(data)
	return memory, (number(fields, 11) + number(fields, 12)) / ticks
}
