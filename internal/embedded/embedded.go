// Package embedded provides the embedded API server of the command line. The build tag noembed omits it, and with it all parts of the server that the program
// does not use itself.
package embedded
