// Command 27-external-database manages databases of a service outside of the cluster: the operator of the tutorial. `27-external-database fake` runs
// a small service to try it with.
package main

import (
	"cmp"
	"net/http"
	"os"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "fake" {
		serveFake()
		return
	}
	url := cmp.Or(os.Getenv("DATABASE_SERVICE"), "http://"+fakeAddress)
	client := &http.Client{Transport: counted{http.DefaultTransport}, Timeout: 10 * time.Second}
	register(kopf.DefaultRegistry(), &Service{URL: url, Client: client})
	kopf.Main()
}
