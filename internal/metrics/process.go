package metrics

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// began is when the process was started, or a moment later.
var began = time.Now()

// ticks is how many units of /proc are one second of processor time: Linux shows programs this many, whatever its own clock is.
const ticks = 100

// process returns how much memory the process takes, in bytes, and how much processor time it has used, in seconds; 0 where the system does not say.
func process() (memory, cpu float64) {
	number := func(fields [][]byte, i int) float64 {
		if i >= len(fields) {
			return 0
		}
		n, _ := strconv.ParseFloat(string(fields[i]), 64) // nothing, if it is no number
		return n
	}
	data, _ := os.ReadFile("/proc/self/statm") // which only Linux has
	memory = number(bytes.Fields(data), 1) * float64(os.Getpagesize())
	data, _ = os.ReadFile("/proc/self/stat")
	data = data[bytes.LastIndexByte(data, ')')+1:] // the name of the program can have spaces and parentheses; the third field follows it
	fields := bytes.Fields(data)
	return memory, (number(fields, 11) + number(fields, 12)) / ticks
}
