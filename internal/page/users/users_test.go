package users

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

const password = "a long password"

// hashed returns the line of a user, with a hash that is quick to check.
func hashed(t *testing.T, name, role string) string {
	t.Helper()
	return hashedAt(t, minCost, name, role)
}

func hashedAt(t *testing.T, cost int, name, role string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	if err != nil {
		t.Fatal(err)
	}
	return name + ":" + role + ":" + string(hash)
}

func TestThePrintedLineIsReadAgain(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"read", "operate"} {
		var out bytes.Buffer
		if err := PrintLine([]string{"ann", role}, strings.NewReader(password+"\n"), &out); err != nil {
			t.Fatal(err)
		}
		accounts, err := Parse("# users\n\n" + out.String())
		if err != nil || len(accounts) != 1 {
			t.Fatalf("%q is read as %v, error %v", out.String(), accounts, err)
		}
		verifier, err := NewVerifier(accounts)
		if err != nil {
			t.Fatal(err)
		}
		user, ok := verifier.Verify("ann", password)
		if !ok || user.Name != "ann" || user.Role.String() != role {
			t.Errorf("the user is %+v, %v", user, ok)
		}
		if strings.Contains(out.String(), password) {
			t.Error("the password is in the line")
		}
	}
}

func TestWrongArgumentsOfPageUserAreNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args     []string
		password string
		want     string
	}{
		"no role":                 {[]string{"ann"}, password, "NAME and ROLE"},
		"an unknown role":         {[]string{"ann", "admin"}, password, `not "admin"`},
		"a name with a colon":     {[]string{"a:b", "read"}, password, "name"},
		"a name that is empty":    {[]string{"", "read"}, password, "name"},
		"a name like a comment":   {[]string{"#ann", "read"}, password, "name"},
		"a short password":        {[]string{"ann", "read"}, "12345678901", "12 to 72 bytes"},
		"a password beyond 72":    {[]string{"ann", "read"}, strings.Repeat("x", 73), "12 to 72 bytes"},
		"a password of two lines": {[]string{"ann", "read"}, "123456\n7890123", "one line"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := PrintLine(test.args, strings.NewReader(test.password), &out)
			if err == nil || !strings.Contains(err.Error(), test.want) || out.Len() > 0 {
				t.Errorf("error %v, output %q; want %q", err, out.String(), test.want)
			}
		})
	}
}

func TestWrongLinesAreNamedAndNoHashIsShown(t *testing.T) {
	t.Parallel()
	good := hashed(t, "ann", "read")
	weak, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"ann:read":                   "name:role:hash",
		hashed(t, "ann", "admin"):    "role",
		"ann:read:secret":            "bcrypt",
		"ann:read:" + string(weak):   "cost",
		hashed(t, "a nn", "read"):    "name",
		good + "\n" + good:           "twice",
		"# x\n" + good + "\nannread": "line 3",
	}
	for lines, want := range tests {
		_, err := Parse(lines)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", lines, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "$2a$") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("the error shows the hash: %v", err)
		}
	}
}

func TestOnlyTheRightPasswordOfAKnownUserIsAccepted(t *testing.T) {
	t.Parallel()
	accounts, err := Parse(hashed(t, "ann", "read") + "\n" + hashedAt(t, minCost+1, "bob", "operate"))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := NewVerifier(accounts)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, password string
		want           bool
	}{
		{"ann", password, true},
		{"bob", password, true},
		{"ann", password + "x", false},
		{"ann", password + "\x00" + password, false},
		{"ann", strings.Repeat(password+"\x00", 10)[:maxPassword] + "anything", false},
		{"ann", "", false},
		{"", password, false},
		{"carl", password, false},
	} {
		user, ok := verifier.Verify(test.name, test.password)
		if ok != test.want || ok && user.Name != test.name {
			t.Errorf("%q with %q: %+v, %v", test.name, test.password, user, ok)
		}
	}
}

// TestEachNameTakesTheSameTime counts the hashes of each cost. The time of bcrypt depends on these
// alone, so the test needs no clock.
func TestEachNameTakesTheSameTime(t *testing.T) {
	t.Parallel()
	accounts, err := Parse(hashed(t, "ann", "read") + "\n" + hashedAt(t, minCost+1, "bob", "read") + "\n" + hashed(t, "carl", "read"))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := NewVerifier(accounts)
	if err != nil {
		t.Fatal(err)
	}
	var costs []int
	verifier.compare = func(hash, _ []byte) error {
		n, err := bcrypt.Cost(hash)
		costs = append(costs, n)
		return errors.Join(err, bcrypt.ErrMismatchedHashAndPassword)
	}
	for _, name := range []string{"ann", "bob", "carl", "nobody", ""} {
		costs = nil
		verifier.Verify(name, "wrong")
		slices.Sort(costs)
		if !slices.Equal(costs, []int{minCost, minCost + 1}) {
			t.Errorf("%q: hashes of the costs %v are compared", name, costs)
		}
	}
}
