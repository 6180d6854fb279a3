//go:build !race

package kopf

const racing = false
