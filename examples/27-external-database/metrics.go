package main

import (
	"net/http"
	"strconv"

	"github.com/kopf-go/kopf"
)

var requests = kopf.NewCounter("database_service_requests_total", "Requests to the database service.", "method", "code")

// counted counts the requests of an HTTP client.
type counted struct{ http.RoundTripper }

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	code := "none"
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
	}
	requests.Add(1, r.Method, code)
	return response, err
}
