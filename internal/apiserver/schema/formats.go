package schema

import (
	"encoding/base64"
	"encoding/hex"
	"net"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/validation"
)

// formats are the checked formats of strings, without their dashes. All others are ignored.
func formats() map[string]func(text string) bool {
	lazyFormats.once.Do(func() { lazyFormats.value = makeFormats() })
	return lazyFormats.value
}

// lazyFormats is made on first use, by a function, because an initial value would take memory in every operator.
var lazyFormats struct {
	once  sync.Once
	value map[string]func(text string) bool
}

// lazyPattern is a regular expression that is compiled on first use.
type lazyPattern struct {
	once  sync.Once
	value *regexp.Regexp
}

// compiled returns the compiled expression, which is the same in each call.
func (p *lazyPattern) compiled(expression string) *regexp.Regexp {
	p.once.Do(func() { p.value = regexp.MustCompile(expression) })
	return p.value
}

var hostname, creditCard, durationParts, timeOfDay lazyPattern

func makeFormats() map[string]func(text string) bool {
	matches := func(pattern string) func(text string) bool { return regexp.MustCompile(pattern).MatchString }
	isSSN := matches(`^\d{3}[- ]?\d{2}[- ]?\d{4}$`)
	const channel = `\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*`
	return map[string]func(text string) bool{
		"bsonobjectid": func(text string) bool { b, err := hex.DecodeString(text); return err == nil && len(b) == 12 },
		"uri":          func(text string) bool { _, err := url.ParseRequestURI(text); return err == nil },
		"email":        func(text string) bool { a, err := mail.ParseAddress(text); return err == nil && a.Address != "" },
		"hostname":     isHostname,
		"ipv4":         func(text string) bool { return parseIP(text) != nil && strings.Contains(text, ".") },
		"ipv6":         func(text string) bool { return net.ParseIP(text) != nil && strings.Contains(text, ":") },
		"cidr":         isCIDR,
		"mac":          func(text string) bool { _, err := net.ParseMAC(text); return err == nil },
		"uuid":         matches(`(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$`),
		"uuid3":        matches(`(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$`),
		"uuid4":        matches(`(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$`),
		"uuid5":        matches(`(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$`),
		"isbn":         func(text string) bool { return isISBN10(text) || isISBN13(text) },
		"isbn10":       isISBN10,
		"isbn13":       isISBN13,
		"creditcard":   isCreditCard,
		"ssn":          func(text string) bool { return len(text) == 11 && isSSN(text) },
		"hexcolor":     matches(`^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$`),
		"rgbcolor":     matches(`^rgb\(` + channel + "," + channel + "," + channel + `\)$`),
		"byte":         isBase64,
		"password":     func(string) bool { return true },
		"date":         func(text string) bool { _, err := time.Parse(time.DateOnly, text); return err == nil },
		"duration":     isDuration,
		"datetime":     isDateTime,
		"k8sshortname": func(text string) bool { return len(text) <= 63 && validation.IsDNSLabel(text) },
		"k8slongname":  matches(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`),
	}
}

// fitsFormat reports whether a text has a format.
func fitsFormat(format, text string) bool {
	fits := formats()[strings.ReplaceAll(format, "-", "")]
	return fits == nil || fits(text) && (format != "k8s-long-name" || len(text) <= 253)
}

// UnknownFormats returns the formats in a schema that are not checked, in the order of the schemas.
func UnknownFormats(s map[string]any) (unknown []string) {
	n := node(s)
	if format := n.text("format"); format != "" && !KnownFormat(n.text("type"), format) {
		unknown = append(unknown, format)
	}
	n.children(func(child node) string {
		unknown = append(unknown, UnknownFormats(child)...)
		return ""
	})
	return unknown
}

// KnownFormat reports whether API servers check a format of values of a type, which is "" for any.
func KnownFormat(typ, format string) bool {
	switch typ {
	case "", "string":
		return formats()[strings.ReplaceAll(format, "-", "")] != nil
	case "integer":
		return format == "int32" || format == "int64"
	case "number":
		return format == "float" || format == "double"
	}
	return false
}

// hostnameLetter matches the characters of hostnames, except dashes and dots.
const hostnameLetter = `[a-zA-Z0-9\p{S}\p{L}]`

const (
	hostnameLabel   = hostnameLetter + `([a-zA-Z0-9-\p{S}\p{L}]{0,61}` + hostnameLetter + `)?`
	hostnamePattern = `^(` + hostnameLetter + `-?` + hostnameLetter + `{0,62}|(` + hostnameLabel + `\.)+[a-zA-Z\p{L}]{2,63})$`
)

func isHostname(text string) bool {
	long := func(label string) bool { return len(label) > 63 }
	return len(text) <= 255 && hostname.compiled(hostnamePattern).MatchString(text) && !slices.ContainsFunc(strings.Split(text, "."), long)
}

// parseIP parses an address whose numbers may have leading zeros.
func parseIP(text string) net.IP {
	if !strings.Contains(text, ":") {
		parts := strings.Split(text, ".")
		for i, part := range parts {
			if len(part) > 1 && len(strings.Trim(part, "0123456789")) == 0 {
				parts[i] = strings.TrimLeft(part[:len(part)-1], "0") + part[len(part)-1:]
			}
		}
		text = strings.Join(parts, ".")
	}
	return net.ParseIP(text)
}

func isCIDR(text string) bool {
	address, bits, ok := strings.Cut(text, "/")
	ip := parseIP(address)
	if !ok || ip == nil {
		return false
	}
	most := 128
	if !strings.Contains(address, ":") {
		most = 32
	}
	n, err := strconv.Atoi(bits)
	return err == nil && n >= 0 && n <= most && strings.Trim(bits, "0123456789") == ""
}

// withoutSpaces returns a number without spaces and dashes.
func withoutSpaces(text string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\n\f\r-", r) {
			return -1
		}
		return r
	}, text)
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

func isISBN10(text string) bool {
	text = withoutSpaces(text)
	if len(text) != 10 || !isDigits(text[:9]) || text[9] != 'X' && !isDigits(text[9:]) {
		return false
	}
	sum := 0
	for i := range 10 {
		digit := int(text[i] - '0')
		if text[i] == 'X' {
			digit = 10
		}
		sum += (i + 1) * digit
	}
	return sum%11 == 0
}

func isISBN13(text string) bool {
	text = withoutSpaces(text)
	if len(text) != 13 || !isDigits(text) {
		return false
	}
	sum := 0
	for i := range 13 {
		sum += int(text[i]-'0') * (1 + 2*(i%2))
	}
	return sum%10 == 0
}

const creditCardPattern = `^(4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11})$`

func isCreditCard(text string) bool {
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, text)
	sum := 0
	for i := range len(digits) {
		digit := int(digits[len(digits)-1-i] - '0')
		if digit *= 1 + i%2; digit > 9 {
			digit -= 9
		}
		sum += digit
	}
	return creditCard.compiled(creditCardPattern).MatchString(digits) && sum%10 == 0
}

func isBase64(text string) bool {
	_, err := base64.StdEncoding.DecodeString(text)
	return err == nil && text != "" && !strings.ContainsAny(text, "\r\n")
}

// isDuration reports whether a text is a Go duration, or one such as "2 days".
func isDuration(text string) bool {
	if _, err := time.ParseDuration(text); err == nil {
		return true
	}
	found := false
	for _, part := range durationParts.compiled(`(\d+)\s*([A-Za-zµ]+)`).FindAllStringSubmatch(text, -1) {
		if _, err := strconv.Atoi(part[1]); err != nil {
			return false
		}
		unit := strings.ToLower(part[2])
		short := slices.Contains([]string{"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"}, unit)
		long := slices.ContainsFunc([]string{"nano", "micro", "milli", "sec", "min", "hour", "day", "week"}, func(word string) bool { return strings.HasPrefix(unit, word) })
		found = found || short || long
	}
	return found
}

func isDateTime(text string) bool {
	parts := strings.Split(strings.ToLower(text), "t")
	if len(parts) < 2 {
		return false
	}
	if _, err := time.Parse(time.DateOnly, parts[0]); err != nil {
		return false
	}
	m := timeOfDay.compiled(`^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$`).FindStringSubmatch(parts[1])
	return m != nil && m[1] <= "23" && m[2] <= "59" && m[3] <= "59"
}
