// Package embedded knows whether a build has the embedded API server in its command line. The build tag noembed leaves it out, and with it
// all of the server that the program does not use by itself.
package embedded
