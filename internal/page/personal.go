package page

import (
	"context"
	"log/slog"
	"net/http"
)

// fieldReveal asks for personal data.
const fieldReveal = "reveal"

// Reveals reports whether the user asks for the personal data of an item, such as an event and its
// id. The log says who saw what. A user who may not see it gets an error.
func (r *Request) Reveals(ctx context.Context, what, id string) (bool, error) {
	if r.URL.Query().Get(fieldReveal) == "" {
		return false, nil
	}
	if !r.User.May(Operate) {
		return false, Errorf(http.StatusForbidden, "%s has the role %s. To see personal data, the role %s is needed.", r.User.Name, r.User.Role, Operate)
	}
	slog.InfoContext(ctx, "personal data shown", "operator", r.User.Name, "of", what, "id", id)
	return true, nil
}

// RevealLink is the link that shows personal data, or "" if the user may not see it.
func (r *Request) RevealLink() string {
	if !r.User.May(Operate) {
		return ""
	}
	return "?" + fieldReveal + "=1"
}
