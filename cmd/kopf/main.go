// Command kopf tells of the objects of any operator that is built with kopf, in Go or in Python: how far their handling is (kopf status), and what has changed since they were last
// handled (kopf explain). It also pauses such operators (kopf freeze, kopf resume). It has no handlers of its own.
//
//	go run github.com/kopf-go/kopf/cmd/kopf status KIND
package main

import "github.com/kopf-go/kopf"

func main() { kopf.Main() }
