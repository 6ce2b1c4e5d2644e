package world

import (
	"testing"
	"testing/synctest"
)

// TestALessonCountsOnlyTheStepsThatWereTaken: the reader clicks twice, clicks a button that is no
// longer there, and goes another way.
func TestALessonCountsOnlyTheStepsThatWereTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(func() {})
		defer w.end()
		w.TakeLesson(1)
		w.doAll(t, Next, Next)
		if w.Do("replay/A1") {
			t.Error("did something that is not possible")
		}
		if got, want := w.View().Lesson.Next, "next step (3 of 8): relay 1: the broker receives"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		w.doAll(t, "relay 1/go", Next, Next, Next, Next, Next)
		if v := w.View().Lesson; v.End != Lessons[0].End || v.Next != "" {
			t.Errorf("at the end: %+v", v)
		}
		if w.Do(Next) {
			t.Error("there is a step after the last")
		}
		w.TakeLesson(2)
		w.doAll(t, "clock/1s")
		if w.Lesson() != 0 {
			t.Error("the lesson goes on, although the reader went another way")
		}
	})
}

func TestALessonThatDoesNotExistIsFreePlay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(func() {})
		defer w.end()
		for _, number := range []int{-1, len(Lessons) + 1} {
			if w.TakeLesson(number); w.Lesson() != 0 || w.View().Lesson != (LessonView{}) {
				t.Errorf("lesson %d: %+v", number, w.View().Lesson)
			}
		}
	})
}
