package world

import "fmt"

// progress is how far the reader is in a lesson. It is here and not in the page: a click may come
// before its action is possible, or twice, and then the page's count would be wrong.
type progress struct {
	number int // of the lesson, from 1; 0 is free play
	taken  int // how many of its steps are taken
}

// Next takes the next step of the lesson, whichever that is.
const Next = "next"

// TakeLesson begins a lesson, from 1, in a new system. 0 is free play.
func (w *World) TakeLesson(number int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if number < 0 || number > len(Lessons) {
		number = 0
	}
	w.progress = progress{number: number}
}

// Lesson returns the number of the lesson that the reader takes, or 0.
func (w *World) Lesson() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.progress.number
}

// next returns the id of the lesson's next action, or "".
func (p progress) next() string {
	if p.number == 0 || p.taken == len(Lessons[p.number-1].Steps) {
		return ""
	}
	return Lessons[p.number-1].Steps[p.taken]
}

// after returns the progress after an action. Another action than the next one ends the lesson.
func (p progress) after(id string) progress {
	if p.next() != id {
		return progress{}
	}
	p.taken++
	return p
}

// LessonView is what the page shows of the lesson.
type LessonView struct {
	Number int    `json:"number"` // 0: free play
	Text   string `json:"text"`
	Next   string `json:"next"` // the label of the next step, or "" at the end
	Action string `json:"action"`
	End    string `json:"end"` // empty before the end
}

func (p progress) view(actions []Action) (v LessonView) {
	if p.number == 0 {
		return v
	}
	lesson := Lessons[p.number-1]
	v = LessonView{Number: p.number, Text: lesson.Text, Action: p.next()}
	if v.Action == "" {
		v.End = lesson.End
		return v
	}
	v.Next = fmt.Sprintf("next step (%d of %d)", p.taken+1, len(lesson.Steps))
	for _, a := range actions {
		if a.ID == v.Action {
			v.Next += ": " + a.what()
		}
	}
	return v
}
