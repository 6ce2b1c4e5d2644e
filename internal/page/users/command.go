package users

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// PrintLine is the command page-user: it reads the password from in, and writes the line to out.
func PrintLine(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("page-user needs two arguments, NAME and ROLE (read or operate); -h explains more")
	}
	role, err := ParseRole(args[1])
	if err != nil {
		return err
	}
	password, err := io.ReadAll(io.LimitReader(in, 1<<10))
	if err != nil {
		return fmt.Errorf("reading the password from stdin: %w", err)
	}
	// A file, and echo, end with a line feed.
	line, err := Line(args[0], role, bytes.TrimRight(password, "\r\n"))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, line)
	return err
}
