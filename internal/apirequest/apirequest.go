// Package apirequest validates the parts of requests to API servers, and reads their responses within limits.
package apirequest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// PortOf returns the port of a URL, or the default of its scheme.
type listInsteadKey struct{}

// WithListInstead returns a context for a read of an object that the caller lists instead if it may not get it.
func WithListInstead(ctx context.Context) context.Context {
	return context.WithValue(ctx, listInsteadKey{}, true)
}

// ListsInstead reports whether the context of a request is one of [WithListInstead].
func ListsInstead(ctx context.Context) bool { return ctx.Value(listInsteadKey{}) != nil }

func PortOf(u *url.URL) string {
	if port := u.Port(); port != "" || u.Scheme != "http" {
		return cmp.Or(port, "443")
	}
	return "80"
}

// MaxErrorText is the maximum length of stored error responses that are not JSON, such as the pages of proxies.
const MaxErrorText = 256

// RetryAfter parses a Retry-After header: seconds, or a date (RFC 9110, section 10.2.3).
func RetryAfter(header string) time.Duration {
	if n, err := strconv.ParseFloat(header, 64); err == nil {
		return RetryAfterDuration(n)
	}
	if t, err := http.ParseTime(header); err == nil {
		return RetryAfterDuration(time.Until(t).Seconds())
	}
	return 0
}

// MaxRetryAfter is the maximum delay that a server can request.
const MaxRetryAfter = 10 * time.Minute

// RetryAfterDuration returns a requested delay, up to the maximum.
func RetryAfterDuration(seconds float64) time.Duration {
	if !(seconds > 0) { // or NaN
		return 0
	}
	return time.Duration(min(seconds, MaxRetryAfter.Seconds()) * float64(time.Second))
}

// WholeSeconds rounds a duration up to seconds, the unit of the API. It rounds down only where the result would overflow. It is never negative.
func WholeSeconds(d time.Duration) time.Duration {
	whole := max(d, 0).Truncate(time.Second)
	if whole < d && whole <= math.MaxInt64-time.Second {
		whole += time.Second
	}
	return whole
}

// ErrInterrupted reports that a response ended after a part of it was processed.
var ErrInterrupted = errors.New("the answer broke off")

// Unreadable wraps a JSON error in [rawjson.ErrUnreadable], unless it is a connection error.
func Unreadable(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errtype.As(err, &syntax) || errtype.As(err, &kind) {
		return fmt.Errorf("%w: %w", rawjson.ErrUnreadable, err)
	}
	return err
}

// Confirm checks that an unused response comes from an API server, and is not the page of a proxy that has not forwarded the request.
func Confirm(answer io.Reader) error {
	var head [64]byte
	n, err := io.ReadFull(answer, head[:])
	if text := bytes.TrimSpace(head[:n]); len(text) > 0 && text[0] != '{' {
		return fmt.Errorf("%w: want an object in JSON, not %.20q", rawjson.ErrUnreadable, text)
	}
	if err != io.EOF && err != io.ErrUnexpectedEOF { // it is shorter, or empty
		return err
	}
	return nil
}

// RefusesCertificate reports whether the server has rejected the client certificate in the TLS handshake, for example an expired one. Other servers respond
// with 401 instead. In both cases, the request was not processed.
func RefusesCertificate(err error) bool {
	var remote *net.OpError // package crypto/tls does not export the type of these alerts
	return errtype.As(err, &remote) && remote.Op == "remote error" && strings.Contains(remote.Err.Error(), "certificate")
}

// PlainError redacts the URL in an error of net/http.
func PlainError(err error) error {
	if e := (*url.Error)(nil); errtype.As(err, &e) {
		return &url.Error{Op: e.Op, URL: RedactURL(e.URL), Err: e.Err}
	}
	return err
}

// Bounded limits the size of a response that is stored as a whole. A compressed response can become very large.
type Bounded struct {
	Answer io.Reader
	Left   int // remaining bytes
}

// Read returns [rawjson.ErrTooLarge] beyond the limit.
func (b *Bounded) Read(p []byte) (int, error) {
	if b.Left <= 0 {
		return 0, rawjson.ErrTooLarge
	}
	n, err := b.Answer.Read(p[:min(len(p), b.Left)])
	b.Left -= n
	return n, err
}

