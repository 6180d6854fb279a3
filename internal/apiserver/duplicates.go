package apiserver

import (
	"bytes"
	"fmt"
	"mime"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// duplicate is a key that a JSON object has more than once.
type duplicate struct {
	path string // of the field
	key  string
	line int
}

// duplicatesIn returns the keys that are more than once in objects of a JSON document, in its order, each path once.
func duplicatesIn(body []byte) []duplicate {
	f := &duplicateFinder{body: body, paths: make(map[string]bool), line: 1}
	f.value(0, "")
	return f.found
}

type duplicateFinder struct {
	body  []byte
	found []duplicate
	paths map[string]bool // of those found
	line  int             // of an index of the body
	at    int             // that index
}

// maxDuplicates is how many duplicates are found at most, as in kube-apiserver.
const maxDuplicates = 100

// value looks for duplicates in the value at an index of the body. What is no JSON is refused elsewhere.
func (f *duplicateFinder) value(i int, at string) {
	if i = rawjson.SkipSpace(f.body, i); i >= len(f.body) {
		return
	}
	switch f.body[i] {
	case '{':
		f.object(i, at)
	case '[':
		i = rawjson.SkipSpace(f.body, i+1)
		for n := 0; i < len(f.body) && f.body[i] != ']'; n++ {
			f.value(i, fmt.Sprintf("%s[%d]", at, n))
			end, err := rawjson.SkipValue(f.body, i)
			if err != nil {
				return
			}
			if i = rawjson.SkipSpace(f.body, end); i < len(f.body) && f.body[i] == ',' {
				i = rawjson.SkipSpace(f.body, i+1)
			}
		}
	}
}

func (f *duplicateFinder) object(i int, at string) {
	seen := make(map[string]bool)
	members := rawjson.MemberReader{Data: f.body, At: i}
	for members.Next() {
		key := rawjson.Unquote(members.Key.Of(f.body))
		path := strings.TrimPrefix(at+"."+key, ".")
		if seen[key] {
			f.add(path, key, members.Key.From)
		}
		seen[key] = true
		f.value(members.At, path)
		end, err := rawjson.SkipValue(f.body, members.At)
		if err != nil {
			return
		}
		members.At = end
	}
}

// add adds the key at an index of the body. The indices only grow.
func (f *duplicateFinder) add(path, key string, at int) {
	if f.paths[path] || len(f.found) >= maxDuplicates {
		return
	}
	f.line += bytes.Count(f.body[f.at:at], []byte("\n"))
	f.at, f.paths[path] = at, true
	f.found = append(f.found, duplicate{path, key, f.line})
}

// duplicates returns what strict decoding says about duplicate keys in the body of a request, apart from those in unknown fields of built-in kinds.
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

// checkDuplicates refuses a manifest in JSON in which a key is given twice. Of YAML, the reader has refused it.
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
