// Package suite has what the programs chaos, compare and bench share: their start and their end,
// their help, their progress and their results. Their settings are environment variables.
package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"syscall"
	"time"
)

// Main runs a program until it ends, or until a signal cancels its context. With any argument it
// prints the help. An error is printed, and the program exits with 1.
func Main(name string, help func(io.Writer), run func(context.Context) error) {
	if len(os.Args) > 1 {
		help(os.Stdout)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// PrintSettings prints a row for each field of the options, with tabs between the columns. A field
// has the tags env, envDefault and does.
func PrintSettings[Options any](w io.Writer) {
	fmt.Fprint(w, "SETTING\tDEFAULT\tMEANING\n")
	for field := range reflect.TypeFor[Options]().Fields() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", field.Tag.Get("env"), field.Tag.Get("envDefault"), field.Tag.Get("does"))
	}
}

// Progress prints what the program does. Standard output has only the results.
func Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// WriteJSON writes a value as indented JSON, and creates the folder of the file.
func WriteJSON(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // everybody may read it
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644) //nolint:gosec // everybody may read it
}

// Sleep waits for a time, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
