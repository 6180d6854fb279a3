package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// lab is an operator with the API server and the database service that it talks to, all in memory.
type lab struct {
	t       *testing.T
	client  *kopf.Client
	service *Service
	fake    *Fake
	lose    atomic.Int32 // how many answers of the service are lost, after it has done its work
}

// RoundTrip reaches the fake without a network.
func (l *lab) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	l.fake.ServeHTTP(recorder, r)
	if l.lose.Add(-1) >= 0 {
		return nil, errors.New("the connection is lost")
	}
	return recorder.Result(), nil
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, fake: new(Fake)}
	server := kopf.NewAPIServer(nil)
	registry := new(kopf.Registry)
	l.service = &Service{URL: "http://databases.test", Client: &http.Client{Transport: l}}
	register(registry, l.service)
	settings := kopf.NewSettings()
	settings.Admission = kopf.AdmissionSettings{Server: server.AdmissionServer(), Managed: "test.example.com"}
	kopf.NewRunner(t, &kopf.Operator{Registry: registry, Settings: settings, Connection: server.ConnectionInfo()}, nil)
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		t.Fatal(err)
	}
	l.client = client
	time.Sleep(time.Second) // until the configurations of the webhooks are there
	return l
}

var orders = kopf.ObjectReference{APIVersion: "example.com/v1", Kind: "Database", Namespace: "default", Name: "orders"}

// create creates a database object.
func (l *lab) create(name string, gib int64) error {
	db := &Database{Spec: DatabaseSpec{Storage: gib}}
	db.APIVersion, db.Kind, db.Namespace, db.Name = orders.APIVersion, orders.Kind, orders.Namespace, name
	return l.client.Create(l.t.Context(), db, nil)
}

// resize changes the storage of the object orders.
func (l *lab) resize(gib int64) error {
	_, err := l.client.Patch(l.t.Context(), orders, map[string]any{"spec": map[string]any{"storage": gib}}, nil)
	return err
}

// instances returns the storage of the databases that the service has, by their ids.
func (l *lab) instances() map[string]int64 {
	l.fake.mu.Lock()
	defer l.fake.mu.Unlock()
	all := make(map[string]int64)
	for id, instance := range l.fake.instances {
		all[id] = instance.Storage
	}
	return all
}

// condition returns the status of a condition of the object orders, and the object.
func (l *lab) condition(name string) (kopf.ConditionStatus, *Database) {
	l.t.Helper()
	db := new(Database)
	if err := l.client.Get(l.t.Context(), orders, db, nil); err != nil {
		l.t.Fatal(err)
	}
	for _, c := range db.Status.Conditions {
		if c.Type == name {
			return c.Status, db
		}
	}
	return "", db
}

func TestLifeOfDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		if err := l.create("orders", 10); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if ready, db := l.condition("Ready"); ready != "False" || db.Status.Phase != "creating" {
			t.Errorf("after a second: Ready is %q, the phase %q", ready, db.Status.Phase)
		}
		time.Sleep(10 * time.Second)
		ready, db := l.condition("Ready")
		if ready != "True" || db.Status.Address == "" {
			t.Fatalf("after ten seconds: Ready is %q, the address %q", ready, db.Status.Address)
		}
		var secret Secret
		ref := kopf.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "default", Name: "orders-credentials"}
		if err := l.client.Get(t.Context(), ref, &secret, nil); err != nil {
			t.Fatal(err)
		}
		if got := string(secret.Data["address"]); got != db.Status.Address || len(secret.Data["password"]) == 0 {
			t.Errorf("the Secret has %q", secret.Data)
		}

		if err := l.resize(20); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := l.instances()[db.UID]; got != 20 {
			t.Errorf("the database has %d GiB, want 20", got)
		}

		if err := l.client.Delete(t.Context(), orders, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := l.client.Get(t.Context(), orders, new(Database), nil); kopf.StatusCode(err) != 404 || len(l.instances()) != 0 {
			t.Errorf("after the deletion: %v, %d databases", err, len(l.instances()))
		}
	})
}

func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.lose.Store(3)
		if err := l.create("orders", 10); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if ready, _ := l.condition("Ready"); ready != "True" || len(l.instances()) != 1 {
			t.Errorf("Ready is %q, with %d databases, want one", ready, len(l.instances()))
		}
	})
}

func TestMissingDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		if err := l.create("orders", 10); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + 5*time.Second) // between two checks
		healthy, db := l.condition("Healthy")
		if healthy != "True" {
			t.Errorf("at first, Healthy is %q", healthy)
		}
		if err := l.service.Delete(t.Context(), db.UID); err != nil { // by a client other than the operator
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if healthy, _ := l.condition("Healthy"); healthy != "False" {
			t.Errorf("without a database, Healthy is %q", healthy)
		}
		time.Sleep(time.Minute)
		if healthy, _ := l.condition("Healthy"); healthy != "True" || len(l.instances()) != 1 {
			t.Errorf("a minute later, Healthy is %q", healthy)
		}
	})
}

func TestValidation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		if err := l.create("orders", 60); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		for _, c := range []struct {
			err  error
			want string
		}{
			{l.create("none", 0), "spec.storage"},
			{l.create("customers", 50), "the quota is 100 GiB"},
			{l.resize(50), "cannot shrink from 60 GiB to 50 GiB"},
			{l.resize(101), "the quota is 100 GiB"},
			{l.resize(100), ""},
		} {
			if c.want == "" && c.err != nil || c.want != "" && (kopf.StatusCode(c.err) != 422 || !strings.Contains(c.err.Error(), c.want)) {
				t.Errorf("got %v, want %q", c.err, c.want)
			}
		}
	})
}
