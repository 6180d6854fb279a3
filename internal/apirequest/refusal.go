package apirequest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// Refusal is what an answer says that is an error.
type Refusal struct {
	Reason, Message, Name string
	Causes                []Cause
	RetryAfter            time.Duration // what the server asks for, zero for nothing
}

// Cause is one of the causes. Its fields are those of kopf.ErrorCause, so that one is converted to the other.
type Cause struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Field   string `json:"field,omitempty"`
}

// ReadRefusal reads an answer that is an error: a Status, or any text.
func ReadRefusal(resp *http.Response) Refusal {
	r := Refusal{Reason: http.StatusText(resp.StatusCode)}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what has come is better than nothing
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
