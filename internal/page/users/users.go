// Package users reads PAGE_USERS: the users of the page, with their roles and hashed passwords.
package users

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/crypto/bcrypt"
)

// Role says what a user may do.
type Role int

// A user with the role Operate may also do everything that needs the role Read.
const (
	Read    Role = 1 // see everything except personal data
	Operate Role = 2 // see personal data, and decide
)

// String returns the role as it stands in PAGE_USERS.
func (r Role) String() string {
	switch r {
	case Read:
		return "read"
	case Operate:
		return "operate"
	default:
		return "none"
	}
}

// ParseRole reads "read" or "operate".
func ParseRole(text string) (Role, error) {
	for _, role := range []Role{Read, Operate} {
		if text == role.String() {
			return role, nil
		}
	}
	return 0, fmt.Errorf("the role must be read or operate, not %q", text)
}

// User is somebody who may use the page.
type User struct {
	Name string
	Role Role
}

// May reports whether the user has at least this role.
func (u User) May(role Role) bool { return u.Role >= role }

// Account is a user with a hashed password.
type Account struct {
	User
	Hash []byte
}

const (
	maxName = 64
	// The cost of a hash: each step doubles the time. Less than 10 is too easy to guess; more than 14
	// takes seconds for each login.
	cost, minCost, maxCost   = 11, 10, 14
	minPassword, maxPassword = 12, 72 // bytes; bcrypt reads no more than 72
)

// Parse reads lines of name:role:bcrypt-hash. It skips empty lines, and those that begin with #.
// Errors name the line, and never show a hash.
func Parse(text string) ([]Account, error) {
	var accounts []Account
	seen := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		account, err := parseLine(line)
		if err == nil && seen[account.Name] {
			err = fmt.Errorf("the user %s is there twice", account.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		seen[account.Name] = true
		accounts = append(accounts, account)
	}
	return accounts, nil
}

func parseLine(line string) (a Account, err error) {
	parts := strings.Split(line, ":")
	if len(parts) != 3 {
		return a, errors.New("it must be name:role:hash; the command page-user prints such a line")
	}
	if err := checkName(parts[0]); err != nil {
		return a, err
	}
	role, err := ParseRole(parts[1])
	if err != nil {
		return a, err
	}
	n, err := bcrypt.Cost([]byte(parts[2]))
	if err != nil {
		return a, fmt.Errorf("the hash of %s is not a bcrypt hash; the command page-user prints one", parts[0])
	}
	if n < minCost || n > maxCost {
		return a, fmt.Errorf("the hash of %s has the cost %d, and it must be %d to %d", parts[0], n, minCost, maxCost)
	}
	return Account{User{parts[0], role}, []byte(parts[2])}, nil
}

func checkName(name string) error {
	wrong := func(r rune) bool { return r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if name == "" || len(name) > maxName || strings.HasPrefix(name, "#") || strings.ContainsFunc(name, wrong) {
		return fmt.Errorf("a user's name must be 1 to %d bytes, without spaces and colons, and must not begin with #", maxName)
	}
	return nil
}

// Line returns the line of PAGE_USERS for a user.
func Line(name string, role Role, password []byte) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if len(password) < minPassword || len(password) > maxPassword {
		return "", fmt.Errorf("the password must have %d to %d bytes, and it has %d", minPassword, maxPassword, len(password))
	}
	if bytes.ContainsAny(password, "\x00\r\n") {
		return "", errors.New("the password must be one line")
	}
	hash, err := bcrypt.GenerateFromPassword(password, cost)
	if err != nil {
		return "", fmt.Errorf("hashing the password: %w", err)
	}
	return fmt.Sprintf("%s:%s:%s", name, role, hash), nil
}

// Verifier checks passwords.
type Verifier struct {
	accounts map[string]Account
	decoys   map[int][]byte // for each cost that an account has: the hash of a password that nobody has
	compare  func(hash, password []byte) error
}

// NewVerifier returns a verifier for the accounts.
func NewVerifier(accounts []Account) (*Verifier, error) {
	v := &Verifier{accounts: map[string]Account{}, decoys: map[int][]byte{}, compare: bcrypt.CompareHashAndPassword}
	for _, account := range accounts {
		v.accounts[account.Name] = account
		n, err := bcrypt.Cost(account.Hash)
		if err != nil {
			return nil, err
		}
		if v.decoys[n] != nil {
			continue
		}
		if v.decoys[n], err = bcrypt.GenerateFromPassword([]byte(rand.Text()), n); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// Verify reports whether the password is that of the account. It compares one hash of each cost, so
// each name takes the same time: the time does not say which users exist. Exactly one password is
// right. bcrypt alone would accept many: it repeats a password with a zero byte between, and
// ignores what comes after 72 bytes.
func (v *Verifier) Verify(name, password string) (user User, ok bool) {
	account := v.accounts[name]
	possible := len(password) <= maxPassword && !strings.Contains(password, "\x00")
	ownCost, _ := bcrypt.Cost(account.Hash) // 0: there is no such user
	for n, hash := range v.decoys {
		if n == ownCost {
			hash = account.Hash
		}
		right := v.compare(hash, []byte(password)) == nil
		ok = ok || right && n == ownCost && possible
	}
	return account.User, ok
}
