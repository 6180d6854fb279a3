// Package judges holds software of others that is written for a real API server, and lets it judge the one in memory: each test
// runs against both, and what a real kube-apiserver satisfies has to be satisfied in memory. It is a module of its own, since its
// libraries are heavy:
//
//	make judges
//
// takes some minutes, as the suites are compiled from the module cache first.
package judges
