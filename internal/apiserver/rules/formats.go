package rules

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/validation"
)

// The messages of kube-apiserver about texts with a wrong format.
const (
	SubdomainRule = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	underlineRule = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')`
	wildcardRule  = `a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	LabelRule     = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	label1035Rule = `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`
	partRule      = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
	qualifiedRule = `a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`
	valueRule     = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`
	configKeyRule = `a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`
	headerRule    = `a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')`
	percentRule   = `a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`
	sysctlRule    = `must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`
	envNameRule   = "a valid environment variable name must consist only of printable ASCII characters other than '='"
)

// formats returns the formats of texts by the words of the table. Each format returns the errors of a text.
func formats() map[string]format {
	return map[string]format{
		"label":       Label,
		"subdomain":   Subdomain,
		"host":        host,
		"qualified":   QualifiedName,
		"labelvalue":  LabelValue,
		"pathsegment": PathSegment,
		"portname":    portName,
		"envname":     envName,
		"configkey":   configKey,
		"sysctl":      sysctl,
		"abspath":     absolutePath,
		"nobacksteps": noBacksteps,
		"relpath":     relativePath,
		"localpath":   localPath,
		"ip":          ip,
		"unusableip":  unusableIP,
		"cidr":        cidr,
		"trimmed":     trimmed,
	}
}

// format returns the errors of a text.
type format func(text string) []string

const (
	digits  = "0123456789"
	small   = "abcdefghijklmnopqrstuvwxyz"
	letters = small + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// consistsOf reports whether a text is not empty and has only the given characters.
func consistsOf(text, characters string) bool {
	return text != "" && strings.Trim(text, characters) == ""
}

func headerName(text string) []string {
	if !consistsOf(text, letters+digits+"-") {
		return []string{headerRule}
	}
	return nil
}

// tooLong returns the error of a text that is too long, nil if it is not.
func tooLong(text string, most int) []string {
	if len(text) > most {
		return []string{fmt.Sprintf("must be no more than %d characters", most)}
	}
	return nil
}

// Label returns the errors of a DNS label.
func Label(text string) []string {
	wrong := tooLong(text, 63)
	switch {
	case validation.IsDNSLabel(text):
	case validation.IsDNSSubdomain(text):
		wrong = append(wrong, "must not contain dots")
	default:
		wrong = append(wrong, LabelRule)
	}
	return wrong
}

// Label1035 returns the errors of a label by RFC 1035.
func Label1035(text string) []string {
	wrong := tooLong(text, 63)
	if !validation.IsDNSLabel(text) || text[0] >= '0' && text[0] <= '9' {
		wrong = append(wrong, label1035Rule)
	}
	return wrong
}

// Subdomain returns the errors of a DNS subdomain.
func Subdomain(text string) []string {
	wrong := tooLong(text, 253)
	if !validation.IsDNSSubdomain(text) {
		wrong = append(wrong, SubdomainRule)
	}
	return wrong
}

func underlined(text string) []string {
	wrong := tooLong(text, 253)
	for _, label := range strings.Split(text, ".") {
		if label = strings.TrimPrefix(label, "_"); !validation.IsName(label, "-_") || strings.ToLower(label) != label {
			return append(wrong, underlineRule)
		}
	}
	return wrong
}

func wildcard(text string) []string {
	wrong := tooLong(text, 253)
	if rest, ok := strings.CutPrefix(text, "*."); !ok || !validation.IsDNSSubdomain(rest) {
		wrong = append(wrong, wildcardRule)
	}
	return wrong
}

// host returns the errors of a host name, whose first label may be a star.
func host(text string) []string {
	if strings.Contains(text, "*") {
		return wildcard(text)
	}
	return Subdomain(text)
}

// QualifiedName returns the errors of a name such as "example.com/name".
func QualifiedName(text string) (wrong []string) {
	prefix, name, ok := strings.Cut(text, "/")
	if !ok {
		name = text
	} else if strings.Contains(name, "/") {
		return []string{qualifiedRule}
	} else if prefix == "" {
		wrong = append(wrong, "prefix part must be non-empty")
	} else {
		if len(prefix) > 253 {
			wrong = append(wrong, "prefix part must be no more than 253 bytes")
		}
		if !validation.IsDNSSubdomain(prefix) {
			wrong = append(wrong, "prefix part "+SubdomainRule)
		}
	}
	if name == "" {
		wrong = append(wrong, "name part must be non-empty")
	} else if len(name) > 63 {
		wrong = append(wrong, "name part must be no more than 63 bytes")
	}
	if !validation.IsName(name, "-_.") {
		wrong = append(wrong, partRule)
	}
	return wrong
}

// LabelValue returns the errors of a label value.
func LabelValue(text string) (wrong []string) {
	if len(text) > 63 {
		wrong = append(wrong, "must be no more than 63 bytes")
	}
	if text != "" && !validation.IsName(text, "-_.") {
		wrong = append(wrong, valueRule)
	}
	return wrong
}

// PathSegment returns the errors of a name in a URL path.
func PathSegment(text string) (wrong []string) {
	if text == "." || text == ".." {
		return []string{fmt.Sprintf("may not be '%s'", text)}
	}
	for _, part := range []string{"/", "%"} {
		if strings.Contains(text, part) {
			wrong = append(wrong, fmt.Sprintf("may not contain '%s'", part))
		}
	}
	return wrong
}

func portName(text string) []string {
	wrong := tooLong(text, 15)
	if !consistsOf(text, small+digits+"-") {
		wrong = append(wrong, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
	}
	if !strings.ContainsAny(text, small) {
		wrong = append(wrong, "must contain at least one letter (a-z)")
	}
	if strings.Contains(text, "--") {
		wrong = append(wrong, "must not contain consecutive hyphens")
	}
	if strings.Trim(text, "-") != text {
		wrong = append(wrong, "must not begin or end with a hyphen")
	}
	return wrong
}

func envName(text string) []string {
	if text == "" {
		return []string{"environment variable name must be non-empty"}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '=' }) {
		return []string{envNameRule}
	}
	return nil
}

func configKey(text string) []string {
	wrong := tooLong(text, 253)
	if !consistsOf(text, letters+digits+"-._") {
		wrong = append(wrong, configKeyRule)
	}
	switch {
	case text == "." || text == "..":
		wrong = append(wrong, fmt.Sprintf("must not be '%s'", text))
	case strings.HasPrefix(text, ".."):
		wrong = append(wrong, "must not start with '..'")
	}
	return wrong
}

func sysctl(text string) []string {
	for _, part := range strings.FieldsFunc(text+".", func(r rune) bool { return r == '.' || r == '/' }) {
		if !validation.IsName(part, "-_") || strings.ToLower(part) != part {
			return []string{sysctlRule}
		}
	}
	if strings.Trim(text, "./") != text || strings.Contains(strings.ReplaceAll(text, "/", "."), "..") || len(text) > 253 {
		return []string{sysctlRule}
	}
	return nil
}

func absolutePath(text string) []string {
	if strings.HasPrefix(text, "/") {
		return nil
	}
	return []string{"must be an absolute path"}
}

func noBacksteps(text string) []string {
	for _, part := range strings.Split(text, "/") {
		if part == ".." {
			return []string{"must not contain '..'"}
		}
	}
	return nil
}

func relativePath(text string) (wrong []string) {
	if strings.HasPrefix(text, "/") {
		wrong = append(wrong, "must be a relative path")
	}
	return append(wrong, noBacksteps(text)...)
}

func localPath(text string) []string {
	wrong := relativePath(text)
	if strings.HasPrefix(text, "..") && !strings.HasPrefix(text, "../") {
		wrong = append(wrong, "must not start with '..'")
	}
	return wrong
}

// sloppyAddr parses an IP address whose octets may have leading zeros, as kube-apiserver does.
func sloppyAddr(text string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return addr, true
	}
	octets := strings.Split(text, ".")
	for i, octet := range octets {
		n, err := strconv.ParseUint(octet, 10, 8)
		if err != nil || len(octets) != 4 {
			return netip.Addr{}, false
		}
		octets[i] = strconv.FormatUint(n, 10)
	}
	addr, err := netip.ParseAddr(strings.Join(octets, "."))
	return addr, err == nil
}

