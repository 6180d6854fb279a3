package kopf

// This file knows the commands of an operator's command line, and the signals that end them.
