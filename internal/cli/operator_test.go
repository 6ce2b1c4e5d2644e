package cli_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/internal/cli"
)

// output is the dependency of the commands in these tests. They write what they did to it.
type output struct{ io.Writer }

var program = cli.Program[output]{
	Name: "shop letters", Example: "For example, all:\n\n  shop letters burn --all",
	Commands: []cli.Command[output]{{
		Name: "burn", Arguments: "ID… [flags]", Does: "burn letters", More: "Burns them.",
		Define: func(flags *flag.FlagSet) func([]string) (cli.Action[output], error) {
			colour := cli.DefineText(flags, "colour", "only letters of this `COLOUR`", "red")
			age := cli.DefineAge(flags, "older-than", "only letters of this `AGE`")
			choice := cli.Choice{Noun: "letter", Every: "every letter", Filters: []string{"--colour", "--older-than"}}
			choice.Define(flags)
			return func(args []string) (cli.Action[output], error) {
				return func(_ context.Context, d output) error {
					_, err := fmt.Fprint(d, args, *colour, *age)
					return err
				}, choice.Check("burn", len(args), *colour != "" || *age > 0)
			}
		},
	}},
}

func TestFlagsMayComeBeforeAndAfterArguments(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"burn A B":                         "[A B]0s",
		"burn --all":                       "[]0s",
		"burn --colour red -older-than=1h": "[]red1h0m0s",
	} {
		var out strings.Builder
		action, err := program.Parse(strings.Fields(line), &out)
		if err == nil {
			err = action(t.Context(), output{&out})
		}
		if err != nil || out.String() != want {
			t.Errorf("%s does %q, error %v, want %q", line, &out, err, want)
		}
	}
}

func TestAnUnclearChoiceIsAnError(t *testing.T) {
	t.Parallel()
	for line, hint := range map[string]string{
		"burn":                    "say which letters to burn: ids, --colour, --older-than, or --all",
		"burn --colour=":          "it is empty",
		"burn --older-than 0s":    "above zero",
		"burn A --all":            "do not go together",
		"burn A --colour red":     "do not go together",
		"burn --all --colour red": "--all is every letter",
		"burn --size 3":           "shop letters burn -h",
		"throw":                   "shop letters help",
	} {
		_, err := program.Parse(strings.Fields(line), io.Discard)
		if err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%s: error %v, want a hint at %q", line, err, hint)
		}
	}
}

func TestHelpOfTheProgramAndOfACommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":            "burn letters",
		"help":        "shop letters burn --all",
		"-h":          "shop letters COMMAND -h",
		"burn -h":     "--colour COLOUR ",
		"burn A -h":   "Burns them.",
		"burn --help": "such as red",
	} {
		var out strings.Builder
		_, err := program.Parse(strings.Fields(line), &out)
		if !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), want) {
			t.Errorf("%q: error %v, and no %q in\n%s", line, err, want, &out)
		}
	}
}

type row struct {
	Name string `json:"name"`
}

func (row) Header() []string  { return []string{"NAME", "LENGTH"} }
func (r row) Cells() []string { return []string{r.Name, fmt.Sprint(len(r.Name))} }

func TestPagesAreOneTableOrOneObjectPerLine(t *testing.T) {
	t.Parallel()
	for asJSON, want := range map[bool]string{
		false: "NAME  LENGTH\na     1\nb  1\ndone\n",
		true:  "{\"name\":\"a\"}\n{\"name\":\"b\"}\n",
	} {
		var out strings.Builder
		p := cli.Printer{Out: &out, JSON: asJSON}
		err := errors.Join(p.Page([]cli.Row{row{"a"}}), p.Page([]cli.Row{row{"b"}}))
		p.Printf("done")
		if err != nil || out.String() != want {
			t.Errorf("it prints %q, error %v, want %q", &out, err, want)
		}
	}
}

func TestInvalidUTF8IsPrinted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := cli.PrintJSON(&out, row{"\xff"}); err != nil || out.String() != "{\"name\":\"\ufffd\"}\n" {
		t.Errorf("it prints %q, error %v", &out, err)
	}
}

func TestTheTallyIsAnErrorIfSomethingWasRefused(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	tally := cli.Tally{Printer: cli.Printer{Out: &out}, Noun: "letter", Past: "burnt", Done: 1}
	if err := tally.Sum(); err != nil || out.String() != "1 letter burnt.\n" {
		t.Errorf("it prints %q, error %v", &out, err)
	}
	tally.DryRun, tally.Refused = true, []string{"A is wet", "B is wet"}
	out.Reset()
	err := tally.Sum()
	if out.String() != "1 letter would be burnt. Nothing was changed.\n" || err == nil || err.Error() != "2 letters could not be burnt:\n  A is wet\n  B is wet" {
		t.Errorf("it prints %q, error %v", &out, err)
	}
}

func TestTextForTerminals(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		cli.Printable("red \x1b[31m\n\u009b"): "red  [31m  ",
		cli.Truncate(strings.Repeat("ä", 61)): strings.Repeat("ä", 59) + "…",
		cli.Truncate(strings.Repeat("ä", 60)): strings.Repeat("ä", 60),
		cli.Age(59 * time.Second):             "59s",
		cli.Age(61 * time.Minute):             "1h1m",
		cli.Age(90 * time.Second):             "1m",
		cli.Age(49 * time.Hour):               "2d",
		cli.Noun("letter").Count(1):           "1 letter",
		cli.Noun("letter").Count(0):           "0 letters",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
