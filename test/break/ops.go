package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// ops are the addresses with health and metrics.
var ops = map[string]string{
	orderService:        "http://127.0.0.1:4100",
	notificationService: "http://127.0.0.1:4101",
}

func ready(ctx context.Context, service string) error {
	_, err := get(ctx, ops[service]+"/readyz")
	return err
}

// metric returns the value of a series without labels.
func metric(ctx context.Context, service, name string) (int, error) {
	page, err := get(ctx, ops[service]+"/metrics")
	if err != nil {
		return 0, err
	}
	return valueOf(name, string(page))
}

func valueOf(name, page string) (int, error) {
	for line := range strings.Lines(page) {
		if series, value, _ := strings.Cut(strings.TrimSpace(line), " "); series == name {
			number, err := strconv.ParseFloat(value, 64)
			return int(number), err
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}
