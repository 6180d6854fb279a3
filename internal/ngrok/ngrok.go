// Package ngrok makes a local server reachable from anywhere by ngrok, a program that must be installed. See https://ngrok.com.
package ngrok

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	openTimeout    = 30 * time.Second // for a tunnel to be opened
	lookInterval   = 10 * time.Second // between two looks at the address of the tunnel
	exitTimeout    = 5 * time.Second  // for the program to end when it is asked to
	longestRestart = time.Minute      // between two starts of a program that ends
	maxAnswer      = 1 << 20          // bytes of an answer of the program
)

// Tunnel says how the program is run. All fields but Region and Token are required.
type Tunnel struct {
	Binary string // the program
	Token  string // of an account, empty for that of the program's own configuration
	Region string // where the tunnel ends, empty for the program's choice
	Log    *slog.Logger
}

// Keep keeps a tunnel to the local URL open until the context ends, and returns nil then. The program is started again if it ends, with a
// new public URL to announce. It fails if the program cannot be started, or if there is no tunnel after half a minute at first.
func (t *Tunnel) Keep(ctx context.Context, local string, announce func(url string)) error {
	scheme, rest, _ := strings.Cut(local, "://")
	host, path, _ := strings.Cut(rest, "/")
	if path != "" {
		path = "/" + path
	}
	public := ""
	for pause := time.Second; ; pause = min(2*pause, longestRestart) {
		began := time.Now()
		err := t.open(ctx, scheme+"://"+host, func(address string) {
			if address != public {
				public = address
				t.Log.Debug("Accessing the webhooks at " + public + path)
				announce(public + path)
			}
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case public == "":
			return err
		case time.Since(began) > longestRestart:
			pause = time.Second
		}
		t.Log.Warn("The tunnel has ended; opening it again", "help", "K1014", "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// open runs the program once, and tells the address of its tunnel when it is there and as often as it may have changed.
func (t *Tunnel) open(ctx context.Context, target string, opened func(address string)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd, said := t.command(ctx, target), newOutput()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("ngrok: %w", err)
	}
	ended := make(chan error, 1) // how the program has ended, from its goroutine to this one
	go func() { ended <- cmd.Wait() }()
	deadline := time.After(openTimeout)
	interval := 100 * time.Millisecond
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("ngrok has ended: %w", said.explain(err))
		case <-deadline:
			stop()
			<-ended
			return fmt.Errorf("ngrok has opened no tunnel in %s: %w", openTimeout, said.explain(nil))
		case <-time.After(interval):
		}
		if address := said.publicURL(ctx); address != "" {
			opened(address)
			deadline, interval = nil, lookInterval
		}
	}
}

// command prepares the program. The token is not among its arguments, for they can be seen by everyone on this machine.
func (t *Tunnel) command(ctx context.Context, target string) *exec.Cmd {
	args := []string{"http", "--log=stdout", "--log-format=json"}
	if t.Region != "" {
		args = append(args, "--region="+t.Region)
	}
	cmd := exec.CommandContext(ctx, t.Binary, append(args, target)...)
	if t.Token != "" {
		cmd.Env = append(cmd.Environ(), "NGROK_AUTHTOKEN="+t.Token)
	}
	cmd.Cancel = func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return cmd.Process.Kill() // there are no signals on Windows
		}
		return nil
	}
	cmd.WaitDelay = exitTimeout
	return cmd
}

// output is what the program has said.
type output struct {
	client *http.Client

	mu    sync.Mutex // guards the following
	api   string     // the address of its API, empty until it is known
	fault string     // its last complaint
	rest  []byte     // what has come of a line
}

func newOutput() *output {
	return &output{client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}}
}

// Write takes a part of the log of the program.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, p...)
	for {
		line, rest, ok := bytes.Cut(o.rest, []byte("\n"))
		if !ok {
			break
		}
		o.lineLocked(line)
		o.rest = rest
	}
	if len(o.rest) > maxAnswer {
		o.rest = nil // it is no log
	}
	return len(p), nil
}

func (o *output) lineLocked(line []byte) {
	var entry struct{ Msg, Addr, Err string }
	if json.Unmarshal(line, &entry) != nil {
		entry.Err = string(line)
	}
	if entry.Msg == "starting web service" {
		o.api = entry.Addr
	}
	if entry.Err != "" && entry.Err != "<nil>" {
		o.fault = entry.Err
	}
}

// explain adds the last complaint of the program to an error.
func (o *output) explain(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.fault != "":
		return errors.New(o.fault)
	case err != nil:
		return err
	}
	return errors.New("it has not said why")
}

// publicURL asks the API of the program for the address of its tunnel, which is empty if there is none.
func (o *output) publicURL(ctx context.Context) string {
	o.mu.Lock()
	api := o.api
	o.mu.Unlock()
	if api == "" {
		return ""
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+api+"/api/tunnels", nil)
	if err != nil {
		return ""
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var answer struct {
		Tunnels []struct {
			PublicURL string `json:"public_url"`
		}
	}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // what is not whole is not JSON
	if json.Unmarshal(data, &answer) != nil {
		return ""
	}
	for _, tunnel := range answer.Tunnels {
		if strings.HasPrefix(tunnel.PublicURL, "https://") {
			return strings.TrimRight(tunnel.PublicURL, "/")
		}
	}
	return ""
}
