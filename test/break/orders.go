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
	body, err := json.Marshal(map[string]any{"product_id": "sku123", "quantity": 1, "customer_email": customer})
	if err != nil {
		return "", err
	}
	answer, err := post(ctx, "", body, http.StatusCreated)
	if err != nil {
		return "", err
	}
	var placed struct{ Order struct{ ID string } }
	err = json.Unmarshal(answer, &placed)
	return placed.Order.ID, err
}

// confirm confirms an order with the API.
func (l *lab) confirm(ctx context.Context, id string) error {
	_, err := post(ctx, "/"+id+"/confirm", nil, http.StatusOK)
	if err == nil {
		l.confirmed++
	}
	return err
}

// post returns the body of the answer.
func post(ctx context.Context, path string, body []byte, want int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, ordersURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("broken: POST /orders%s: %w", path, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != want {
		return nil, fmt.Errorf("broken: POST /orders%s answers %s, want %d: %s", path, response.Status, want, answer)
	}
	return answer, nil
}