// fieldValue escapes values in field selectors.
var fieldValue = strings.NewReplacer(`\`, `\\`, `,`, `\,`, `=`, `\=`)

// NameSelector returns the field selector for the objects with a name.
func NameSelector(name string) string { return nameSelector + fieldValue.Replace(name) }

const nameSelector = "metadata.name="

// SelectedName returns the name in a field selector, or "" if the selector is not one of [NameSelector].
func SelectedName(selector string) string {
	escaped, ok := strings.CutPrefix(selector, nameSelector)
	name := strings.NewReplacer(`\\`, `\`, `\,`, `,`, `\=`, `=`).Replace(escaped)
	if !ok || fieldValue.Replace(name) != escaped { // such as with a second requirement
		return ""
	}
	return name
}

// CheckSegment returns an error if a name would change the path that contains it. API servers reject such names, too.
func CheckSegment(what, name string) error {
	if name == "." || name == ".." || strings.ContainsAny(name, "/%") {
		return fmt.Errorf("invalid name %q of %s: want none of \".\" and \"..\", and no \"/\" or \"%%\" in it", name, what)
	}
	return nil
}

// CheckPath returns an error if a path contains segments that lead elsewhere. No name in Kubernetes needs them.
func CheckPath(path string) error {
	if !strings.ContainsAny(path, "%?#") && !strings.Contains(path, "/.") && !strings.Contains(path, "//") {
		return nil // the common case
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		name, err := url.PathUnescape(part)
		if err != nil || name == "" || strings.ContainsAny(part, "?#") || CheckSegment("", name) != nil {
			return fmt.Errorf("invalid path %q of a request: want no %q in it", path, part)
		}
	}
	return nil
}

// CheckType returns an error without an apiVersion or a kind. For example, the TypeMeta of objects is empty after a read with client-go.
func CheckType(apiVersion, kind string, object any) error {
	if apiVersion != "" && kind != "" {
		return nil
	}
	remedy := ""
	if t := reflect.TypeOf(object); t != nil {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Struct {
			if _, typed := t.FieldByName("TypeMeta"); typed {
				remedy = ": set its TypeMeta"
			}
		}
	}
	return fmt.Errorf("invalid apiVersion %q and kind %q of a %T: want both, such as \"v1\" and \"Pod\"%s", apiVersion, kind, object, remedy)
}

// CheckTarget returns an error if an object cannot be decoded into the value.
func CheckTarget(into any) error {
	v := reflect.ValueOf(into)
	switch {
	case into == nil: // the caller needs no response
	case v.Kind() != reflect.Pointer && v.Kind() != reflect.Map:
		return fmt.Errorf("a %T cannot take an object: want a pointer or a map", into)
	case v.IsNil():
		return fmt.Errorf("a %T that is nil cannot take an object", into)
	}
	return nil
}

// RedactURL returns a URL without its user, password, query and fragment, any of which
// can be a secret. It hides a text in which they cannot be found for certain.
func RedactURL(address string) string {
	u, err := url.Parse(address)
	users := 0
	if err == nil && u.User != nil {
		users = 1
	}
	switch {
	case strings.Count(address, "@") > users, err != nil && strings.ContainsAny(address, "?#"):
		return "[redacted]"
	case err != nil:
		return address
	}
	plain := url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return plain.String()
}

// LeadsTo returns an error if a URL does not belong to the server.
func LeadsTo(server string, target *url.URL) error {
	u, err := url.Parse(server)
	if err != nil {
		return fmt.Errorf("invalid server %q: want a URL", RedactURL(server))
	}
	if u.Scheme != target.Scheme || !strings.EqualFold(u.Hostname(), target.Hostname()) || PortOf(u) != PortOf(target) {
		return fmt.Errorf("the credentials are for %s://%s, not for %s://%s", u.Scheme, u.Host, target.Scheme, target.Host)
	}
	return nil
}

// IsMistyped reports whether a message says that an applied configuration has an unknown field, or a field of another type. The API server responds with 500,
// as if it had failed itself.
func IsMistyped(message string) bool {
	return strings.HasPrefix(message, "failed to create typed patch object (") || strings.HasPrefix(message, "failed to convert new object (")
}

// IsDenial reports whether a message is that of an admission webhook or a policy that has rejected the request. The API server adds the text around it.
func IsDenial(message string) bool {
	before, _, webhook := strings.Cut(message, `" denied the request`)
	if webhook {
		before, webhook = strings.CutPrefix(before, `admission webhook "`)
		return webhook && !strings.ContainsAny(before, " \"")
	}
	object, text, policy := strings.Cut(message, " is forbidden: ")
	return policy && strings.Count(object, `"`) == 2 && strings.HasSuffix(object, `"`) &&
		(strings.HasPrefix(text, "ValidatingAdmissionPolicy '") || strings.HasPrefix(text, "policy '")) && strings.Contains(text, " denied request: ")
}

// Changes reports whether a request changes anything on the API server. Reviews of permissions and tokens are created, but not stored.
func Changes(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	base, rest, _ := strings.Cut(path, "/apis/") // the base path belongs to a proxy before the server; paths proxied by the API server have "/api/" before it
	review := strings.HasPrefix(rest, "authorization.k8s.io/") || strings.HasPrefix(rest, "authentication.k8s.io/")
	return !review || strings.Contains(base, "/api/")
}

// Warnings returns the texts of the warnings in a response, which API servers send in one header each.
func Warnings(header http.Header) (all []string) {
	for _, value := range header.Values("Warning") {
		_, text, _ := strings.Cut(value, `"`) // after the code and the agent
		var b strings.Builder
		for i := 0; i < len(text) && text[i] != '"'; i++ {
			if text[i] == '\\' && i+1 < len(text) {
				i++
			}
			b.WriteByte(text[i])
		}
		all = append(all, b.String())
	}
	return all
}
