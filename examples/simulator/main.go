// Command simulator compiles the simulator for the browser, and serves its page.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

//go:embed page
var page embed.FS

const help = `Serves a page on which you move the outbox, its relays, the broker and the consumer step by step.

settings:
  SIMULATOR_ADDR  the address of the page (127.0.0.1:4180)
  SIMULATOR_OUT   write the page's files into this folder instead, for any web server
`

func main() {
	if len(os.Args) > 1 {
		fmt.Print(help)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "simulator:", err)
		os.Exit(1) //nolint:gocritic // the process exits: stop() is not needed
	}
}

func run(ctx context.Context) error {
	if out := os.Getenv("SIMULATOR_OUT"); out != "" {
		return write(ctx, out)
	}
	address := os.Getenv("SIMULATOR_ADDR")
	if address == "" {
		address = "127.0.0.1:4180"
	}
	folder, err := os.MkdirTemp("", "simulator")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := write(ctx, folder); err != nil {
		return err
	}
	return serve(ctx, address, folder)
}

// write writes all files of the page.
func write(ctx context.Context, folder string) error {
	files, err := fs.Sub(page, "page")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a web server reads it
		return err
	}
	for _, name := range []string{"index.html", "simulator.css", "simulator.js"} {
		if err := copyFile(files, name, folder); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stderr, "Compiling the simulator for the browser. The first time takes a minute or two.")
	if err := compile(ctx, filepath.Join(folder, "simulator.wasm")); err != nil {
		return err
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("asking go for its folder: %w", err)
	}
	return copyFile(os.DirFS(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm")), "wasm_exec.js", folder)
}

func copyFile(from fs.FS, name, folder string) error {
	content, err := fs.ReadFile(from, name)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name), content, 0o644) //nolint:gosec // a web server reads it
}

// compile runs in the folder of this module.
func compile(ctx context.Context, program string) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", program, "./wasm") //nolint:gosec // the user names the file
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the simulator: %w\n%s", err, output)
	}
	return nil
}

func serve(ctx context.Context, address, folder string) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%w: set SIMULATOR_ADDR to a free address", err)
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(folder)), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Printf("http://%s/ (Ctrl+C ends it)\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
