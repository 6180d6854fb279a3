package structschema

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// ReadQuantity returns the text of a quantity in JSON, which is a string or a number. It returns an error for other values.
func ReadQuantity(data []byte) (text string, err error) {
	if len(data) > 0 && data[0] == '"' {
		err = json.Unmarshal(data, &text)
		return text, err
	}
	var n json.Number
	if err := json.Unmarshal(data, &n); err != nil {
		return "", fmt.Errorf("invalid quantity %s: want a text such as \"500m\", or a number", data)
	}
	return string(n), nil
}

// ReadIntOrString returns the number or the string in JSON, and its arguments for null. It returns an error for other values, and for numbers beyond 32 bits.
func ReadIntOrString(data []byte, number int32, text string) (int32, string, error) {
	if string(data) == "null" {
		return number, text, nil
	}
	if len(data) > 0 && data[0] == '"' {
		text = ""
		err := json.Unmarshal(data, &text)
		return 0, text, err
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil || n < math.MinInt32 || n > math.MaxInt32 {
		return 0, "", fmt.Errorf("invalid value %s: want a text, or a whole number of at most 32 bits", data)
	}
	return int32(n), "", nil
}
