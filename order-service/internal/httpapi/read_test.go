package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// maxBody is the limit that the API documents, in bytes.
const maxBody = 64 << 10

// orderWith is an order of one mug with more fields.
func orderWith(more string) string { return strings.TrimSuffix(oneMug, "}") + "," + more + "}" }

// orderOfQuantity is an order of that many mugs.
func orderOfQuantity(quantity string) string {
	return `{"product_id":"sku123","quantity":` + quantity + `}`
}

// spaced pads body with spaces to length.
func spaced(body string, length int) string { return body + strings.Repeat(" ", length-len(body)) }

func nested(open, within, shut string, depth int) string {
	return strings.Repeat(open, depth) + within + strings.Repeat(shut, depth)
}

func TestABodyThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	const bad, tooLarge = http.StatusBadRequest, http.StatusRequestEntityTooLarge
	testRefusals(t, map[string]refusal{
		"nothing":                  {"", bad, nil},
		"an array":                 {"[" + oneMug + "]", bad, nil},
		"a form":                   {"product_id=sku123&quantity=1", bad, nil},
		"a comma too many":         {`{"product_id":"sku123","quantity":1,}`, bad, nil},
		"a byte order mark":        {"\ufeff" + oneMug, bad, nil},
		"trailing text":            {oneMug + "x", bad, nil},
		"invalid UTF-8 in a value": {"{\"product_id\":\"sku\xff\",\"quantity\":1}", bad, nil},
		"half a surrogate pair":    {`{"product_id":"\ud800","quantity":1}`, bad, nil},
		"a control character":      {"{\"product_id\":\"sku\x01\",\"quantity\":1}", bad, nil},
		"an unknown field":         {orderWith(`"coupon":"x"`), bad, []string{"coupon"}},
		"a price":                  {orderWith(`"price":1`), bad, []string{"price"}},
		"a name without a letter":  {orderWith(`"":1`), bad, []string{""}},
		"a name like a path":       {orderWith(`"a/b~c":1`), bad, []string{"a/b~c"}},
		"a field given twice":      {orderWith(`"quantity":2`), bad, []string{"quantity"}},
		"another case":             {`{"Product_ID":"sku123","quantity":1}`, bad, []string{"Product_ID"}},
		"a quantity in quotes":     {orderOfQuantity(`"1"`), bad, []string{"quantity"}},
		"one and a half":           {orderOfQuantity("1.5"), bad, []string{"quantity"}},
		"more than 64 bits":        {orderOfQuantity("9223372036854775808"), bad, []string{"quantity"}},
		"a quantity in an object":  {orderOfQuantity(`{"is":1}`), bad, []string{"quantity"}},
		"a product without quotes": {`{"product_id":123,"quantity":1}`, bad, []string{"product_id"}},
		"an e-mail without quotes": {orderWith(`"customer_email":true`), bad, []string{"customer_email"}},
		"a deep product":           {`{"product_id":` + nested("[", "", "]", 30_000) + `}`, bad, nil},
		"a deep unknown field":     {nested(`{"a":`, "1", "}", 10_000), bad, []string{"a"}},
		"a long string":            {`{"product_id":"` + strings.Repeat("a", maxBody) + `","quantity":1}`, tooLarge, nil},
		"one byte too many":        {spaced(oneMug, maxBody+1), tooLarge, nil},
	})
}

