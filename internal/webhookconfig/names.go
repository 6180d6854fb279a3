package webhookconfig

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// Path returns the path of a handler: its id, with the word of the kind if the other kind has a handler with that id, too.
func (k Kind) Path(id string, shared bool) string {
	if shared {
		return k.Word + ":" + id
	}
	return id
}

// IsPath reports whether a path is that of the handler for which [Kind.Path] would be called. The word of the kind is optional in it.
func (k Kind) IsPath(path, id string, shared bool) bool {
	return path == id || path == k.Path(id, true) || path == servicePath(k.Path(id, shared))
}

// names creates valid names for the webhooks of one configuration.
type names struct {
	domain string
	taken  []string // without the domain
}

// add returns a name for the handler with an id, unique in the configuration.
func (n *names) add(id string) string {
	base := Labels(id)
	name := base
	for i := 2; slices.Contains(n.taken, name); i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	n.taken = append(n.taken, name)
	return name + "." + n.domain
}

// CheckNames returns an error about names that API servers would reject: the name of the configurations, which is a part of the webhook names, or a webhook
// name. There is one list of hooks for each configuration.
func CheckNames(name string, configurations ...[]Hook) error {
	if !IsDomain(name) {
		return fmt.Errorf("invalid Settings.Admission.Managed %q: want a domain of parts of at most 63 lower-case letters, digits and '-', as in \"auto.kopf.dev\"", name)
	}
	var errs []error
	for _, hooks := range configurations {
		names := names{domain: name}
		for _, h := range hooks {
			if full := names.add(h.ID); strings.Count(full, ".") < 2 {
				errs = append(errs, fmt.Errorf("invalid name %q of the webhook of the handler %q: want at least three parts: give Settings.Admission.Managed a name with a dot, such as \"%s.kopf.dev\"", full, h.ID, name))
			} else if !IsDomain(full) {
				errs = append(errs, fmt.Errorf("invalid name %q of the webhook of the handler %q: want at most 253 characters, and 63 in each part: give the handler a shorter ID", full, h.ID))
			}
		}
	}
	return errors.Join(errs...)
}

// escapePath returns a path with percent-encoded bytes.
func escapePath(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; strings.IndexByte("_.-~/", c) >= 0 || isAlphanumeric(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// servicePath returns a valid path for a service reference, whose segments must be subdomains (RFC 1123). An invalid segment, such as a function name with a
// capital letter, becomes similar labels with a hash that makes them unique.
func servicePath(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if !IsDomain(segment) {
			hash := fnv.New32a()
			hash.Write([]byte(segment))
			labels := Labels(segment)
			labels = strings.TrimRight(labels[:min(len(labels), 200)], "-.")
			segments[i] = strings.TrimLeft(fmt.Sprintf("%s-%08x", labels, hash.Sum32()), "-")
		}
	}
	return strings.Join(segments, "/")
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// Labels converts an id to labels of a domain name.
func Labels(id string) string {
	var b strings.Builder
	for i := range len(id) {
		switch c := id[i]; {
		case c == '/':
			b.WriteByte('.')
		case c == '_':
			b.WriteByte('-')
		case c == '.' || c == '-' || isAlphanumeric(c):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%02x", c)
		}
	}
	var labels []string
	for label := range strings.SplitSeq(strings.ToLower(b.String()), ".") {
		if label = strings.Trim(label, "-"); label != "" {
			labels = append(labels, label)
		}
	}
	return strings.Join(labels, ".")
}

// IsDomain reports whether a text is a lower-case domain name.
func IsDomain(text string) bool {
	if len(text) > 253 {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		bad := strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
		if bad || len(label) > 63 || cmp.Or(strings.Trim(label, "-"), "?") != label {
			return false
		}
	}
	return true
}
