package installation

import (
	"errors"
	"path"
	"strings"

	"github.com/kopf-go/kopf/internal/validation"
)

// This file validates names.

// maxName is the maximum length of a name that other objects' names include.
const maxName = 50

const lowerLetters, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"

// CheckName validates the name of the objects. One of them is a Service, whose name must be a DNS label (RFC 1035).
func CheckName(name string) error {
	if len(name) > maxName || !validation.IsNamespaceName(name) || strings.IndexByte(lowerLetters, name[0]) < 0 {
		return errors.New("want at most 50 lower-case letters, digits and '-', of which the first one is a letter")
	}
	return nil
}

// NameOf derives a name of objects from a program's name.
func NameOf(program string) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(lowerLetters+digits, r) {
			return r
		}
		return '-'
	}, strings.ToLower(program))
	name = strings.Trim(name, "-")
	if name == "" || strings.IndexByte(lowerLetters, name[0]) < 0 {
		name = "operator-" + name
	}
	return strings.TrimRight(name[:min(len(name), maxName)], "-")
}

// CheckImage validates the name of an image.
func CheckImage(image string) error {
	if !validation.IsName(image, "-_./:@") {
		return errors.New("want an image, such as example.com/operator:1")
	}
	return nil
}

// tag returns the tag of an image, or "".
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(path.Base(image), ":")
	return tag
}

// CheckChartVersion validates the version of a chart, which must be a semantic version.
func CheckChartVersion(version string) error {
	bad := errors.New("want a semantic version, such as 1.2.3 or 1.2.3-rc.1")
	rest, build, hasBuild := strings.Cut(version, "+")
	core, pre, hasPre := strings.Cut(rest, "-")
	numbers := strings.Split(core, ".")
	if len(numbers) != 3 || hasBuild && !areIdentifiers(build, false) || hasPre && !areIdentifiers(pre, true) {
		return bad
	}
	for _, n := range numbers {
		if !isNumber(n) {
			return bad
		}
	}
	return nil
}

// areIdentifiers reports whether a text consists of words separated by dots. If strict, numbers must not have leading zeros.
func areIdentifiers(text string, strict bool) bool {
	for word := range strings.SplitSeq(text, ".") {
		if word == "" || strings.Trim(word, lowerLetters+strings.ToUpper(lowerLetters)+digits+"-") != "" || strict && strings.Trim(word, digits) == "" && !isNumber(word) {
			return false
		}
	}
	return true
}

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, digits) == "" && (text == "0" || text[0] != '0')
}
