package httpapi

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/mail"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"example.com/transactional-outbox/order-service/internal/order"
)

// orderRequest has every field that a client may send. Any other field, such as the price, is
// refused.
type orderRequest struct {
	ProductID     string  `json:"product_id"`
	Quantity      int     `json:"quantity"`
	CustomerID    *string `json:"customer_id"`
	CustomerEmail *string `json:"customer_email"`
}

var (
	productIDPattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	emailDomainPattern = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$`)
	emailLocalPattern  = regexp.MustCompile("^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}$")
)

// readOrder reads and checks a request for an order. The problem lists all wrong fields.
func readOrder(r *http.Request) (order.Request, *problemJSON) {
	key, bad := idempotencyKey(r)
	if bad != nil {
		return order.Request{}, bad
	}
	var body orderRequest
	if bad := decode(r, &body); bad != nil {
		return order.Request{}, bad
	}
	var errs []fieldError
	wrong := func(field, detail string) { errs = append(errs, fieldError{Field: field, Detail: detail}) }

	request := order.Request{ProductID: body.ProductID, Quantity: body.Quantity, IdempotencyKey: key}
	if !productIDPattern.MatchString(body.ProductID) {
		wrong("product_id", "must be 1 to 64 letters, digits, dots, hyphens or underscores, and start with a letter or digit")
	}
	if body.Quantity < 1 || body.Quantity > order.MaxQuantity {
		wrong("quantity", fmt.Sprintf("must be from 1 to %d", order.MaxQuantity))
	}
	if body.CustomerID != nil {
		id, ok := parseID(*body.CustomerID)
		if !ok {
			wrong("customer_id", "must be a UUID such as 0f1e2d3c-4b5a-4678-9abc-def012345678")
		}
		request.CustomerID = id
	}
	if body.CustomerEmail != nil {
		if !isEmail(*body.CustomerEmail) {
			wrong("customer_email", "must be a plain e-mail address such as ada@example.com")
		}
		request.CustomerEmail = *body.CustomerEmail
	}
	if errs != nil {
		bad := problem(http.StatusUnprocessableEntity, "this order cannot be placed", errs...)
		return order.Request{}, &bad
	}
	return request, nil
}

var keyPattern = regexp.MustCompile(`^[!-~]{1,255}$`)

// idempotencyKey returns the key, or "" if there is none.
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
func idempotencyKey(r *http.Request) (string, *problemJSON) {
	keys := r.Header.Values("Idempotency-Key")
	switch {
	case len(keys) == 0:
		return "", nil
	case len(keys) == 1 && keyPattern.MatchString(keys[0]):
		return keys[0], nil
	default:
		bad := problem(http.StatusBadRequest, "a header is not valid",
			fieldError{Field: "Idempotency-Key", Detail: "must be one key of 1 to 255 visible ASCII characters, such as a UUID"})
		return "", &bad
	}
}

// isEmail is stricter than the standard library's parser, which accepts quoted names, address
// literals and domains of any length.
func isEmail(s string) bool {
	address, err := mail.ParseAddress(s)
	if err != nil || address.Address != s || len(s) > 254 {
		return false
	}
	local, domain, _ := strings.Cut(s, "@")
	return emailLocalPattern.MatchString(local) && emailDomainPattern.MatchString(domain)
}

// decode reads exactly one JSON object into v. Unknown, duplicate and case-variant
// names, invalid UTF-8 and trailing data are errors.
func decode(r *http.Request, v any) *problemJSON {
	if !isJSON(r.Header) {
		bad := problem(http.StatusUnsupportedMediaType, "the body must be application/json in UTF-8; set Content-Type to say so")
		return &bad
	}
	if isEncoded(r.Header) {
		bad := problem(http.StatusUnsupportedMediaType, "the body must not be compressed or encoded; leave out Content-Encoding")
		return &bad
	}
	err := json.UnmarshalRead(r.Body, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	bad := bodyProblem(err)
	return &bad
}

func isJSON(header http.Header) bool {
	kinds := header.Values("Content-Type")
	if len(kinds) != 1 {
		return false
	}
	kind, parameters, err := mime.ParseMediaType(kinds[0])
	charset, given := parameters["charset"]
	return err == nil && kind == "application/json" && (!given || strings.EqualFold(charset, "utf-8"))
}

func isEncoded(header http.Header) bool {
	return slices.ContainsFunc(header.Values("Content-Encoding"), func(coding string) bool {
		return !strings.EqualFold(coding, "identity")
	})
}

func bodyProblem(err error) problemJSON {
	var (
		tooLarge  *http.MaxBytesError
		semantic  *json.SemanticError
		syntactic *jsontext.SyntacticError
	)
	switch {
	case errors.As(err, &tooLarge):
		return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxBody))
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return fieldProblem(semantic.JSONPointer, "is not a field of this request")
	case errors.As(err, &semantic):
		return fieldProblem(semantic.JSONPointer, "has the wrong type")
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return fieldProblem(syntactic.JSONPointer, "appears twice")
	case errors.As(err, &syntactic):
		return problem(http.StatusBadRequest, fmt.Sprintf("the body is not one JSON object: error at byte %d", syntactic.ByteOffset))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem(http.StatusRequestTimeout, "the body did not arrive in time")
	default:
		return problem(http.StatusBadRequest, "the body ended too early")
	}
}

func fieldProblem(pointer jsontext.Pointer, detail string) problemJSON {
	if pointer == "" { // the body itself
		return problem(http.StatusBadRequest, "the body must be one JSON object")
	}
	return problem(http.StatusBadRequest, "the body is not valid", fieldError{Field: pointer.LastToken(), Detail: detail})
}
