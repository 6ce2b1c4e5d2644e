package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestTheSimulatorRunsInABrowser takes two lessons of examples/simulator as a reader would, and
// plays freely.
func TestTheSimulatorRunsInABrowser(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.FileServer(http.Dir(buildSimulator(t))))
	t.Cleanup(server.Close)
	reader := newPerson(t)
	reader.do(chromedp.EmulateViewport(1600, 1000))
	reader.visit(server.URL)
	reader.do(chromedp.WaitVisible(chromedp.CSS("#system")))

	reader.takeLesson("A relay dies before it marks")
	if end := value[string](reader, `document.querySelector("#lessons .good").textContent`); !strings.Contains(end, "effect is there once") {
		t.Errorf("the lesson ends with %q", end)
	}
	reader.wantRows("inbox", "A1")
	reader.wantRows("effects", "A1 its e-mail can be sent")
	reader.wantPromise(2, "✓ no effect happens twice: true")

	reader.takeLesson("The same without the inbox")
	reader.wantPromise(2, "✗ no effect happens twice: more than one effect of: A1")

	reader.click(`[data-action="relay 2/kill"]`)
	reader.await(`[...document.querySelectorAll("#relay-list p")].some(p => p.textContent === "dead")`)

	reader.clickTwiceAtOnce()

	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must(t, err)
	reader.do(chromedp.Evaluate[chromedp.Void](string(axe) + "\n;void 0"))
	for width, scheme := range map[int64]string{360: "light", 1600: "dark"} {
		reader.do(chromedp.EmulateViewport(width, 900), prefer(scheme))
		reader.wantNoViolation(fmt.Sprintf("the simulator, %d px, %s", width, scheme))
		if wide := value[int64](reader, "document.documentElement.scrollWidth"); wide > width {
			t.Errorf("the page is %d px wide in a window of %d px", wide, width)
		}
	}
}

// buildSimulator writes the page's files, as `make simulator` does.
func buildSimulator(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	command := exec.CommandContext(t.Context(), "go", "run", ".")
	command.Dir = repository + "/examples/simulator"
	command.Env = append(os.Environ(), "SIMULATOR_OUT="+folder)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building the simulator: %v\n%s", err, output)
	}
	return folder
}

// chooseLesson chooses a lesson in the list.
func (b *tab) chooseLesson(title string) {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{
		const choose = document.querySelector("#lessons select");
		choose.value = [...choose.options].find(o => o.text.includes(%q)).value;
		choose.dispatchEvent(new Event("change"));
	}`, title)))
}

// takeLesson chooses a lesson and presses "next step" until it ends.
func (b *tab) takeLesson(title string) {
	b.Helper()
	b.chooseLesson(title)
	b.awaitStep(1)
	for step := 2; ; step++ {
		b.click("#lessons button.next")
		b.await(fmt.Sprintf(`document.querySelector("#lessons .good") || %s`, atStep(step)))
		if value[bool](b, `document.querySelector("#lessons button.next") === null`) {
			b.wantFocus("lessons", "")
			return
		}
		b.wantFocus("lessons", "next")
	}
}

// awaitStep waits until the page offers a step of the lesson.
func (b *tab) awaitStep(n int) {
	b.Helper()
	b.await(atStep(n))
}

func atStep(n int) string {
	return fmt.Sprintf(`document.querySelector("#lessons button.next")?.textContent.startsWith("next step (%d ")`, n)
}

// wantFocus wants a reader with a keyboard to stay at a button, or in the section if it is gone.
func (b *tab) wantFocus(section, action string) {
	b.Helper()
	got := value[[]string](b, `[document.activeElement.closest("section")?.id ?? "", document.activeElement.dataset.action ?? ""]`)
	if got[0] != section || got[1] != action {
		b.Errorf("the keyboard is in the section %q at the button %q, want %q, %q", got[0], got[1], section, action)
	}
}

// clickTwiceAtOnce clicks the button of a lesson again before the simulator has done its step, and
// then chooses a lesson with the keyboard.
func (b *tab) clickTwiceAtOnce() {
	b.Helper()
	b.click(`[data-action="reset"]`)
	b.chooseLesson("The way of an event")
	b.awaitStep(1)
	b.do(chromedp.Evaluate[chromedp.Void](`{
		const next = document.querySelector("#lessons button.next");
		next.click();
		next.click();
	}`))
	b.awaitStep(3)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#lesson").focus()`))
	b.chooseLesson("A relay dies before it marks")
	b.awaitStep(1)
	if !value[bool](b, `document.activeElement.id === "lesson"`) {
		b.Error("the list of lessons has lost the keyboard")
	}
}

// click presses a button that loads no page.
func (b *tab) click(selector string) {
	b.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

func (b *tab) wantRows(list string, want ...string) {
	b.Helper()
	got := value[[]string](b, fmt.Sprintf(`[...document.querySelectorAll("[data-rows=%s] li")].map(li => li.textContent)`, list))
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		b.Errorf("%s has %q, want %q", list, got, want)
	}
}

func (b *tab) wantPromise(n int, want string) {
	b.Helper()
	if got := value[string](b, fmt.Sprintf(`document.querySelectorAll("#promises p")[%d].textContent`, n-1)); got != want {
		b.Errorf("the page says %q, want %q", got, want)
	}
}
