// Package errtype finds an error by its type.
package errtype

// As finds the first error of type E in the tree of an error, stores it in target, and reports whether there is one. It searches as [errors.As] does, but
// without reflection: the compiler checks the type, and a binary needs some 20 kB less. With Go 1.26 as the oldest supported version, errors.AsType can replace
// it.
func As[E error](err error, target *E) bool {
	for err != nil {
		if found, ok := err.(E); ok {
			*target = found
			return true
		}
		if e, ok := err.(interface{ As(target any) bool }); ok && e.As(target) {
			return true
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				if As(err, target) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}
