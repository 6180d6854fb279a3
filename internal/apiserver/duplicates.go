package apiserver

import (
	"bytes"
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// duplicate is a key that occurs more than once in a JSON object.
type duplicate struct {
	path string // of the field
	key  string
	line int
}

// duplicatesIn returns the duplicate keys in a JSON document, in its order, each path once.
func duplicatesIn(body []byte) []duplicate {
	f := &duplicateFinder{body: body, paths: make(map[string]bool), line: 1}
	f.value(0)
	return f.found
}

// duplicateFinder scans a document once.
type duplicateFinder struct {
	body  []byte
	found []duplicate
	paths map[string]bool // of those found
	path  []byte          // of the current value: a string for each value would be as long as the value is deep
	line  int             // of an index of the body
	at    int             // that index
	steps int             // the number of scanned values and keys
}

// maxDuplicates is the maximum number of reported duplicates, as in kube-apiserver.
const maxDuplicates = 100

// value scans the value at an index of the body, and returns the index after it. It reports false to stop: there are enough duplicates, or the body
// is invalid JSON, which is refused elsewhere.
func (f *duplicateFinder) value(i int) (end int, more bool) {
	f.steps++
	if i = rawjson.SkipSpace(f.body, i); i >= len(f.body) {
		return i, false
	}
	switch f.body[i] {
	case '{':
		return f.object(i)
	case '[':
		return f.list(i)
	}
	end, err := rawjson.SkipValue(f.body, i)
	return end, err == nil
}

func (f *duplicateFinder) list(i int) (end int, more bool) {
	own := len(f.path)
	i = rawjson.SkipSpace(f.body, i+1)
	for n := 0; i < len(f.body) && f.body[i] != ']'; n++ {
		f.path = append(strconv.AppendInt(append(f.path, '['), int64(n), 10), ']')
		if i, more = f.value(i); !more {
			return i, false
		}
		f.path = f.path[:own]
		if i = rawjson.SkipSpace(f.body, i); i < len(f.body) && f.body[i] == ',' {
			i = rawjson.SkipSpace(f.body, i+1)
		}
	}
	return i + 1, i < len(f.body)
}

func (f *duplicateFinder) object(i int) (end int, more bool) {
	own := len(f.path)
	seen := make(map[string]bool) // true for the reported ones
	members := rawjson.MemberReader{Data: f.body, At: i}
	for members.Next() {
		key := rawjson.Unquote(members.Key.Of(f.body))
		if own > 0 {
			f.path = append(f.path, '.')
		}
		f.path = append(f.path, key...)
		added, again := seen[key]
		if again && !added {
			f.add(key, members.Key.From)
		}
		seen[key] = again
		if members.At, more = f.value(members.At); !more || len(f.found) == maxDuplicates {
			return members.At, false
		}
		f.path = f.path[:own]
	}
	return members.At, members.Err == nil
}

// add adds the key at an index of the body, which is the last one of the path. The indices only grow.
func (f *duplicateFinder) add(key string, at int) {
	if f.paths[string(f.path)] || len(f.found) >= maxDuplicates {
		return
	}
	path := string(f.path)
	f.line += bytes.Count(f.body[f.at:at], []byte("\n"))
	f.at, f.paths[path] = at, true
	f.found = append(f.found, duplicate{path, key, f.line})
}

// duplicates returns the messages of strict decoding about duplicate keys in the body of a request, except in unknown fields of built-in kinds.
func (a *apiRequest) duplicates(unknown []string) (texts []string) {
	if a.raw == nil {
		return nil
	}
	media, _, _ := mime.ParseMediaType(a.raw.Header.Get("Content-Type"))
	if strings.Contains(media, "yaml") || strings.Contains(media, "protobuf") {
		return nil
	}
	prefix := ""
	if media == "application/json-patch+json" {
		prefix = "json patch "
	}
	for _, d := range duplicatesIn(a.body) {
		if a.kind.crd != nil || !slices.Contains(unknown, d.path) {
			texts = append(texts, fmt.Sprintf("%sduplicate field %q", prefix, d.path))
		}
	}
	return texts
}

// checkDuplicates refuses a manifest in JSON with a duplicate key. The reader of YAML refuses it itself.
func checkDuplicates(data []byte) error {
	if i := rawjson.SkipSpace(data, 0); i == len(data) || data[i] != '{' {
		return nil
	}
	if all := duplicatesIn(data); len(all) > 0 {
		return fmt.Errorf("line %d: the key %q is given twice, at %s", all[0].line, all[0].key, all[0].path)
	}
	return nil
}

// checkAppliedDuplicates refuses duplicate keys in an applied configuration in JSON, or warns of them, depending on fieldValidation.
func (a *apiRequest) checkAppliedDuplicates() error {
	body := bytes.TrimSpace(a.body)
	mode := a.query.Get("fieldValidation")
	if len(body) == 0 || body[0] != '{' || mode == "Ignore" {
		return nil
	}
	var texts []string
	for _, d := range duplicatesIn(a.body) {
		texts = append(texts, fmt.Sprintf("line %d: key %q already set in map", d.line, d.key))
	}
	if len(texts) > 0 && mode == "Strict" {
		return apierrors.BadRequest("error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  %s", strings.Join(texts, "\n  "))
	}
	a.warnings = append(a.warnings, texts...)
	return nil
}
