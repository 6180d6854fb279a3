// Package websites has the content of the children for both operators of websites.
package websites

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Page returns the page of a website with a size, for its config map: about 2 KB with all other stored data.
func Page(size int64) string {
	return fmt.Sprintf("<h1>A page of size %d</h1>\n", size) + paragraphs
}

var paragraphs = strings.Repeat("<p>A paragraph of a page, which has some text at the length that is usual for such a thing.</p>\n", 12)

// Pages returns the number of config maps that each object wants instead of a website, 0 if it wants a website.
func Pages() int {
	n, _ := strconv.Atoi(os.Getenv("BENCH_PAGES"))
	return n
}
