//go:build profile

package profile

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"

	"github.com/kopf-go/kopf"
)

// With the tag, the operator writes a CPU profile of its whole run, and a memory profile at the end, to the folder BENCH_PROFILES.
func init() {
	name := func(kind string) string {
		return filepath.Join(os.Getenv("BENCH_PROFILES"), kind+"-"+strconv.Itoa(os.Getpid())+".pprof")
	}
	f, err := os.Create(name("cpu"))
	if err != nil {
		panic(err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		panic(err)
	}
	kopf.OnCleanup(func(context.Context, *kopf.Activity) error {
		pprof.StopCPUProfile()
		heap, err := os.Create(name("heap"))
		if err != nil {
			return err
		}
		defer heap.Close()
		runtime.GC() // otherwise it would be outdated
		return pprof.WriteHeapProfile(heap)
	}, &kopf.ActivityOptions{ID: "profiles"})
}
