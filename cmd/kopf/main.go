// Command kopf reports about the objects of any operator that is built with kopf, in Go or in Python: how far their handling is (kopf status), and their
// changes since they were last handled (kopf explain). It also pauses such operators (kopf freeze, kopf resume). It has no handlers of its own.
//
//	go run github.com/kopf-go/kopf/cmd/kopf status KIND
package main

import (
	"os"

	"github.com/kopf-go/kopf"
)

func main() {
	if len(os.Args) < 2 { // an operator would run, which has no handlers here
		os.Args = append(os.Args[:1:1], "help")
	}
	if _, ok := os.LookupEnv("KOPF_RUN_STANDALONE"); !ok {
		_ = os.Setenv("KOPF_RUN_STANDALONE", "true") // so that no operator pauses for one without handlers
	}
	kopf.Main()
}
