package notification

import (
	"embed"
	"fmt"
	htmltemplate "html/template"
	"strings"
	"text/template"
	"unicode"
)

// The layout says how an e-mail looks, and a file for each event what it says. Both
// bodies are made of the same sentences.
//
//go:embed templates
var templates embed.FS

// letter is the templates of one event.
type letter struct {
	text *template.Template
	html *htmltemplate.Template
}

var letters = func() map[string]letter {
	all := map[string]letter{}
	for _, key := range Keys {
		sentences := "templates/" + key + ".tmpl"
		all[key] = letter{
			text: template.Must(template.ParseFS(templates, "templates/layout.txt", sentences)),
			html: htmltemplate.Must(htmltemplate.ParseFS(templates, "templates/layout.html", sentences)),
		}
	}
	return all
}()

// particulars are what an e-mail tells of an order.
type particulars struct {
	Order, Product string
	Quantity       int
	Total          string
}

// write returns the subject and both bodies.
func (l letter) write(p particulars) (subject, text, html string, err error) {
	var s, t, h strings.Builder
	if err := l.text.ExecuteTemplate(&s, "subject", p); err != nil {
		return "", "", "", fmt.Errorf("writing the subject: %w", err)
	}
	if err := l.text.ExecuteTemplate(&t, "layout.txt", p); err != nil {
		return "", "", "", fmt.Errorf("writing the text: %w", err)
	}
	if err := l.html.ExecuteTemplate(&h, "layout.html", p); err != nil {
		return "", "", "", fmt.Errorf("writing the HTML: %w", err)
	}
	return s.String(), t.String(), h.String(), nil
}

// maxWord is the longest product that fits into a subject, in characters.
const maxWord = 80

// plain makes one line of s that looks like what it is: without line breaks, which
// could pretend to be more of the e-mail, and without marks that turn the direction
// of what follows.
func plain(s string) string {
	line := []rune(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s))
	if len(line) > maxWord {
		line = append(line[:maxWord-1], '…')
	}
	return string(line)
}

var symbols = map[string]string{"GBP": "£", "EUR": "€", "USD": "$"}

// price writes minor units as people do. The currencies of the catalogue have two
// decimals.
func price(minor int64, currency string) string {
	symbol, known := symbols[currency]
	if !known {
		symbol = plain(currency) + " "
	}
	return fmt.Sprintf("%s%s.%02d", symbol, thousands(minor/100), minor%100)
}

func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
