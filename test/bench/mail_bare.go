package main

import (
	"context"
	"fmt"
	"net/smtp"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/chaos/mailserver"
)

const (
	// mailConnections is the default of MAIL_CONNECTIONS.
	mailConnections = 8
	// mailDelay is how long the mail server takes for each e-mail.
	mailDelay = 5 * time.Millisecond
)

// bareMailRun sends e-mails over as many connections as the service has, and does nothing else.
func (b *bench) bareMailRun(ctx context.Context) error {
	server, err := mailserver.Open()
	if err != nil {
		return err
	}
	defer server.Close()
	server.SetFault(mailserver.Fault{RcptDelay: mailDelay})
	all, _ := errgroup.WithContext(ctx)
	var taken atomic.Int64
	began := time.Now()
	for range mailConnections {
		all.Go(func() error {
			client, err := smtp.Dial(server.Address())
			if err != nil {
				return err
			}
			defer client.Close()
			for i := taken.Add(1); i <= int64(b.Messages); i = taken.Add(1) {
				if err := sendBare(client, i); err != nil {
					return err
				}
			}
			return client.Quit()
		})
	}
	err = all.Wait()
	b.samples.add("bare_mail_per_s", float64(b.Messages)/time.Since(began).Seconds())
	return err
}

// bareMail is about as long as an e-mail of the service.
var bareMail = "From: shop@example.com\r\nTo: ada@example.com\r\nMessage-ID: <%d@example.com>\r\nSubject: x\r\n\r\n" +
	strings.Repeat(strings.Repeat("x", 70)+"\r\n", 40)

func sendBare(client *smtp.Client, i int64) error {
	if err := client.Mail("shop@example.com"); err != nil {
		return err
	}
	if err := client.Rcpt("ada@example.com"); err != nil {
		return err
	}
	body, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(body, bareMail, i); err != nil {
		return err
	}
	return body.Close()
}
