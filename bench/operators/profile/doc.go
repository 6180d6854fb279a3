// Package profile has operators of ours that are built with the tag "profile" write profiles. It is imported for that alone.
package profile
