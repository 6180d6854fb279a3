// Package websites has what both operators of websites have in common: what is in their children.
package websites

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Page returns the page of a website, which has a size, as its config map has it: about 2 KB with all else that is stored there.
func Page(size int64) string {
	return fmt.Sprintf("<h1>A page of size %d</h1>\n", size) + paragraphs
}

var paragraphs = strings.Repeat("<p>A paragraph of a page, which has some text at the length that is usual for such a thing.</p>\n", 12)

// Pages returns how many config maps each object wants instead of a website, 0 if it wants a website.
func Pages() int {
	n, _ := strconv.Atoi(os.Getenv("BENCH_PAGES"))
	return n
}
