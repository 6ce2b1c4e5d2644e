package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	ordersURL    = "http://127.0.0.1:4000/orders"
	orderTimeout = 10 * time.Second
)

// place places orders with the API.
func (l *lab) place(ctx context.Context, n int) error {
	for range n {
		id, err := placeOne(ctx, l.customer)
		if err != nil {
			return err
		}
		l.placed = append(l.placed, id)
	}
	return nil
}

func placeOne(ctx context.Context, customer string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"product_id": "sku123", "quantity": 1, "customer_email": customer})
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, ordersURL, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("broken: POST /orders: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("broken: POST /orders answers %s, want 201: %s", response.Status, answer)
	}
	var placed struct{ Order struct{ ID string } }
	err = json.Unmarshal(answer, &placed)
	return placed.Order.ID, err
}
