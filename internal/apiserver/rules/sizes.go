package rules

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// checkSize checks a value by a word about numbers, lengths, labels, or selectors.
func (n *node) checkSize(w *word, detail string) {
	switch w.name {
	case "nonnegative":
		n.checkRange(0, -1, "must be greater than or equal to 0")
	case "positive":
		n.checkRange(1, -1, "must be greater than zero")
	case "port":
		n.checkRange(1, 65535, "must be between 1 and 65535, inclusive")
	case "id":
		n.checkRange(0, 1<<31-1, "must be between 0 and 2147483647, inclusive")
	case "mode":
		n.checkRange(0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive")
	case "range":
		least, most := w.number(0), w.number(1)
		if detail == "" {
			detail = fmt.Sprintf("must be between %d and %d, inclusive", least, most)
		}
		n.checkRange(least, most, detail)
	case "min":
		n.checkRange(w.number(0), -1, detail)
	case "max":
		n.checkRange(-1<<62, w.number(0), detail)
	case "bytes":
		if most := w.number(0); int64(len(n.text())) > most {
			n.report(field.TooLong(n.path, nil, fmt.Sprintf("may not be more than %d bytes", most)))
		}
	case "items":
		n.checkItems(w.number(0))
	case "labels":
		n.checkLabels()
	case "annotations":
		n.checkAnnotations()
	case "selector":
		n.checkSelector()
	case "portornum":
		n.checkPortOrName()
	case "intorpercent":
		n.checkIntOrPercent()
	case "max100":
		if percent, ok := n.percent(); ok && percent > 100 {
			n.invalid("must not be greater than 100%")
		}
	case "amount":
		if q, ok := n.quantity(); ok && q.Sign() < 0 {
			n.report(field.Invalid(n.path, q.String(), "must be greater than or equal to 0"))
		}
	default:
		panic("there is no word " + w.name)
	}
}

func (w *word) number(i int) int64 {
	number, err := strconv.ParseInt(w.args[i], 10, 64)
	if err != nil {
		panic(err) // the table is wrong
	}
	return number
}

// checkRange reports a number that is too small or too large. A negative maximum means none.
func (n *node) checkRange(least, most int64, detail string) {
	if v := n.number(); v < least || most >= 0 && v > most {
		shown := n.value
		if shown == nil {
			shown = json.Number("0")
		}
		n.report(field.Invalid(n.path, shown, detail))
	}
}

func (n *node) checkItems(most int64) {
	list, _ := n.value.([]any)
	if int64(len(list)) <= most {
		return
	}
	n.report(field.TooMany(n.path, len(list), int(most)))
}

func (n *node) checkLabels() {
	labels := rawjson.AsMap(n.value)
	for _, key := range rawjson.SortedKeys(labels) {
		for _, detail := range QualifiedName(key) {
			n.report(field.Invalid(n.path, key, detail))
		}
		value, _ := labels[key].(string)
		for _, detail := range LabelValue(value) {
			n.report(field.Invalid(n.path, value, detail))
		}
	}
}

func (n *node) checkAnnotations() {
	const most = 256 << 10
	annotations := rawjson.AsMap(n.value)
	size := 0
	for _, key := range rawjson.SortedKeys(annotations) {
		for _, detail := range QualifiedName(strings.ToLower(key)) {
			n.report(field.Invalid(n.path, key, detail))
		}
		value, _ := annotations[key].(string)
		size += len(key) + len(value)
	}
	if size > most {
		n.report(field.TooLong(n.path, nil, fmt.Sprintf("may not be more than %d bytes", most)))
	}
}

// checkPortOrName checks a port that is a number or a name.
func (n *node) checkPortOrName() {
	name, ok := n.value.(string)
	if !ok {
		n.checkRange(1, 65535, "must be between 1 and 65535, inclusive")
		return
	}
	for _, detail := range portName(name) {
		n.invalid(detail)
	}
}

func (n *node) checkIntOrPercent() {
	if _, ok := n.value.(string); ok {
		if _, ok := n.percent(); !ok {
			n.invalid(percentRule)
		}
		return
	}
	n.checkRange(0, -1, "must be greater than or equal to 0")
}

// percent returns the number in a percentage.
func (n *node) percent() (int64, bool) {
	number, ok := strings.CutSuffix(n.text(), "%")
	if !ok || !consistsOf(number, digits) {
		return 0, false
	}
	percent, err := strconv.ParseInt(number, 10, 64)
	return percent, err == nil
}

// isZero reports whether a number or a percentage is zero. Other texts count as zero.
func (n *node) isZero() bool {
	if percent, ok := n.percent(); ok {
		return percent == 0
	}
	if text, ok := n.value.(string); ok {
		number, err := strconv.Atoi(text)
		return err != nil || number == 0
	}
	return n.number() == 0
}
