package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"example.com/transactional-outbox/test/compare/judge"
)

// figure returns the figure that a list names for the fault of the row, or "". An element of the
// list is "fault: figure".
func (r row) figure(list []string) string {
	for _, one := range list {
		if figure, found := strings.CutPrefix(one, r.fault.name+": "); found {
			return figure
		}
	}
	return ""
}

// mailConnections is this project's MAIL_CONNECTIONS: so many e-mails can be under way at once.
const mailConnections = 4

// permitted returns the figures without those that this project does not promise to keep at zero
// (P6 in docs/guarantees.md). It repeats e-mails when the process dies after the mail server has
// accepted them: those that are under way, and those answered while it wrote the marks before. And
// it repeats an e-mail when the server's answer is lost: mail-away cuts all connections once.
func permitted(fault string, f judge.Figures) judge.Figures {
	switch fault {
	case "kill-consumer":
		f.Repeated = max(0, f.Repeated-kills*2*mailConnections)
	case "mail-away":
		f.Repeated = max(0, f.Repeated-mailConnections)
	}
	return f
}

// verdict returns an error for each row without a result, for each certain failure that no run has
// shown, and for each failure of this project. It prints the famous failures that no run has shown.
// They are no errors, because they need luck.
func verdict(w io.Writer, rows []row, all results) error {
	var errs []error
	for _, r := range rows {
		worst := worstOf(all[r.String()])
		shows := func(figure string) bool { return strings.Contains(worst.String(), figure) }
		certain, famous := r.figure(r.design.certain), r.figure(r.design.famous)
		switch {
		case len(all[r.String()]) == 0:
			errs = append(errs, fmt.Errorf("%s has no result: the messages above say why", r))
		case r.design.name == thisProject && permitted(r.fault.name, worst) != (judge.Figures{}):
			errs = append(errs, fmt.Errorf("%s is: %s", r, worst))
		case !shows(certain):
			errs = append(errs, fmt.Errorf("%s must show %q, and has: %s", r, certain, worst))
		case !shows(famous):
			_, err := fmt.Fprintf(w, "%s is known for %q, and is: %s\n", r, famous, worst)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
