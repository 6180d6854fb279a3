package apirequest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// Refusal is the content of an error response.
type Refusal struct {
	Reason, Message, Name string
	Causes                []Cause
	RetryAfter            time.Duration // as requested by the server; 0 for no request
}

// Cause is a cause in a Status. It is convertible to kopf.ErrorCause.
type Cause struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Field   string `json:"field,omitempty"`
}

// ReadRefusal reads an error response: a Status, or any text.
func ReadRefusal(resp *http.Response) Refusal {
	r := Refusal{Reason: http.StatusText(resp.StatusCode)}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // a truncated response is better than none
	var status struct {
		Kind, Message, Reason string
		Details               struct {
			Name              string  `json:"name"`
			Causes            []Cause `json:"causes"`
			RetryAfterSeconds float64 `json:"retryAfterSeconds"`
		}
	}
	if json.Unmarshal(data, &status) == nil && status.Kind == "Status" {
		r.Message, r.Causes, r.Name = status.Message, status.Details.Causes, status.Details.Name
		if status.Reason != "" {
			r.Reason = status.Reason
		}
		r.RetryAfter = RetryAfterDuration(status.Details.RetryAfterSeconds)
	} else if text := strings.TrimSpace(string(data)); len(text) > MaxErrorText {
		r.Message = strings.ToValidUTF8(text[:MaxErrorText], "") + "..."
	} else {
		r.Message = text
	}
	if wish := RetryAfter(resp.Header.Get("Retry-After")); wish > 0 {
		r.RetryAfter = wish
	}
	return r
}
