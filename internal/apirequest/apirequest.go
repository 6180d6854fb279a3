// Package apirequest checks what requests to API servers are made of, and reads what is answered to them within limits.
package apirequest

import (
	"bytes"
	"cmp"
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

	"github.com/kopf-go/kopf/internal/rawjson"
)

// PortOf returns the port of an address, with the default of its scheme.
func PortOf(u *url.URL) string {
	if port := u.Port(); port != "" || u.Scheme != "http" {
		return cmp.Or(port, "443")
	}
	return "80"
}

// MaxErrorText is how much is kept of answers that are not JSON, such as the pages of proxies.
const MaxErrorText = 256

// RetryAfter reads the header of that name: seconds, or a date (RFC 9110, section 10.2.3).
func RetryAfter(header string) time.Duration {
	if n, err := strconv.ParseFloat(header, 64); err == nil {
		return RetryAfterDuration(n)
	}
	if t, err := http.ParseTime(header); err == nil {
		return RetryAfterDuration(time.Until(t).Seconds())
	}
	return 0
}

// MaxRetryAfter is the longest pause that a server can impose.
const MaxRetryAfter = 10 * time.Minute

// RetryAfterDuration is a pause that a server asks for, within reason.
func RetryAfterDuration(seconds float64) time.Duration {
	if !(seconds > 0) { // NaN, too
		return 0
	}
	return time.Duration(min(seconds, MaxRetryAfter.Seconds()) * float64(time.Second))
}

// WholeSeconds rounds a duration up to seconds, in which the API counts; down only where the seconds would not fit into a duration. It is never negative.
func WholeSeconds(d time.Duration) time.Duration {
	whole := max(d, 0).Truncate(time.Second)
	if whole < d && whole <= math.MaxInt64-time.Second {
		whole += time.Second
	}
	return whole
}

// ErrInterrupted means that an answer broke off after some of it was processed.
var ErrInterrupted = errors.New("the answer broke off")

// Unreadable marks an error of JSON as [rawjson.ErrUnreadable], unless it is one of the connection.
func Unreadable(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) {
		return fmt.Errorf("%w: %w", rawjson.ErrUnreadable, err)
	}
	return err
}

// Confirm checks that an answer that is not needed is one of an API server, and not the page of a proxy that has kept the request.
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

// RefusesCertificate reports whether the server has broken off the TLS handshake because of the client's certificate, such as an expired one.
// Servers that leave this to their authentication answer 401 instead. No request was carried out in either case.
func RefusesCertificate(err error) bool {
	var remote *net.OpError // package crypto/tls does not export the type of these alerts
	return errors.As(err, &remote) && remote.Op == "remote error" && strings.Contains(remote.Err.Error(), "certificate")
}

// PlainError takes the query off the address in an error of net/http, for it says nothing to people.
func PlainError(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		if u, bad := url.Parse(e.URL); bad == nil {
			u.RawQuery, u.User = "", nil
			return &url.Error{Op: e.Op, URL: u.String(), Err: e.Err}
		}
	}
	return err
}

// Bounded reads an answer that is kept as a whole, up to a limit: it can have been compressed, and become very much larger.
type Bounded struct {
	Answer io.Reader
	Left   int // how many bytes may be read yet
}

// Read fails with [rawjson.ErrTooLarge] beyond the limit.
func (b *Bounded) Read(p []byte) (int, error) {
	if b.Left <= 0 {
		return 0, rawjson.ErrTooLarge
	}
	n, err := b.Answer.Read(p[:min(len(p), b.Left)])
	b.Left -= n
	return n, err
}

// FieldValue escapes values in field selectors.
var FieldValue = strings.NewReplacer(`\`, `\\`, `,`, `\,`, `=`, `\=`)

// CheckSegment fails if a name would lead elsewhere as a part of a path. API servers refuse such names too.
func CheckSegment(what, name string) error {
	if name == "." || name == ".." || strings.ContainsAny(name, "/%") {
		return fmt.Errorf("invalid name %q of %s: want none of \".\" and \"..\", and no \"/\" or \"%%\" in it", name, what)
	}
	return nil
}

// CheckPath fails if a part of an address would lead elsewhere, wherever it comes from. No name in Kubernetes needs that.
func CheckPath(path string) error {
	if !strings.ContainsAny(path, "%?#") && !strings.Contains(path, "/.") && !strings.Contains(path, "//") {
		return nil // as nearly all
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		name, err := url.PathUnescape(part)
		if err != nil || name == "" || strings.ContainsAny(part, "?#") || CheckSegment("", name) != nil {
			return fmt.Errorf("invalid path %q of a request: want no %q in it", path, part)
		}
	}
	return nil
}

// CheckType fails if there is no apiVersion or no kind of an object, such as of a struct of client-go whose TypeMeta is empty, as what client-go
// reads is.
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

// CheckTarget fails if an object cannot be stored in the value.
func CheckTarget(into any) error {
	v := reflect.ValueOf(into)
	switch {
	case into == nil: // which is for those who need no answer
	case v.Kind() != reflect.Pointer && v.Kind() != reflect.Map:
		return fmt.Errorf("a %T cannot take an object: want a pointer or a map", into)
	case v.IsNil():
		return fmt.Errorf("a %T that is nil cannot take an object", into)
	}
	return nil
}

// RedactURL returns an address without its password. The error of one that cannot be read would show it.
func RedactURL(address string) string {
	u, err := url.Parse(address)
	switch {
	case err == nil:
		return u.Redacted()
	case strings.Contains(address, "@"):
		return "[redacted]"
	}
	return address
}

// LeadsTo fails if the address is not one of the server.
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

// IsMistyped reports whether the message of an answer is that of an applied configuration with a field which the kind does not have, or which is of another type. The API server
// answers with 500, as if it were to blame.
func IsMistyped(message string) bool {
	return strings.HasPrefix(message, "failed to create typed patch object (") || strings.HasPrefix(message, "failed to convert new object (")
}

// IsDenial reports whether the message of an answer is that of an admission webhook or a policy which has refused the request. The text around
// theirs is that of the API server.
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

// Changes reports whether a request changes anything on the API server. Reviews of rights and tokens are created, but not stored.
func Changes(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	base, rest, _ := strings.Cut(path, "/apis/") // the base is that of a server behind a proxy; what is proxied by the API server has "/api/" before
	review := strings.HasPrefix(rest, "authorization.k8s.io/") || strings.HasPrefix(rest, "authentication.k8s.io/")
	return !review || strings.Contains(base, "/api/")
}
