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
)

// mailbox knows how many e-mails went out, by the ids of their messages: what stands
// before the @ of a Message-ID.
type mailbox interface {
	letters(ctx context.Context) (map[string]int, error)
}

const (
	mailpitURL = "http://127.0.0.1:8025"
	serviceLog = ".stack/notification-service.log"
)

// openMailbox returns where e-mails arrive: in Mailpit, or without a mail server in
// notification-service's log.
func openMailbox(mode string) (mailbox, error) {
	if mode == "compose" {
		return mailpit{url: mailpitURL}, nil
	}
	if os.Getenv("SMTP_URL") != "" {
		return nil, errors.New("with SMTP_URL set, e-mails go to where nobody can count them: unset it, and make demo")
	}
	info, err := os.Stat(serviceLog)
	if err != nil {
		return nil, err
	}
	return logged{file: serviceLog, from: info.Size()}, nil
}

// mailpit is the mail server of docker-compose.yml.
type mailpit struct{ url string }

// most is more than an experiment makes, so that the newest ones are all of them.
const most = 200

func (m mailpit) letters(ctx context.Context) (map[string]int, error) {
	var answer struct{ Messages []struct{ MessageID string } }
	body, err := get(ctx, fmt.Sprintf("%s/api/v1/messages?limit=%d", m.url, most))
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil {
		return nil, fmt.Errorf("asking Mailpit: %w", err)
	}
	count := map[string]int{}
	for _, letter := range answer.Messages {
		count[beforeAt(letter.MessageID)]++
	}
	return count, nil
}

// logged are the e-mails of a service without a mail server.
type logged struct {
	file string
	from int64 // where this run's part of the log begins
}

func (l logged) letters(context.Context) (map[string]int, error) {
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
			EmailID string `json:"email_id"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && strings.HasPrefix(line.Message, "e-mail written to the log") {
			count[beforeAt(line.EmailID)]++
		}
	}
	return count, lines.Err()
}

func beforeAt(messageID string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(messageID, "<"), "@")
	return id
}

// get returns the body of a page.
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
