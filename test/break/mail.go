package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"example.com/transactional-outbox/test/servicelog"
)

// mailbox counts the sent e-mails by message id, which is the part of the Message-ID before the @.
type mailbox interface {
	emails(ctx context.Context) (map[string]int, error)
}

const (
	mailpitURL = "http://127.0.0.1:8025"
	serviceLog = ".stack/notification-service.log"
)

// openMailbox returns Mailpit, or without a mail server the log of notification-service.
func openMailbox(mode string) (mailbox, error) {
	if mode == "compose" {
		return mailpit{url: mailpitURL}, nil
	}
	if os.Getenv("SMTP_URL") != "" {
		return nil, errors.New("with SMTP_URL set, this cannot count the e-mails: unset it, and make demo")
	}
	info, err := os.Stat(serviceLog)
	if err != nil {
		return nil, err
	}
	return logged{file: serviceLog, from: info.Size()}, nil
}

// mailpit is the mail server of docker-compose.yml.
type mailpit struct{ url string }

// mailpitLimit is more than one experiment sends, so the newest e-mails include all of them.
const mailpitLimit = 200

func (m mailpit) emails(ctx context.Context) (map[string]int, error) {
	var answer struct{ Messages []struct{ MessageID string } }
	body, err := get(ctx, fmt.Sprintf("%s/api/v1/messages?limit=%d", m.url, mailpitLimit))
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil {
		return nil, fmt.Errorf("asking Mailpit: %w", err)
	}
	count := map[string]int{}
	for _, email := range answer.Messages {
		count[messageID(email.MessageID)]++
	}
	return count, nil
}

// logged reads the e-mails that a service without a mail server logs.
type logged struct {
	file string
	from int64 // size of the log at the start of the experiment
}

func (l logged) emails(context.Context) (map[string]int, error) {
	log, err := os.Open(l.file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	if _, err := log.Seek(l.from, io.SeekStart); err != nil {
		return nil, err
	}
	count := map[string]int{}
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var line struct {
			Message string `json:"msg"`
			ID      string `json:"message_id"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == servicelog.EmailLogged {
			count[line.ID]++
		}
	}
	return count, lines.Err()
}

func messageID(messageID string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(messageID, "<"), "@")
	return id
}

// get returns the body of an HTTP answer.
func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, response.Status)
	}
	return body, err
}
