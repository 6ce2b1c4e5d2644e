package page

import "time"

// Part is a part of a page. The frame has a template for each type.
type Part interface{ template() string }

// Level colours a value. A word or a symbol says the same for people who do not see the colour.
type Level string

// The levels. The empty level is neutral.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Bad  Level = "bad"
)

// Link is a link within this page (a path), or to another site (a URL of http or https).
type Link struct{ Text, To string }

// Value is one value. If Hidden, the text is not sent to the browser.
type Value struct {
	Text   string
	To     string    // a link; "": none
	Time   time.Time // if not zero, the time is shown, and Text after it
	Code   bool      // an id or a name, in a font where each character has the same width
	Level  Level
	Hidden bool // personal data: "hidden" is shown
}

// Text returns a plain value.
func Text(text string) Value { return Value{Text: text} }

// Code returns an id or a name.
func Code(text string) Value { return Value{Text: text, Code: true} }

// CodeLink returns an id or a name that links to a page.
func CodeLink(text, to string) Value { return Value{Text: text, To: to, Code: true} }

// Moment returns a time.
func Moment(at time.Time) Value { return Value{Time: at} }

// Heading begins a section of a page.
type Heading struct {
	Text string
	Note string // a sentence below it; may be empty
}

// Message says something to the user.
type Message struct {
	Level Level
	Title string
	Text  string
	Links []Link
}

// Fields is a list of names with values.
type Fields []Field

// Field is a name with its value.
type Field struct {
	Name  string
	Value Value
}

// Block is a long text with its line breaks, such as a payload.
type Block struct {
	Title  string
	Text   string
	Hidden bool   // it may contain personal data: Text is not sent to the browser
	Reveal string // the link that shows it, such as "?reveal=1"; "": this user may not see it
}

// Groups is a list of what occurs how often.
type Groups struct {
	Title string
	Empty string // is shown if there are no groups
	List  []Group
}

// Group is one of Groups.
type Group struct {
	Text  string
	Count int64
	About bool   // the count is an estimate
	To    string // the link to the items
	Note  string // such as the age of the oldest item
	Level Level
}

// Filter is a form whose fields become the query of the URL.
type Filter struct {
	Path   string // where the form leads, such as "/failed"
	Fields []Input
	Submit string // the text of the button; "": "Filter"
}

// Kind is the kind of an input.
type Kind string

// The kinds of input.
const (
	TextInput   Kind = "text"
	NumberInput Kind = "number"
	TimeInput   Kind = "datetime-local" // its value has no zone; the page says that it is UTC
	ChoiceInput Kind = "choice"
)

// Input is a field of a form.
type Input struct {
	Name, Label string
	Kind        Kind // "": text
	Value       string
	Options     []Option // of a choice
	Hint        string   // says what to write; may be empty
	Error       string   // says what is wrong with the value; may be empty
}

// Option is one of the values of a choice.
type Option struct{ Value, Text string }

// Table shows items. If Choose is set, each row has a check box.
type Table struct {
	Caption string
	Columns []string
	Rows    []Row
	Empty   string // is shown instead of a table without rows
	Choose  *Choose
}

// Row is one item.
type Row struct {
	ID    string // what the check box sends in the field id
	Name  string // what a screen reader says for the check box; "": ID
	Cells []Value
}

// Choose makes a table a form that leads to a preview. The form sends:
//   - id: the ids of the selected rows;
//   - selected: the name of the action for the selected rows; or
//   - all: the name of the action for all items that match the filter;
//   - the fields of Filter.
//
// Leave it nil for a user who may not decide.
type Choose struct {
	Post    string // the preview, such as "/failed/preview"
	Actions []Action
	// All says what the buttons for all that match do, such as "all 1,234 that match". If it is
	// empty, there are no such buttons. Leave it empty if the filter is empty.
	All    string
	Filter []Hidden
}

// Buttons is a form of buttons about one item. Each leads to the preview of an action, and sends
// the name of the action in the field selected.
type Buttons struct {
	Title   string
	Post    string // the preview, such as "/failed/preview"
	Actions []Action
	Hidden  []Hidden // such as the id
}

// Action is a button.
type Action struct {
	Name   string // such as "replay"
	Text   string // such as "Replay"
	Danger bool   // it cannot be undone
}

// Hidden is a field of a form that the user does not see.
type Hidden struct{ Name, Value string }

// Pager leads to the first and to the next rows of a table. It has no numbers of pages: with keyset
// paging, no page has a number.
type Pager struct {
	First string // "": these are the first rows
	Next  string // "": there are no more rows
	Note  string // such as "50 rows"
}

// Timeline shows what happened to an item, in the order of the steps. It shows the time between
// each step and the one before.
type Timeline struct {
	Title string
	Steps []Step
}

// Step is something that happened at a time, or has not happened yet.
type Step struct {
	Title string
	At    time.Time // zero: it has not happened, or nobody knows when
	Level Level
	Text  string
	Facts Fields
	Links []Link
}

// Confirm asks for the decision about a preview. [Page.Preview] returns it.
type Confirm struct {
	Post    string // the decision, such as "/failed/decide"
	Preview string // the id of the preview
	Verb    string // what the button says, such as "Replay"
	Danger  bool
	Count   int
	Noun    string // "event" or "message"
	// Matching is how many items match. If it is more than Count, the decision takes the first
	// Count of them.
	Matching int
	About    bool // Matching is an estimate
	Filter   string
	Expires  time.Time
	Cancel   string // the link back
}

// Diagram shows the numbers of the service. The overview has it.
type Diagram Numbers

func (Heading) template() string  { return "heading" }
func (Message) template() string  { return "message" }
func (Fields) template() string   { return "fields" }
func (Block) template() string    { return "block" }
func (Groups) template() string   { return "groups" }
func (Filter) template() string   { return "filter" }
func (Table) template() string    { return "table" }
func (Buttons) template() string  { return "buttons" }
func (Pager) template() string    { return "pager" }
func (Timeline) template() string { return "timeline" }
func (Confirm) template() string  { return "confirm" }
func (Diagram) template() string  { return "diagram" }
