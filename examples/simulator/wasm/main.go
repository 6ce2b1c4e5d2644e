//go:build js && wasm

// Command wasm is the simulator in a browser. The page calls simulate(action), and this program
// calls render(view) on the page after each change. The view is JSON.
package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"syscall/js"

	"example.com/transactional-outbox/outbox/simulator/world"
)

// The page has two actions of its own: "reset", and "lesson/" with the number of a lesson.
const (
	reset  = "reset"
	lesson = "lesson/"
)

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // the page shows what happens
	changes := make(chan struct{}, 1)
	changed := func() {
		select {
		case changes <- struct{}{}:
		default: // the page is going to be rendered already
		}
	}
	actions := make(chan string, 16)
	js.Global().Set("simulate", js.FuncOf(func(_ js.Value, args []js.Value) any {
		select {
		case actions <- args[0].String():
		default: // the reader clicks faster than the system moves
		}
		return nil
	}))
	w := world.New(changed)
	for {
		select {
		case <-changes: // this rendering shows them
		default:
		}
		render(w)
		select {
		case action := <-actions:
			w = do(w, action, changed)
		case <-changes: // a relay has reached a step by itself
		}
	}
}

// do does an action, and returns the world after it.
func do(w *world.World, action string, changed func()) *world.World {
	number, isLesson := strings.CutPrefix(action, lesson)
	if action != reset && !isLesson {
		w.Do(action)
		return w
	}
	n := w.Lesson()
	if isLesson {
		n, _ = strconv.Atoi(number)
	}
	w.Close()
	w = world.New(changed)
	w.TakeLesson(n)
	return w
}

func render(w *world.World) {
	view, err := json.Marshal(w.View())
	if err != nil {
		panic(err) // the view has only text and numbers
	}
	js.Global().Call("render", string(view))
}
