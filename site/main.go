// Command site creates a site from the documentation: from the Markdown files of the repository, the examples, and the comments of the package.
//
//	go run . -out ../public
//	go run . -serve 127.0.0.1:8000
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	log.SetFlags(0)
	root := flag.String("root", "..", "the `folder` of the repository")
	out := flag.String("out", "", "the `folder` to write the site to, next to the versions that are there")
	serve := flag.String("serve", "", "an `address` to serve the site at, such as 127.0.0.1:8000")
	flag.Parse()
	if err := run(*root, *out, *serve); err != nil {
		log.Fatal(err)
	}
}

// run builds the site, and serves it if there is an address.
func run(root, out, address string) error {
	if flag.NArg() > 0 || out == "" && address == "" {
		return errors.New("want -out FOLDER, -serve ADDRESS, or both")
	}
	if out == "" {
		dir, err := os.MkdirTemp("", "kopf-site-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		out = dir
	}
	s, err := load(root)
	if err != nil {
		return err
	}
	if err := s.write(out, "latest", kopf.Version); err != nil {
		return err
	}
	fmt.Printf("%d pages in %s\n", len(s.pages), out)
	if address == "" {
		return nil
	}
	fmt.Printf("http://%s/ shows the site as it is now, until Ctrl+C\n", address)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	server := &http.Server{Addr: address, Handler: http.FileServer(http.Dir(out)), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