func ip(text string) []string {
	addr, ok := sloppyAddr(text)
	if !ok {
		return []string{"must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"}
	}
	if _, err := netip.ParseAddr(text); err != nil {
		return []string{"must not have leading 0s"}
	}
	if addr.Is4In6() {
		return []string{"must not be an IPv4-mapped IPv6 address"}
	}
	return nil
}

func canonicalIP(text string) []string {
	if wrong := ip(text); len(wrong) > 0 {
		return wrong
	}
	if addr, _ := sloppyAddr(text); addr.String() != text {
		return []string{fmt.Sprintf("must be in canonical form (%q)", addr)}
	}
	return nil
}

// unusableIP returns the errors of an IP address that receives traffic.
func unusableIP(text string) (wrong []string) {
	addr, ok := sloppyAddr(text)
	if !ok {
		return []string{"must be a valid IP address"}
	}
	addr = addr.Unmap()
	if addr.IsUnspecified() {
		wrong = append(wrong, fmt.Sprintf("may not be unspecified (%s)", text))
	}
	if addr.IsLoopback() {
		wrong = append(wrong, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
	}
	if addr.IsLinkLocalUnicast() {
		wrong = append(wrong, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	}
	if addr.IsLinkLocalMulticast() {
		wrong = append(wrong, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
	}
	return wrong
}

// sloppyPrefix parses a CIDR, with addresses as in [sloppyAddr].
func sloppyPrefix(text string) (netip.Prefix, bool) {
	address, length, _ := strings.Cut(text, "/")
	addr, ok := sloppyAddr(address)
	bits, err := strconv.Atoi(length)
	if !ok || err != nil || strings.HasPrefix(length, "+") || strings.HasPrefix(length, "-") || bits > addr.BitLen() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr, bits), true
}

func cidr(text string) []string {
	if _, ok := sloppyPrefix(text); !ok {
		return []string{"must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"}
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return []string{"must not have leading 0s in IP or prefix length"}
	case prefix.Addr().Is4In6():
		return []string{"must not have an IPv4-mapped IPv6 address"}
	case prefix != prefix.Masked():
		return []string{"must not have bits set beyond the prefix length"}
	}
	return nil
}

func trimmed(text string) []string {
	if strings.TrimSpace(text) != text {
		return []string{"must not have leading or trailing whitespace"}
	}
	return nil
}
