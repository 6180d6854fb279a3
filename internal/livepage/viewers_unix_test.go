//go:build unix

package livepage

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kopf-go/kopf/internal/inspection"
)

// BenchmarkTenViewers measures what ten viewers cost an operator with as many rows as the page shows: as a part of one processor.
// Each iteration is an event for each viewer. The share of the snapshots has a limit of its own, see TestState.
func BenchmarkTenViewers(b *testing.B) {
	const viewers = 10
	s, _ := newServer(func(state *State) {
		for i := range 2 * maxRows {
			state.Retries = append(state.Retries, &Retry{Object: &inspection.Object{Kind: "Website", Namespace: "default", Name: fmt.Sprintf("website-%05d", i)},
				Handler: "publish", Attempts: i, Next: state.Time, Error: strings.Repeat("the database is asleep ", 4)})
		}
	})
	server := httptest.NewServer(s)
	defer server.Close()
	events := make(chan struct{})
	var reading sync.WaitGroup
	for range viewers {
		resp, err := http.Get(server.URL + "/api/v1/events")
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		reading.Go(func() {
			for lines := bufio.NewReaderSize(resp.Body, 1<<20); ; {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				if strings.HasPrefix(line, "data: ") {
					events <- struct{}{}
				}
			}
		})
	}
	for range viewers {
		<-events
	}
	began, used := time.Now(), processorTime(b)
	for b.Loop() {
		for range viewers {
			<-events
		}
	}
	b.ReportMetric(100*float64(processorTime(b)-used)/float64(time.Since(began)), "%processor")
	go func() {
		for range events {
		}
	}()
	server.CloseClientConnections()
	reading.Wait()
	close(events)
}

// processorTime returns the processor time that the process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
