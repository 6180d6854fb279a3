// Command embedded measures the cost of the in-memory API server, in a separate process, and fails if it exceeds the limits:
//
//	go run ./embedded
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kopf-go/kopf"
)

func main() {
	do := run
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		do = serve
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "embedded:", err)
		os.Exit(1)
	}
}

// usage is the resource usage of a process so far.
type usage struct {
	CPU  time.Duration
	Peak int64 // of the resident memory, in bytes
}

// serve serves until the input ends, and answers each line of it with the usage.
func serve() error {
	served, err := kopf.NewAPIServer(nil).Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = served.Close() }()
	fmt.Println(served.URL)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var r unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
			return err
		}
		cpu := time.Duration(r.Utime.Nano() + r.Stime.Nano())
		if err := json.NewEncoder(os.Stdout).Encode(usage{cpu, r.Maxrss * 1024}); err != nil {
			return err
		}
	}
	return nil
}

// server is the measured process.
type server struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	url string
}

func start() (*server, error) {
	s := &server{cmd: exec.Command(os.Args[0], "serve")}
	s.cmd.Stderr = os.Stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := s.out.ReadString('\n')
	s.url = strings.TrimSpace(line)
	return s, err
}

func (s *server) stop() {
	_ = s.in.Close()
	_ = s.cmd.Wait()
}

// used returns the usage of the process.
func (s *server) used() (u usage, err error) {
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		return u, err
	}
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return u, err
	}
	return u, json.Unmarshal(line, &u)
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// send sends a request, and reads the whole response.
func (s *server) send(method, path, body string) error {
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if req.Header.Set("Content-Type", "application/json"); method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %.500s", method, path, resp.Status, answer)
	}
	return err
}

// create creates a ConfigMap with some bytes of data.
func (s *server) create(name string, bytes int) error {
	return s.send(http.MethodPost, configMaps, fmt.Sprintf(`{"metadata": {"name": %q}, "data": {"text": %q}}`, name, strings.Repeat("x", bytes)))
}

// annotate changes an annotation of an object.
func (s *server) annotate(name string, n int) error {
	return s.send(http.MethodPatch, configMaps+"/"+name, fmt.Sprintf(`{"metadata": {"annotations": {"n": "%d"}}}`, n))
}

const mega = 1_000_000

func run() error {
	small, err := patchedOften(func(s *server, n int) error { return s.annotate("large", n) })
	if err != nil {
		return err
	}
	large, err := patchedOften(func(s *server, n int) error {
		return s.send(http.MethodPatch, configMaps+"/large", fmt.Sprintf(`{"data": {"text": "%d%s"}}`, n, strings.Repeat("y", 900<<10-10)))
	})
	if err != nil {
		return err
	}
	list, err := listedAfterWrites(50_000)
	if err != nil {
		return err
	}
	fmt.Printf("peak memory, an object of 900 KiB patched 1,500 times: %d MB (at most 300)\n", small/mega)
	fmt.Printf("peak memory, the same with all of its data in each patch: %d MB (at most 300)\n", large/mega)
	fmt.Printf("CPU of a list of one object after a write, among 50,000: %v (at most 2ms)\n", list.Round(time.Microsecond))
	if max(small, large) > 300*mega || list > 2*time.Millisecond {
		return errors.New("that is too much")
	}
	return nil
}

// patchedOften patches an object of 900 KiB 1,500 times, and returns the peak of the memory.
func patchedOften(patch func(s *server, n int) error) (int64, error) {
	s, err := start()
	if err != nil {
		return 0, err
	}
	defer s.stop()
	if err := s.create("large", 900<<10); err != nil {
		return 0, err
	}
	for n := range 1500 {
		if err := patch(s, n); err != nil {
			return 0, err
		}
	}
	u, err := s.used()
	return u.Peak, err
}

// listedAfterWrites returns the cost of a list of one object right after a write, among many objects: the difference between writes with and without it.
func listedAfterWrites(count int) (time.Duration, error) {
	s, err := start()
	if err != nil {
		return 0, err
	}
	defer s.stop()
	for n := range count {
		if err := s.create(fmt.Sprintf("object-%d", n), 700); err != nil {
			return 0, err
		}
	}
	const times = 500
	written := 0
	cost := func(listing bool) (time.Duration, error) {
		before, err := s.used()
		for n := 0; n < times && err == nil; n++ {
			written++ // so that each write is a change
			if err = s.annotate(fmt.Sprintf("object-%d", n*97%count), written); err == nil && listing {
				err = s.send(http.MethodGet, configMaps+"?limit=1", "")
			}
		}
		if err != nil {
			return 0, err
		}
		after, err := s.used()
		return after.CPU - before.CPU, err
	}
	if _, err := cost(true); err != nil { // the first list of all sorts the objects
		return 0, err
	}
	without, err := cost(false)
	if err != nil {
		return 0, err
	}
	with, err := cost(true)
	return max(0, with-without) / times, err
}
