package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// report tells the reader what the test says, and what to do next.
func report(out io.Writer, n int, e exercise, isNew bool, seen result, output string) error {
	if seen == broken || isNew && seen == green {
		fmt.Fprintln(out, output)
		fmt.Fprintf(out, "The test did not run as it should: see above. Does %s compile?\n", folder(n))
		return errors.New("the test has given no answer; FRESH=1 begins the exercise again and deletes your work")
	}
	if seen == green {
		fmt.Fprintf(out, "Exercise %d is solved: %s is green.\n\nCompare your change with docs/solutions.md#%d.\n", n, e.test, n)
		return nil
	}
	if isNew {
		fmt.Fprintf(out, "Exercise %d, for docs/%s.md\n\n%s is a copy of this code, with one mistake in it.\n\n", n, e.chapter, folder(n))
	} else {
		fmt.Fprintf(out, "Exercise %d is still red. A hint: look at %s.\n\n", n, e.look)
	}
	fmt.Fprintf(out, `What goes wrong: %s

This test is red because of it:

%s
To run only this test, run the first line once in your shell, and then the second one:

  eval "$(scripts/stack servers)"
  (%s)

Make it green without changing the test. Then run make exercise N=%d again.
`, e.symptom, failure(output), e.shell(n), n)
	return nil
}

// maxLines is how much of a test's output is shown.
const maxLines = 40

var noise = regexp.MustCompile(`(?m)^(\{.*\}|\d{4}/\d\d/\d\d .*)\n`)

// failure is the output of a red test, without the log lines of the code under test.
func failure(output string) string {
	lines := strings.SplitAfter(noise.ReplaceAllString(output, ""), "\n")
	if len(lines) > maxLines {
		lines = append(lines[:maxLines], "...\n")
	}
	return strings.Join(lines, "")
}
