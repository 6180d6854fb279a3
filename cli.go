package kopf

// This file knows the commands of an operator's command line, and the signals that end them.

// Version is the version of the framework.
const Version = "0.1.0"
