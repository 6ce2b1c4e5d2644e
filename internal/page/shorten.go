package page

// maxListed is how much of a text a list shows, in characters.
const maxListed = 160

// Shorten shortens a text, such as a reason, for a list.
func Shorten(text string) string {
	if runes := []rune(text); len(runes) > maxListed {
		return string(runes[:maxListed]) + "…"
	}
	return text
}
