// Package profile makes operators that are built with the tag "profile" write profiles. It is imported only for that.
package profile
