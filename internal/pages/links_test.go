package pages

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/kopf-go/kopf"
)

var (
	fences      = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```")
	links       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading     = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	namedAnchor = regexp.MustCompile(`<a id="([^"]+)">`)
	quoted      = regexp.MustCompile("`[^`]*`")
)

// linked returns what a page links to: files by their paths from the folder of this package, with anchors.
func linked(t *testing.T, page string) []string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	prose := quoted.ReplaceAllString(fences.ReplaceAllString(string(data), ""), "")
	for _, m := range links.FindAllStringSubmatch(prose, -1) {
		file, anchor, _ := strings.Cut(m[1], "#")
		switch {
		case strings.Contains(m[1], "://"), strings.HasPrefix(m[1], "mailto:"):
			continue
		case file == "":
			file = page
		default:
			file = filepath.Join(filepath.Dir(page), file)
		}
		all = append(all, filepath.ToSlash(file)+"#"+anchor)
	}
	return all
}

// anchors returns the anchors of a page's headings, as GitHub makes them, and those that the page names.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	counts := make(map[string]int)
	for _, m := range heading.FindAllStringSubmatch(fences.ReplaceAllString(string(data), ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		if n := counts[anchor]; n > 0 {
			all[fmt.Sprintf("%s-%d", anchor, n)] = true
		}
		counts[anchor]++
		all[anchor] = true
	}
	for _, m := range namedAnchor.FindAllStringSubmatch(string(data), -1) {
		all[m[1]] = true
	}
	return all
}

// TestLinks holds that links lead to files and headings that are there.
func TestLinks(t *testing.T) {
	for _, page := range markdown(t) {
		for _, link := range linked(t, page) {
			file, anchor, _ := strings.Cut(link, "#")
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: a link leads nowhere: %v", page, err)
			} else if anchor != "" && !anchors(t, file)[anchor] {
				t.Errorf("%s: there is no heading #%s in %s", page, anchor, file)
			}
		}
	}
}

// TestReach holds that each page of the documentation is in its table of contents, and that the README leads to all other pages, and to each example.
func TestReach(t *testing.T) {
	seen := make(map[string]bool)
	var follow func(page string)
	follow = func(page string) {
		if seen[page] || filepath.Ext(page) != ".md" {
			return
		}
		seen[page] = true
		for _, link := range linked(t, page) {
			file, _, _ := strings.Cut(link, "#")
			follow(file)
		}
	}
	follow(root + "/README.md")
	contents := make(map[string]bool)
	for _, link := range linked(t, root+"/docs/README.md") {
		file, _, _ := strings.Cut(link, "#")
		contents[file] = true
	}
	examples, err := filepath.Glob(root + "/examples/[0-9]*")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	readme := linked(t, root+"/README.md")
	for _, example := range examples {
		if !slices.Contains(readme, filepath.ToSlash(example)+"/main.go#") {
			t.Errorf("the README does not name %s", example)
		}
	}
	for _, page := range markdown(t) {
		page = filepath.ToSlash(page)
		if !seen[page] {
			t.Errorf("nothing in the README leads to %s", page)
		}
		if strings.HasPrefix(page, root+"/docs/") && strings.Count(page, "/") == 3 && page != root+"/docs/README.md" && !contents[page] {
			t.Errorf("docs/README.md does not name %s", page)
		}
	}
}

// TestSettings holds that docs/configuration.md has each setting with its default.
func TestSettings(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs/configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string]string)
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			continue
		}
		if name := strings.Trim(cells[1], " `"); strings.Contains(name, ".") {
			told[name] = strings.Trim(cells[2], " ")
		}
	}
	settings := reflect.ValueOf(kopf.NewSettings()).Elem()
	for i := range settings.NumField() {
		group := settings.Type().Field(i).Name
		for j := range settings.Field(i).NumField() {
			if field := settings.Field(i).Type().Field(j); field.IsExported() {
				checkDefault(t, told, group+"."+field.Name, settings.Field(i).Field(j))
			}
		}
	}
	for name := range told {
		t.Errorf("docs/configuration.md: there is no setting %s", name)
	}
}

// checkDefault checks the default of a setting, or of those in it, and takes them off the list.
func checkDefault(t *testing.T, told map[string]string, name string, v reflect.Value) {
	t.Helper()
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			checkDefault(t, told, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
		return
	}
	if got, want := defaultText(v), told[name]; got != want {
		t.Errorf("docs/configuration.md: the default of %s is %q, not %q", name, got, want)
	}
	delete(told, name)
}

// defaultText is how the documentation writes the default of a setting.
func defaultText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		if x == 0 {
			return "0"
		}
		return strings.NewReplacer("m0s", "m", "h0m", "h").Replace(x.String())
	case []time.Duration:
		var all []string
		for _, d := range x {
			all = append(all, fmt.Sprint(int(d/time.Second)))
		}
		return strings.Join(all, ", ") + " s"
	case string:
		if x == "" {
			return "none"
		}
		return "`" + x + "`"
	case []string:
		if len(x) == 0 {
			return "none"
		}
	case kopf.ProgressStorage, kopf.DiffBaseStorage:
		return "`" + reflect.TypeOf(x).Elem().Name() + "`"
	}
	if (v.Kind() == reflect.Interface || v.Kind() == reflect.Func) && v.IsNil() {
		return "none"
	}
	return fmt.Sprint(v.Interface())
}
