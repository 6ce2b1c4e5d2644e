package httpapi_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// orderView is all that a client sees of an order.
type orderView struct {
	ID         uuid.UUID `json:"id"`
	CustomerID uuid.UUID `json:"customer_id"`
	ProductID  string    `json:"product_id"`
	Quantity   int       `json:"quantity"`
	Amount     int64     `json:"amount"`
	Currency   string    `json:"currency"`
	Status     string    `json:"status"`
	CreatedAt  time.Time `json:"created_at"`
}

type eventView struct {
	ID          uuid.UUID  `json:"id"`
	EventKey    string     `json:"event_key"`
	Status      string     `json:"status"`
	RetryCount  int        `json:"retry_count"`
	CreatedAt   time.Time  `json:"created_at"`
	PublishedAt *time.Time `json:"published_at"`
	FailureCode *string    `json:"failure_code"`
}

type historyView struct {
	Order  orderView   `json:"order"`
	Events []eventView `json:"events"`
}

func (b fixture) place(body string) orderView {
	b.Helper()
	var placed struct {
		Order orderView `json:"order"`
	}
	b.post(body).into(b.T, http.StatusCreated, &placed)
	return placed.Order
}

const oneMug = `{"product_id":"sku123","quantity":1}`

// TestAnOrderIsPlacedWithItsEvent: its Location leads to both.
func TestAnOrderIsPlacedWithItsEvent(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.place(oneMug) // another one, which must not show
	const customer = "0f1e2d3c-4b5a-4678-9abc-def012345678"
	posted := b.post(`{"product_id":"sku124","quantity":3,"customer_id":"` + customer + `","customer_email":"ada@example.com"}`)
	var placed struct {
		Order orderView `json:"order"`
	}
	posted.into(t, http.StatusCreated, &placed)
	want := orderView{
		ID: placed.Order.ID, CustomerID: uuid.MustParse(customer), ProductID: "sku124", Quantity: 3,
		Amount: 3750, Currency: "GBP", Status: "pending", CreatedAt: placed.Order.CreatedAt,
	}
	if placed.Order != want || want.ID.Version() != 7 || want.CreatedAt.IsZero() {
		t.Errorf("placed %+v, want %+v with an id of version 7 and a time", placed.Order, want)
	}

	var found historyView
	b.get(posted.header.Get("Location")).into(t, http.StatusOK, &found)
	if found.Order != placed.Order || len(found.Events) != 1 {
		t.Fatalf("found %+v, want the order and one event", found)
	}
	event := found.Events[0]
	wantEvent := eventView{ID: event.ID, EventKey: "order.created", Status: "pending", CreatedAt: event.CreatedAt}
	if event != wantEvent || event.ID == uuid.Nil || event.CreatedAt.IsZero() {
		t.Errorf("the event is %+v, want %+v", event, wantEvent)
	}
	var told string // no answer of the API has it
	b.read(&told, "SELECT cast(payload AS json) ->> 'customer_email' FROM outbox_status ORDER BY seq DESC LIMIT 1")
	if told != "ada@example.com" {
		t.Errorf("the event tells the address %q", told)
	}
}

func TestAnAmountThatFitsNoNumberIsTheQuantitysFault(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.exec("INSERT INTO products VALUES ('yacht', 'Yacht', ?, 'GBP')", int64(math.MaxInt64))
	b.post(`{"product_id":"yacht","quantity":2}`).isProblem(t, http.StatusUnprocessableEntity, "quantity")
	if n := b.countRows(); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	if placed := b.place(`{"product_id":"yacht","quantity":1}`); placed.Amount != math.MaxInt64 {
		t.Errorf("one costs %d", placed.Amount)
	}
}

func TestAnOrderThatIsNotThereIsNotFound(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := []string{
		"0f1e2d3c-4b5a-4678-9abc-def012345678", "00000000-0000-0000-0000-000000000000",
		"x", "1", "'", "%00", "%ff", "a%2Fb", "%7B0f1e2d3c%7D", strings.Repeat("9", 5000),
	}
	placed := b.place(oneMug).ID.String()
	// One name for each order: the other ways to write an id name none.
	ids = append(ids, strings.ReplaceAll(placed, "-", ""), "urn:uuid:"+placed, "%7B"+placed+"%7D")
	for _, id := range ids {
		b.get("/orders/"+id).isProblem(t, http.StatusNotFound)
	}
}

func TestTheCatalogueIsListedByID(t *testing.T) {
	t.Parallel()
	type product struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		Price    int64  `json:"unit_price"`
		Currency string `json:"currency"`
	}
	var list struct {
		Products []product `json:"products"`
	}
	newFixture(t).get("/products").into(t, http.StatusOK, &list)
	want := []product{
		{"sku123", "Ceramic mug", 2999, "GBP"},
		{"sku124", "Linen tea towel", 1250, "GBP"},
		{"sku125", "Walnut tray", 6400, "GBP"},
	}
	if fmt.Sprint(list.Products) != fmt.Sprint(want) {
		t.Errorf("the catalogue is %v, want %v", list.Products, want)
	}
}

func TestTheEventContinuesTheTraceOfItsRequest(t *testing.T) {
	t.Parallel()
	const (
		trace  = "4bf92f3577b34da6a3ce929d0e0e4736"
		caller = "00f067aa0ba902b7"
	)
	tests := map[string]struct {
		header []string
		want   string // how the stored traceparent starts
	}{
		"a caller's trace":    {[]string{"Traceparent", "00-" + trace + "-" + caller + "-01"}, "00-" + trace + "-"},
		"a request without":   {nil, "00-"},
		"a malformed one":     {[]string{"Traceparent", "00-" + trace + "-0-01' OR 1=1"}, "00-"},
		"one that is not hex": {[]string{"Traceparent", "00-" + strings.Repeat("z", 32) + "-" + caller + "-01"}, "00-"},
	}
	b := newFixture(t)
	for name, test := range tests {
		header := append([]string{"Content-Type", "application/json"}, test.header...)
		if got := b.send(http.MethodPost, "/orders", oneMug, header...); got.status != http.StatusCreated {
			t.Fatalf("%s: status %d: %s", name, got.status, got.body)
		}
		var stored string
		b.read(&stored, "SELECT traceparent FROM outbox_events ORDER BY seq DESC LIMIT 1")
		if !strings.HasPrefix(stored, test.want) || len(stored) != 55 {
			t.Errorf("%s: stored %q, want 55 characters that start with %q", name, stored, test.want)
		}
		if strings.Contains(stored, caller) {
			t.Errorf("%s: the parent in %q is the caller's span, not the request's", name, stored)
		}
	}
}
