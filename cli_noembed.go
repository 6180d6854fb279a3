//go:build noembed

package kopf

import "context"

// canEmbed reports whether the command line of this build has the embedded server.
const canEmbed = false

// embed is never reached: the options that lead here are refused as wrong usage.
func (c *command) embed(context.Context, *runOptions, *Operator) error { return errNoEmbed }
