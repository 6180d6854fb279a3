package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
)

// Fake is a database service in memory. Its databases have no data.
type Fake struct {
	mu        sync.Mutex // guards following
	instances map[string]*fakeInstance
}

// fakeInstance is a database with the time of its creation.
type fakeInstance struct {
	Instance
	created time.Time
}

// creation is how long the fake takes to create a database.
const creation = 3 * time.Second

// ServeHTTP answers GET, PUT and DELETE of /databases/ID, and GET of /databases/, which lists the ids.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := strings.TrimPrefix(r.URL.Path, "/databases/")
	instance := f.instances[id]
	switch {
	case r.Method == http.MethodGet && id == "":
		for id, instance := range f.instances {
			fmt.Fprintf(w, "%s %d GiB\n", id, instance.Storage)
		}
		return
	case r.Method == http.MethodPut:
		var wanted Instance
		if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if instance == nil {
			instance = &fakeInstance{created: time.Now()}
			instance.Address = id[:min(8, len(id))] + ".databases.example.com:5432"
			instance.Password = fmt.Sprintf("secret-%d", instance.created.UnixNano())
			if f.instances == nil {
				f.instances = make(map[string]*fakeInstance)
			}
			f.instances[id] = instance
			log.Print("created database ", id)
		}
		if wanted.Storage < instance.Storage {
			http.Error(w, "the storage cannot shrink", http.StatusUnprocessableEntity)
			return
		}
		instance.Storage = wanted.Storage
	case instance == nil:
		http.NotFound(w, r)
		return
	case r.Method == http.MethodDelete:
		delete(f.instances, id)
		log.Print("deleted database ", id)
		return
	}
	instance.State = stateReady
	if time.Since(instance.created) < creation {
		instance.State = stateCreating
	}
	_ = json.NewEncoder(w).Encode(instance.Instance) // a client that is gone needs no answer
}

// fakeAddress is where the fake listens.
const fakeAddress = "127.0.0.1:18432"

// serveFake runs the fake until Ctrl+C.
func serveFake() {
	listener, err := net.Listen("tcp", fakeAddress)
	if err != nil {
		log.Fatal(err)
	}
	log.Print("the fake database service listens at http://", fakeAddress)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		_ = listener.Close()
	}()
	if err := http.Serve(listener, new(Fake)); !errors.Is(err, net.ErrClosed) {
		log.Fatal(err)
	}
}