func TestAnOrderThatCannotBePlacedIsRefused(t *testing.T) {
	t.Parallel()
	product := func(id string) string { return fmt.Sprintf(`{"product_id":%q,"quantity":1}`, id) }
	customer := func(id string) string { return orderWith(`"customer_id":"` + id + `"`) }
	email := func(address string) string { return orderWith(fmt.Sprintf(`"customer_email":%q`, address)) }
	const refused = http.StatusUnprocessableEntity

	testRefusals(t, map[string]refusal{
		"null":                          {"null", refused, []string{"product_id", "quantity"}},
		"an empty object":               {"{}", refused, []string{"product_id", "quantity"}},
		"everything wrong":              {`{"product_id":"","quantity":0,"customer_id":"","customer_email":""}`, refused, []string{"product_id", "quantity", "customer_id", "customer_email"}},
		"no quantity":                   {`{"product_id":"sku123"}`, refused, []string{"quantity"}},
		"null of a product":             {orderOfQuantity("null"), refused, []string{"quantity"}},
		"less than none":                {orderOfQuantity("-1"), refused, []string{"quantity"}},
		"too many":                      {orderOfQuantity("10001"), refused, []string{"quantity"}},
		"a product of no catalogue":     {product("sku999"), refused, []string{"product_id"}},
		"a product with a line break":   {product("sku123\n"), refused, []string{"product_id"}},
		"a product with NUL":            {`{"product_id":"sku\u0000","quantity":1}`, refused, []string{"product_id"}},
		"a product that is SQL":         {product("' OR 1=1 --"), refused, []string{"product_id"}},
		"a product of 65 letters":       {product(strings.Repeat("a", 65)), refused, []string{"product_id"}},
		"a customer that is no UUID":    {customer("ada"), refused, []string{"customer_id"}},
		"the nil UUID":                  {customer("00000000-0000-0000-0000-000000000000"), refused, []string{"customer_id"}},
		"a UUID without hyphens":        {customer("0f1e2d3c4b5a46789abcdef012345678"), refused, []string{"customer_id"}},
		"a UUID as a URN":               {customer("urn:uuid:0f1e2d3c-4b5a-4678-9abc-def012345678"), refused, []string{"customer_id"}},
		"an e-mail without @":           {email("ada"), refused, []string{"customer_email"}},
		"an e-mail with a name":         {email("Ada <ada@example.com>"), refused, []string{"customer_email"}},
		"two e-mails":                   {email("ada@example.com,bob@example.com"), refused, []string{"customer_email"}},
		"an e-mail with a header":       {email("ada@example.com\r\nBcc: bob@example.com"), refused, []string{"customer_email"}},
		"an e-mail with a quoted name":  {email(`"ada lovelace"@example.com`), refused, []string{"customer_email"}},
		"an e-mail to an address":       {email("ada@[127.0.0.1]"), refused, []string{"customer_email"}},
		"an e-mail with an empty label": {email("ada@example..com"), refused, []string{"customer_email"}},
		"an e-mail beyond ASCII":        {email("ada@exämple.com"), refused, []string{"customer_email"}},
		"a name of 65 letters":          {email(strings.Repeat("a", 65) + "@example.com"), refused, []string{"customer_email"}},
		"an e-mail of 255 letters":      {email("ada@" + strings.Repeat("a.", 125) + "a"), refused, []string{"customer_email"}},
	})
}

type refusal struct {
	body   string
	status int
	fields []string // exactly the fields that the problem must name
}

// testRefusals runs the cases one after the other, so that it sees which case has written a row.
func testRefusals(t *testing.T, tests map[string]refusal) {
	t.Helper()
	shared := newFixture(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := shared.in(t)
			before := b.countRows()
			b.post(test.body).isProblem(t, test.status, test.fields...)
			if n := b.countRows() - before; n != 0 {
				t.Errorf("%d rows were written", n)
			}
		})
	}
}

func TestTheBodyMustBePlainJSON(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	for _, header := range [][]string{
		{},
		{"Content-Type", ""},
		{"Content-Type", "text/plain"},
		{"Content-Type", "application/x-www-form-urlencoded"},
		{"Content-Type", "application/jsonp"},
		{"Content-Type", "application/json; charset"},
		{"Content-Type", "application/json; charset=iso-8859-1"},
		{"Content-Type", "application/json; charset=utf-16"},
		{"Content-Type", "application/json", "Content-Type", "text/plain"},
		{"Content-Type", "application/json", "Content-Encoding", "gzip"},
		{"Content-Type", "application/json", "Content-Encoding", "identity, br"},
		{"Content-Type", "application/json", "Content-Encoding", "identity", "Content-Encoding", "deflate"},
	} {
		got := b.send(http.MethodPost, "/orders", oneMug, header...)
		got.isProblem(t, http.StatusUnsupportedMediaType)
		if accepted := got.header.Get("Accept-Encoding"); accepted != "identity" {
			t.Errorf("%q: Accept-Encoding is %q", header, accepted)
		}
	}
	if n := b.countRows(); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	plain := []string{"Content-Type", `application/json; charset="UTF-8"`, "Content-Encoding", "Identity"}
	if got := b.send(http.MethodPost, "/orders", oneMug, plain...); got.status != http.StatusCreated {
		t.Errorf("%q: %d %s", plain, got.status, got.body)
	}
}

func TestValuesAtTheLimitsAreAccepted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ body, kind string }{
		"64 KiB":                    {spaced(oneMug, maxBody), "application/json"},
		"another way to write JSON": {"\t{ \"quantity\" : 1,\r\n\"product\\u005fid\":\"sku123\" }\n", "application/json"},
		"a charset":                 {oneMug, "Application/JSON; charset=utf-8"},
		"the most of a product":     {orderOfQuantity("10000"), "application/json"},
		"an e-mail of 254 letters":  {orderWith(`"customer_email":"ada@` + strings.Repeat("a.", 124) + `aa"`), "application/json"},
		"odd letters in an e-mail":  {orderWith(`"customer_email":"o'brien+tag_1!#$%&*/=?^{|}~-@x-1.example"`), "application/json"},
		"capitals in a UUID":        {orderWith(`"customer_id":"0F1E2D3C-4B5A-4678-9ABC-DEF012345678"`), "application/json"},
	}
	b := newFixture(t)
	for name, test := range tests {
		if got := b.send(http.MethodPost, "/orders", test.body, "Content-Type", test.kind); got.status != http.StatusCreated {
			t.Errorf("%s: status %d: %s", name, got.status, got.body)
		}
	}
}
