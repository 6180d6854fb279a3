// Package judges runs third-party software for real API servers with the in-memory server. Each test runs with both, and must pass in memory if it passes
// with a real kube-apiserver. It is a separate module because of its large dependencies:
//
//	make judges
//
// takes some minutes, because it first compiles the suites from the module cache.
package judges
