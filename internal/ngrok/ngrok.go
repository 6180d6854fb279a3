// Package ngrok makes a local server publicly reachable through ngrok, a program that must be installed. See https://ngrok.com.
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
	openTimeout    = 30 * time.Second // to open a tunnel
	lookInterval   = 10 * time.Second // between two checks of the tunnel's address
	exitTimeout    = 5 * time.Second  // for the program to exit after the signal
	longestRestart = time.Minute      // maximum delay between restarts
	maxAnswer      = 1 << 20          // bytes of a response
)

// Tunnel has the settings of a tunnel. All fields except Region and Token are required.
type Tunnel struct {
	Binary string // path of the program
	Token  string // of an account; "" for that of the program's configuration
	Region string // of the public endpoint; "" for the program's default
	Log    *slog.Logger
}

// Keep keeps a tunnel to the local URL open until the context ends, and then returns nil. It restarts the program if it exits, and announces the new public
// URL. It returns an error if the program cannot be started, or if there is no tunnel after half a minute at first.
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
		t.Log.Warn("The tunnel has ended; opening it again", "error", err, "pause", pause, "help", "K1014")
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// open runs the program once, and reports the address of its tunnel at first and whenever it may have changed.
func (t *Tunnel) open(ctx context.Context, target string, opened func(address string)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd, said := t.command(ctx, target), newOutput()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("ngrok: %w", err)
	}
	ended := make(chan error, 1) // exit status of the program, from its goroutine to this one
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

// command returns the command. The token is not an argument, because arguments are visible to all users of this machine.
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
			return cmd.Process.Kill() // Windows has no signals
		}
		return nil
	}
	cmd.WaitDelay = exitTimeout
	return cmd
}

// output parses the log of the program.
type output struct {
	client *http.Client

	mu    sync.Mutex // guards the following
	api   string     // address of its API; "" until known
	fault string     // last error
	rest  []byte     // incomplete line
}

func newOutput() *output {
	return &output{client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}}
}

// Write parses a part of the log.
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
		o.rest = nil // not a log
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

// explain adds the last error of the program to an error.
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

// publicURL returns the address of the tunnel from the program's API, or "".
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
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // truncated JSON is invalid
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
