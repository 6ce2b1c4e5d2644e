package docs_test

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"example.com/transactional-outbox/test/docs"
)

// links requires that linked files and headings exist. It does not request external addresses, and
// only checks their form.
func links(_ *repository, page docs.Page) (problems []string) {
	for _, link := range page.Links {
		if reason := brokenLink(page, link.Text); reason != "" {
			problems = append(problems, errorAt(link, "%s: %s", link.Text, reason))
		}
	}
	return problems
}

func brokenLink(page docs.Page, target string) string {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return err.Error()
	case u.IsAbs():
		return brokenAddress(u)
	case u.Host != "" || strings.HasPrefix(u.Path, "/"):
		return "a link inside the repository is relative"
	case u.Path == "":
		return brokenAnchor(page, u.Fragment)
	}
	return brokenFile(path.Join(path.Dir(page.Path), u.Path), u.Fragment)
}

func brokenAddress(u *url.URL) string {
	switch {
	case u.Scheme == "mailto", u.Scheme == "http" && u.Hostname() == "localhost":
		return ""
	case u.Scheme != "https" || !strings.Contains(u.Hostname(), "."):
		return "not https to a host"
	}
	return ""
}

func brokenFile(name, fragment string) string {
	if !filepath.IsLocal(name) {
		return "outside the repository"
	}
	if _, err := os.Stat(filepath.Join(root, name)); err != nil {
		return "no such file"
	}
	switch {
	case fragment == "":
		return ""
	case path.Ext(name) != ".md":
		return brokenLine(name, fragment)
	}
	page, err := docs.ReadFile(root, name)
	if err != nil {
		return err.Error()
	}
	return brokenAnchor(page, fragment)
}

func brokenAnchor(page docs.Page, name string) string {
	if !slices.ContainsFunc(page.Headings, func(h docs.Heading) bool { return h.Anchor == name }) {
		return "no such heading"
	}
	return ""
}

var lineAnchor = regexp.MustCompile(`^L(\d+)$`)

func brokenLine(name, fragment string) string {
	source, err := os.ReadFile(filepath.Join(root, name))
	m := lineAnchor.FindStringSubmatch(fragment)
	if err != nil || m == nil {
		return "no such place in the file"
	}
	if line, err := strconv.Atoi(m[1]); err != nil || line > strings.Count(string(source), "\n") {
		return "no such line"
	}
	return ""
}
