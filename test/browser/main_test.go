package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"example.com/transactional-outbox/test/browser/chromium"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
)

// All tests share these. Each test has its own databases, its own virtual host, its own services,
// and its own profiles in the browser.
var (
	shared  servers.OfPackage
	running context.Context // of the browser
)

const repository = "../.."

// parallelTests replaces the flag -parallel of go test. The tests mostly wait for processes.
const parallelTests = "3"

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/browser:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	program, err := chromium.Find()
	if err != nil {
		if os.Getenv("NO_INSTALL") != "" {
			fmt.Printf("SKIPPED: %v. NO_INSTALL is set, so nothing is tested here.\n", err)
			return 0, nil
		}
		return 0, err
	}
	if err := flag.Set("test.parallel", parallelTests); err != nil {
		return 0, err
	}
	stop := func() {}
	defer func() { stop() }()
	return servers.RunTests(m, "test-browser", func(s servers.OfPackage) (err error) {
		shared = s
		if err := services.Build(context.Background(), repository, s.Folder); err != nil {
			return err
		}
		stop, err = start(program, filepath.Join(s.Folder, "profile"))
		return err
	})
}

// start starts the browser with a new profile. It must not load anything from the network.
func start(program, profile string) (stop func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.UserDataDir(profile), chromedp.DisableGPU,
		chromedp.Flag("no-sandbox", true), // the tests may run as root
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("font-render-hinting", "none"), // screenshots are the same on other machines
	)
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	running = ctx //nolint:fatcontext // all tests use one browser
	return func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		stopAllocator()
	}, chromedp.Do(running)
}
