// Package chromium finds the browser for the tests of the page.
package chromium

import (
	"errors"
	"os/exec"
)

// Package is the package of Debian that has the browser.
const Package = "chromium"

// ErrNotInstalled says what to install.
var ErrNotInstalled = errors.New("the tests of the page need Chromium or Chrome: install it (Debian: sudo apt-get install " +
	Package + "; Homebrew: brew install --cask google-chrome; Ubuntu has it only as a snap, so use Google's package google-chrome-stable)")

var programs = []string{
	"chromium", "google-chrome", "google-chrome-stable", "chromium-headless-shell",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
	"/Applications/Chromium.app/Contents/MacOS/Chromium",
}

// Find returns the path of the browser.
func Find() (string, error) {
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			return path, nil
		}
	}
	return "", ErrNotInstalled
}
