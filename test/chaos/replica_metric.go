package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"example.com/transactional-outbox/test/servicelog"
)

// metric returns the value of a metric without labels.
func (r *replica) metric(ctx context.Context, name string) (float64, error) {
	line, err := r.logged(ctx, servicelog.AnsweringOperators)
	if err != nil {
		return 0, err
	}
	text, err := get(ctx, "http://"+line.Address+"/metrics")
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.name, err)
	}
	for l := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(l), name+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", r.name, name)
}

// get returns the body of an answer.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
