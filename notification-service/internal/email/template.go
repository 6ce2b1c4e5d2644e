package email

import (
	"embed"
	"fmt"
	htmltemplate "html/template"
	"strings"
	"text/template"
	"unicode"

	"example.com/transactional-outbox/internal/crashpoint"
)

// The layout is how an e-mail looks. Each event has a file with its sentences, which both
// bodies use.
//
//go:embed templates
var templates embed.FS

// emailTemplate has the templates of one event.
type emailTemplate struct {
	text *template.Template
	html *htmltemplate.Template
}

var emailTemplates = func() map[string]emailTemplate {
	all := map[string]emailTemplate{}
	for _, key := range Topics {
		sentences := "templates/" + key + ".tmpl"
		all[key] = emailTemplate{
			text: template.Must(template.ParseFS(templates, "templates/layout.txt", sentences)),
			html: htmltemplate.Must(htmltemplate.ParseFS(templates, "templates/layout.html", sentences)),
		}
	}
	return all
}()

// templateData is what an e-mail says about an order.
type templateData struct {
	Order, Product string
	Quantity       int
	Total          string
}

// write returns the subject and both bodies.
func (e emailTemplate) write(p templateData) (subject, text, html string, err error) {
	var s, t, h strings.Builder
	if err := e.text.ExecuteTemplate(&s, "subject", p); err != nil {
		return "", "", "", fmt.Errorf("writing the subject: %w", err)
	}
	crashpoint.At("email.composed")
	if err := e.text.ExecuteTemplate(&t, "layout.txt", p); err != nil {
		return "", "", "", fmt.Errorf("writing the text: %w", err)
	}
	if err := e.html.ExecuteTemplate(&h, "layout.html", p); err != nil {
		return "", "", "", fmt.Errorf("writing the HTML: %w", err)
	}
	return s.String(), t.String(), h.String(), nil
}

// maxProduct is the longest product that fits into a subject, in characters.
const maxProduct = 80

// singleLine makes one line of s. It replaces line breaks, which could look like another part of
// the e-mail, and marks that change the direction of the text after them.
func singleLine(s string) string {
	line := []rune(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s))
	if len(line) > maxProduct {
		line = append(line[:maxProduct-1], '…')
	}
	return string(line)
}

var symbols = map[string]string{"GBP": "£", "EUR": "€", "USD": "$"}

// formatPrice formats minor units for people. All currencies of the catalogue have two
// decimals.
func formatPrice(minor int64, currency string) string {
	symbol, known := symbols[currency]
	if !known {
		symbol = singleLine(currency) + " "
	}
	return fmt.Sprintf("%s%s.%02d", symbol, groupThousands(minor/100), minor%100)
}

func groupThousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", groupThousands(n/1000), n%1000)
}
