package kopf

import (
	"bytes"
	"cmp"
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

// This file makes a server of webhooks reachable from anywhere by ngrok, a program that must be installed. Serve runs on the goroutine of
// its caller, and owns those of the local server and of the program's output.

// WebhookNgrokTunnel is an [AdmissionServer] for development against clusters that cannot connect to this machine: it listens on this
// machine alone, and the public address of a tunnel by ngrok is announced. Everyone who knows that address can send reviews. See https://ngrok.com.
type WebhookNgrokTunnel struct {
	// Addr and Port are where the local server listens. They default to 127.0.0.1 and a free port.
	Addr string
	Port int
	// Path is where the ids of handlers come after. Defaults to the root.
	Path string
	// Token is the token of an account at ngrok. Defaults to that of ngrok's own configuration.
	Token string `json:"-"`
	// Region is where the tunnel ends, such as "eu". Defaults to ngrok's choice.
	Region string
	// Binary is the program. Defaults to "ngrok" in the PATH.
	Binary string
	// Logger defaults to that of the operator.
	Logger *slog.Logger
}

// Format prints where the local server listens, whatever the verb, and so not the token.
func (t WebhookNgrokTunnel) Format(f fmt.State, _ rune) { printServer(f, t.Addr, t.Port) }

const (
	tunnelTimeout   = 30 * time.Second // for a tunnel to be opened
	tunnelInterval  = 10 * time.Second // between two looks at the address of the tunnel
	tunnelExit      = 5 * time.Second  // for the program to end when it is asked to
	longestRestart  = time.Minute      // between two starts of a program that ends
	maxTunnelAnswer = 1 << 20          // bytes of an answer of the program
)

// Serve runs the local server and the program until the context ends, and returns nil then. The program is started again if
// it ends, with a new address to announce. It fails if the program cannot be started, or if there is no tunnel after half a minute at first.
func (t *WebhookNgrokTunnel) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	log := cmp.Or(t.Logger, servedLogger(ctx))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	local := make(chan string, 1) // the URL of the local server, from its goroutine to this one
	served := make(chan error, 1) // how the local server has ended, likewise
	server := &WebhookServer{Addr: cmp.Or(t.Addr, "127.0.0.1"), Port: t.Port, Path: t.Path, Insecure: true, Logger: t.Logger}
	go func() {
		served <- server.Serve(ctx, review, func(c WebhookClientConfig) { local <- c.URL })
	}()
	select {
	case err := <-served:
		return err
	case address := <-local:
		tunnelled := make(chan error, 1) // how the tunnel has ended, from its goroutine to this one
		go func() { tunnelled <- t.runTunnel(ctx, log, address, announce) }()
		select {
		case err := <-tunnelled:
			stop()
			return cmp.Or(err, <-served)
		case err := <-served:
			stop()
			return cmp.Or(err, <-tunnelled)
		}
	}
}

// runTunnel keeps a tunnel to the local URL open until the context ends.
func (t *WebhookNgrokTunnel) runTunnel(ctx context.Context, log *slog.Logger, local string, announce func(WebhookClientConfig)) error {
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
				log.Debug("Accessing the webhooks at " + public + path)
				announce(WebhookClientConfig{URL: public + path})
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
		log.Warn("The tunnel has ended; it is opened again.", "error", err, "pause", pause)
		if sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// open runs the program once, and tells the address of its tunnel when it is there and as often as it may have changed.
func (t *WebhookNgrokTunnel) open(ctx context.Context, target string, opened func(address string)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd, said := t.command(ctx, target), newTunnelOutput()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("ngrok: %w", err)
	}
	ended := make(chan error, 1) // how the program has ended, from its goroutine to this one
	go func() { ended <- cmd.Wait() }()
	deadline := time.After(tunnelTimeout)
	interval := 100 * time.Millisecond
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("ngrok has ended: %w", said.explain(err))
		case <-deadline:
			stop()
			<-ended
			return fmt.Errorf("ngrok has opened no tunnel in %s: %w", tunnelTimeout, said.explain(nil))
		case <-time.After(interval):
		}
		if address := said.publicURL(ctx); address != "" {
			opened(address)
			deadline, interval = nil, tunnelInterval
		}
	}
}

// command prepares the program. The token is not among its arguments, for they can be seen by everyone on this machine.
func (t *WebhookNgrokTunnel) command(ctx context.Context, target string) *exec.Cmd {
	args := []string{"http", "--log=stdout", "--log-format=json"}
	if t.Region != "" {
		args = append(args, "--region="+t.Region)
	}
	cmd := exec.CommandContext(ctx, cmp.Or(t.Binary, "ngrok"), append(args, target)...)
	if t.Token != "" {
		cmd.Env = append(cmd.Environ(), "NGROK_AUTHTOKEN="+t.Token)
	}
	cmd.Cancel = func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return cmd.Process.Kill() // there are no signals on Windows
		}
		return nil
	}
	cmd.WaitDelay = tunnelExit
	return cmd
}

// tunnelOutput is what the program has said.
type tunnelOutput struct {
	client *http.Client

	mu    sync.Mutex // guards the following
	api   string     // the address of its API, empty until it is known
	fault string     // its last complaint
	rest  []byte     // what has come of a line
}

func newTunnelOutput() *tunnelOutput {
	return &tunnelOutput{client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}}
}

// Write takes a part of the log of the program.
func (o *tunnelOutput) Write(p []byte) (int, error) {
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
	if len(o.rest) > maxTunnelAnswer {
		o.rest = nil // it is no log
	}
	return len(p), nil
}

func (o *tunnelOutput) lineLocked(line []byte) {
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
func (o *tunnelOutput) explain(err error) error {
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
func (o *tunnelOutput) publicURL(ctx context.Context) string {
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
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxTunnelAnswer)) // what is not whole is not JSON
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
