package browser

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "write the screenshots of the documentation, docs/images/*.png")

const (
	pictureWidth  = 1200
	pictureHeight = 1500      // at most
	pictureBytes  = 150 << 10 // at most
)

// TestScreenshots shows the pages as the documentation does. Each has something of each kind.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 12 {
		s.place()
	}
	s.failEvents(3)
	operator := newPerson(t)
	operator.do(chromedp.EmulateViewport(pictureWidth, 800), prefer("light"))

	operator.visit(s.orders.page + "/")
	operator.await(is(node("published"), "12"))
	operator.await(is("[data-live]", "Live"))
	operator.picture("overview")
}

// picture takes the whole page. It writes the picture only with -update.
func (b *tab) picture(name string) {
	b.Helper()
	height := min(value[int64](b, "Math.ceil(document.body.getBoundingClientRect().height)"), pictureHeight)
	shot := get(b, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		clip := &page.Viewport{Width: value[float64](b, "window.innerWidth"), Height: float64(height), Scale: 1}
		result, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: clip, CaptureBeyondViewport: new(true)})
		return result.Data, err
	})
	small, err := shrink(shot)
	must(b.T, err)
	if len(small) > pictureBytes {
		b.Errorf("the picture %s has %d bytes, want at most %d", name, len(small), pictureBytes)
	}
	if *update {
		must(b.T, os.WriteFile(filepath.Join(repository, "docs", "images", name+".png"), small, 0o644))
	}
}

// shrink reduces a picture to 256 colours: those that occur most often. The page has few.
func shrink(shot []byte) ([]byte, error) {
	original, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		return nil, fmt.Errorf("the screenshot: %w", err)
	}
	reduced := image.NewPaletted(original.Bounds(), mostFrequent(original, 256))
	draw.Draw(reduced, reduced.Bounds(), original, original.Bounds().Min, draw.Src)
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&b, reduced)
	return b.Bytes(), err
}

func mostFrequent(picture image.Image, n int) color.Palette {
	times := map[color.RGBA]int{}
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			times[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++ //nolint:forcetypeassert // the model's type
		}
	}
	colours := slices.SortedFunc(maps.Keys(times), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(times[b], times[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	palette := color.Palette{}
	for _, c := range colours[:min(n, len(colours))] {
		palette = append(palette, c)
	}
	return palette
}
