package page_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/page"
)

// failed is a service's pages about failed events.
type failed struct {
	page   *page.Page
	events []string
}

// register adds the pages to the frame.
func (f failed) register() {
	f.page.Section("/failed", "Failed events")
	f.page.Handle("GET /failed", page.Read, f.list)
	f.page.Handle("POST /failed/preview", page.Operate, f.preview)
	f.page.Handle("POST /failed/decide", page.Operate, f.decide)
}

func (f failed) list(_ context.Context, r *page.Request) (page.Result, error) {
	table := page.Table{Caption: "Failed events", Columns: []string{"Event"}}
	for _, id := range f.events {
		table.Rows = append(table.Rows, page.Row{ID: id, Cells: []page.Value{page.CodeLink(id, "/failed/"+id)}})
	}
	if r.User.May(page.Operate) {
		table.Choose = &page.Choose{Post: "/failed/preview", Actions: []page.Action{{Name: "replay", Text: "Replay"}}}
	}
	return page.Show("Failed events", table, page.Pager{Note: "all rows"}), nil
}

func (f failed) preview(_ context.Context, r *page.Request) (page.Result, error) {
	ids := r.PostForm["id"]
	if len(ids) == 0 {
		return page.Result{}, page.Errorf(http.StatusUnprocessableEntity, "The field id is empty: select at least one event.")
	}
	preview := page.Preview{Action: r.PostFormValue("selected"), Filter: "ids", Items: ids, Matching: len(ids)}
	form, err := f.page.Preview(r, preview, page.Confirm{Post: "/failed/decide", Verb: "Replay", Noun: "event", Cancel: "/failed"})
	if err != nil {
		return page.Result{}, err
	}
	return page.Show("Replay these events?", form), nil
}

func (f failed) decide(ctx context.Context, r *page.Request) (page.Result, error) {
	return f.page.Decide(ctx, r, func(_ context.Context, _ uuid.UUID, p page.Preview, report func(int)) error {
		fmt.Println(p.Action, p.Items)
		report(len(p.Items))
		return nil
	})
}

func Example() {
	p, err := page.New(page.Config{Service: "order-service", Demo: true})
	if err != nil {
		panic(err)
	}
	failed{p, []string{"a", "b"}}.register()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()

	server := httptest.NewServer(p)
	response, err := http.Get(server.URL + "/failed")
	if err != nil {
		panic(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		panic(err)
	}
	_ = response.Body.Close()
	fmt.Println(response.StatusCode, strings.Count(string(body), `type="checkbox"`))

	server.Close()
	stop()
	if err := <-ended; err != nil {
		panic(err)
	}
	// Output: 200 2
}
