package livepage

import (
	"bytes"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// plainPage returns a state as a page without scripts: a table for each list, and one for everything else.
func plainPage(state []byte) []byte {
	var lists, facts bytes.Buffer
	_ = rawjson.EachMember(state, func(quoted, value []byte) bool { // kopf made it, so it is valid
		name := rawjson.Unquote(quoted)
		if value[0] == '[' {
			lists.WriteString("<h2>" + escaper.Replace(name) + "</h2>\n")
			writeList(&lists, value)
		} else {
			writeRow(&facts, "td", name, cellOf(value))
		}
		return true
	})
	_, style, _ := strings.Cut(page, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	return []byte("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>Operator</title>\n<style>" + style +
		"</style>\n<main>\n<h1>Operator</h1>\n<table>\n" + facts.String() + "</table>\n" + lists.String() + "</main>\n</html>\n")
}

// writeList writes a list of objects as a table, with a column for each member name.
func writeList(b *bytes.Buffer, list []byte) {
	var columns []string
	var rows []map[string]string
	_ = rawjson.EachItem(list, func(item []byte) bool {
		row := make(map[string]string)
		_ = rawjson.EachMember(item, func(quoted, value []byte) bool {
			name := rawjson.Unquote(quoted)
			if row[name] = cellOf(value); !slices.Contains(columns, name) {
				columns = append(columns, name)
			}
			return true
		})
		rows = append(rows, row)
		return true
	})
	if len(rows) == 0 {
		b.WriteString("<p>None.</p>\n")
		return
	}
	b.WriteString("<table>\n<thead>")
	writeRow(b, "th", columns...)
	b.WriteString("</thead>\n")
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, name := range columns {
			cells[i] = row[name]
		}
		writeRow(b, "td", cells...)
	}
	b.WriteString("</table>\n")
}

// cellOf returns a value as text. The text of an object consists of its members.
func cellOf(value []byte) string {
	switch value[0] {
	case '"':
		return rawjson.Unquote(value)
	case '{':
		var parts []string
		_ = rawjson.EachMember(value, func(quoted, value []byte) bool {
			parts = append(parts, rawjson.Unquote(quoted)+": "+cellOf(value))
			return true
		})
		return strings.Join(parts, ", ")
	}
	return string(value)
}

func writeRow(b *bytes.Buffer, element string, cells ...string) {
	b.WriteString("<tr>")
	for _, cell := range cells {
		b.WriteString("<" + element + ">" + escaper.Replace(cell) + "</" + element + ">")
	}
	b.WriteString("</tr>\n")
}

// escaper escapes a text for HTML.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")
