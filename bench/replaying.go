package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/kopf-go/kopf/bench/replay"
)

// replaying is the place with a separate replaying server for each run.
type replaying struct {
	marks map[string][]json.RawMessage // patches of an operator to a handled object, by operator
}

func (*replaying) name() string { return replayName }

func (*replaying) close() {}

func (p *replaying) open(ctx context.Context, v variant, dir string, j job) (server, error) {
	var marks []json.RawMessage
	if j.handled {
		var err error
		if marks, err = p.marksOf(ctx, v, dir); err != nil {
			return nil, err
		}
	}
	if j.reordered {
		var err error
		if marks, err = reordered(marks); err != nil {
			return nil, err
		}
	}
	s, err := replayed(dir, j.count, v.writes, marks)
	if err == nil {
		s.SetNamespaces(j.namespaces)
	}
	return s, err
}

func replayed(dir string, count, writes int, marks []json.RawMessage) (*replayedServer, error) {
	s, err := replay.New(count, writes, marks)
	if err != nil {
		return nil, err
	}
	r := &replayedServer{s, filepath.Join(dir, "kubeconfig")}
	if err := s.WriteKubeconfig(r.kubeconfig); err != nil {
		s.Close()
		return nil, err
	}
	return r, nil
}

// marksOf returns the patches of an operator to a handled object.
func (p *replaying) marksOf(ctx context.Context, v variant, dir string) ([]json.RawMessage, error) {
	key := fmt.Sprint(v.program, v.writes)
	if marks, ok := p.marks[key]; ok {
		return marks, nil
	}
	s, err := replayed(dir, 1, v.writes, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	o, err := v.start(dir, s.kubeconfig, 0)
	if err != nil {
		return nil, err
	}
	defer o.kill()
	if err := waitForHandled(ctx, s, o, 1); err != nil {
		return nil, err
	}
	if err := o.settle(ctx); err != nil {
		return nil, err
	}
	p.marks[key] = s.Patches()
	return s.Patches(), o.stop()
}

// replayedServer adapts a replaying server for the jobs.
type replayedServer struct {
	*replay.Server
	kubeconfig string
}

func (s *replayedServer) Kubeconfig() string { return s.kubeconfig }

func (s *replayedServer) Add(context.Context) error {
	s.Server.Add()
	return nil
}

func (s *replayedServer) Change(_ context.Context, from, count int) error {
	n := s.Len()
	for i := from; i < from+count; i++ {
		if err := s.Tick(i%n, i+1); err != nil {
			return err
		}
	}
	return nil
}

func (s *replayedServer) Resize(_ context.Context, from, count int) error {
	n := s.Len()
	for i := from; i < from+count; i++ {
		s.Server.Resize(i % n)
	}
	return nil
}

// CPU returns zero, because the server is part of the bench.
func (s *replayedServer) CPU() (etcd, all time.Duration) { return 0, 0 }

func (s *replayedServer) Handled() (int, error) { return s.Server.Handled(), nil }

func (s *replayedServer) Watched(context.Context) (time.Time, time.Duration, error) {
	at, answered := s.Server.Watched()
	return at, answered, nil
}

func (s *replayedServer) Requests(context.Context) (map[string]int, error) {
	return s.Server.Requests(), nil
}
