//nolint:paralleltest // they set the process's logger and tracer, and environment variables
package telemetry

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// SEED chooses what the random tests do.
func init() { _ = flag.Set("rapid.seed", cmp.Or(os.Getenv("SEED"), "1")) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	traceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID      = "00f067aa0ba902b7"
	traceparent = "00-" + traceID + "-" + spanID + "-01"
)

// inTrace returns a context that continues the trace of traceparent.
func inTrace(ctx context.Context) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

func TestALogLineOfATraceHasItsIDs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		derive func(*slog.Logger) *slog.Logger
		group  string // the group of the record's own attributes
	}{
		"the logger itself": {func(l *slog.Logger) *slog.Logger { return l }, ""},
		"With":              {func(l *slog.Logger) *slog.Logger { return l.With("a", 1) }, ""},
		"WithGroup":         {func(l *slog.Logger) *slog.Logger { return l.WithGroup("g") }, "g"},
		"both":              {func(l *slog.Logger) *slog.Logger { return l.With("a", 1).WithGroup("g").With("b", 2) }, "g"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			log := test.derive(slog.New(withTrace{slog.NewJSONHandler(&out, nil)}))
			log.InfoContext(inTrace(t.Context()), "hello", "own", true)
			line := decode(t, &out)
			if test.group != "" {
				line, _ = line[test.group].(map[string]any)
			}
			if line["trace_id"] != traceID || line["span_id"] != spanID || line["own"] != true {
				t.Errorf("ids and own attribute are not in %v", line)
			}

			out.Reset()
			log.InfoContext(t.Context(), "hello")
			if strings.Contains(out.String(), "_id") {
				t.Errorf("a line outside a trace has an id: %s", out.String())
			}
		})
	}
}

func decode(t *testing.T, r io.Reader) (line map[string]any) {
	t.Helper()
	if err := json.NewDecoder(r).Decode(&line); err != nil {
		t.Fatal(err)
	}
	return line
}

// setup calls Setup with these variables of OpenTelemetry and no others.
func setup(t *testing.T, variables map[string]string) (logged *lockedLog, flush func()) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
	logger := slog.Default()
	t.Cleanup(func() { slog.SetDefault(logger) })
	logged = &lockedLog{}
	return logged, Setup(t.Context(), logged, "shop", slog.LevelWarn)
}

// TestTextInALogLineMakesNoNewLine logs texts that a client may send.
func TestTextInALogLineMakesNoNewLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just("x\n{\"level\":\"ERROR\",\"msg\":\"forged\"}\n"), rapid.Just("\x1b[2J\r\u2028\x00")).Draw(t, "text")
		var out bytes.Buffer
		slog.New(withTrace{slog.NewJSONHandler(&out, nil)}).Info("message", "value", text, "error", errors.New(text))
		if lines := bytes.Count(out.Bytes(), []byte("\n")); lines != 1 || bytes.ContainsAny(bytes.TrimSpace(out.Bytes()), "\x00\x1b\r") || !json.Valid(out.Bytes()) {
			t.Errorf("%d lines: %q", lines, out.String())
		}
	})
}

// TestWithoutACollectorTraceIDsAreMadeAndLogged, and a span continues the trace of a traceparent.
func TestWithoutACollectorTraceIDsAreMadeAndLogged(t *testing.T) {
	logged, flush := setup(t, nil)
	defer flush()
	ctx, span := otel.Tracer("test").Start(t.Context(), "a span")
	defer span.End()
	slog.WarnContext(ctx, "hello")
	slog.InfoContext(ctx, "below the level")

	if !span.SpanContext().IsValid() || Traceparent(ctx) == "" {
		t.Errorf("the span has no ids: %v", span.SpanContext())
	}
	if span.IsRecording() {
		t.Error("the span records although there is no collector")
	}
	if lines := strings.Count(logged.String(), "\n"); lines != 1 {
		t.Fatalf("%d lines, want only the warning: %s", lines, logged)
	}
	line := decode(t, strings.NewReader(logged.String()))
	if line["service"] != "shop" || line["trace_id"] != span.SpanContext().TraceID().String() {
		t.Errorf("service and trace are not in %v", line)
	}
	ctx, child := otel.Tracer("test").Start(inTrace(t.Context()), "a span")
	defer child.End()
	if got := Traceparent(ctx); !strings.HasPrefix(got, "00-"+traceID+"-") || strings.Contains(got, spanID) {
		t.Errorf("traceparent %q, want the trace %s with a new span", got, traceID)
	}
}

// TestTheStandardVariableSamples: the trace of a message decides whether the spans for the message
// are sampled.
func TestTheStandardVariableSamples(t *testing.T) {
	collector := httptest.NewServer(http.NotFoundHandler())
	defer collector.Close()
	for sampler, want := range map[string]struct{ root, child bool }{
		"":                       {true, true},
		"always_off":             {false, false},
		"parentbased_always_off": {false, true},
	} {
		_, flush := setup(t, map[string]string{"OTEL_TRACES_SAMPLER": sampler, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL})
		_, root := otel.Tracer("test").Start(t.Context(), "root")
		_, child := otel.Tracer("test").Start(inTrace(t.Context()), "child of a sampled span")
		if root.SpanContext().IsSampled() != want.root || child.SpanContext().IsSampled() != want.child {
			t.Errorf("%q: sampled %t and %t, want %t and %t", sampler,
				root.SpanContext().IsSampled(), child.SpanContext().IsSampled(), want.root, want.child)
		}
		root.End()
		child.End()
		flush()
	}
}

// TestWhatAVariableSaysIsDoneOrIsOneWarning that names the variable, its value and what is done
// instead. A name without = is set to the empty text. Flush sends the spans that remain.
func TestWhatAVariableSaysIsDoneOrIsOneWarning(t *testing.T) {
	const endpoint, http4318 = "EXPORTER_OTLP_ENDPOINT", "http/protobuf is used, so the endpoint must be the collector's HTTP port"
	for variables, test := range map[string]struct {
		sent    bool
		warning string
	}{
		"":                                         {true, ""},
		"TRACES_EXPORTER=otlp":                     {true, ""},
		"TRACES_EXPORTER=none":                     {false, ""},
		"TRACES_EXPORTER=None":                     {false, ""},
		"TRACES_EXPORTER=console":                  {true, "otlp is used"},
		"TRACES_EXPORTER=otlp,console":             {true, "otlp is used"},
		"TRACES_EXPORTER=otlp " + endpoint:         {false, "OTEL_EXPORTER_OTLP_ENDPOINT is not set"},
		"TRACES_EXPORTER=zipkin " + endpoint:       {false, "OTEL_EXPORTER_OTLP_ENDPOINT is not set"},
		"EXPORTER_OTLP_PROTOCOL=grpc " + endpoint:  {false, ""},
		"SDK_DISABLED=true":                        {false, ""},
		"SDK_DISABLED=TRUE":                        {false, ""},
		"SDK_DISABLED=true TRACES_EXPORTER=zipkin": {false, ""},
		"SDK_DISABLED=false":                       {true, ""},
		"SDK_DISABLED=Yes":                         {true, "false is used"},
		"EXPORTER_OTLP_PROTOCOL=http/protobuf":     {true, ""},
		"EXPORTER_OTLP_PROTOCOL=http/json":         {true, ""},
		"EXPORTER_OTLP_PROTOCOL=grpc":              {true, http4318},
		"EXPORTER_OTLP_PROTOCOL=HTTP/JSON":         {true, http4318},
		"EXPORTER_OTLP_TRACES_PROTOCOL=tcp EXPORTER_OTLP_PROTOCOL=http/json":      {true, http4318},
		"EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf EXPORTER_OTLP_PROTOCOL=grpc": {true, ""},
		"EXPORTER_OTLP_COMPRESSION=gzip":                                          {true, ""},
		"EXPORTER_OTLP_COMPRESSION=zstd":                                          {true, "none is used"},
		"METRICS_EXPORTER=otlp":                                                   {true, "/metrics"},
		"LOGS_EXPORTER=otlp":                                                      {true, "JSON"},
		"METRICS_EXPORTER=none LOGS_EXPORTER=none":                                {true, ""},
		"METRICS_EXPORTER=otlp SDK_DISABLED=true":                                 {false, ""},
		"PROPAGATORS=tracecontext":                                                {true, ""},
		"PROPAGATORS=tracecontext,baggage":                                        {true, "tracecontext is used"},
		"PROPAGATORS=b3 SDK_DISABLED=true":                                        {false, "tracecontext is used"},
	} {
		t.Run(variables, func(t *testing.T) {
			var sent atomic.Bool
			collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				reader := io.Reader(r.Body)
				if r.Header.Get("Content-Encoding") == "gzip" {
					reader, _ = gzip.NewReader(r.Body)
				}
				body, _ := io.ReadAll(reader)
				sent.Store(r.URL.Path == "/v1/traces" && bytes.Contains(body, []byte("a span")) && bytes.Contains(body, []byte("shop")) &&
					(r.Header.Get("Content-Type") == "application/json") == (variables == "EXPORTER_OTLP_PROTOCOL=http/json"))
			}))
			t.Cleanup(collector.Close)
			set, first := map[string]string{"OTEL_" + endpoint: collector.URL}, ""
			for variable := range strings.FieldsSeq(variables) {
				name, value, _ := strings.Cut(variable, "=")
				set["OTEL_"+name] = value
				first = cmp.Or(first, fmt.Sprintf("OTEL_%s=%q", name, value))
			}
			logged, flush := setup(t, set)
			_, span := otel.Tracer("test").Start(t.Context(), "a span")
			if span.IsRecording() != test.sent || !span.SpanContext().IsValid() {
				t.Errorf("the span records: %t, its ids: %v", span.IsRecording(), span.SpanContext())
			}
			span.End()
			flush()
			if sent.Load() != test.sent {
				t.Errorf("sent: %t, want %t", sent.Load(), test.sent)
			}
			if test.warning == "" {
				if logged.String() != "" {
					t.Error(logged)
				}
				return
			}
			line := decode(t, strings.NewReader(logged.String()))
			text := fmt.Sprint(line["error"])
			if strings.Count(logged.String(), "\n") != 1 || line["level"] != "WARN" || !strings.Contains(text, first) || !strings.Contains(text, test.warning) {
				t.Errorf("the log is %s, want one warning with %s and %q", logged, first, test.warning)
			}
		})
	}
}

// TestAWrongVariableIsAWarning, and the service goes on: its spans have ids.
func TestAWrongVariableIsAWarning(t *testing.T) {
	collector := httptest.NewServer(http.NotFoundHandler())
	defer collector.Close()
	for _, wrong := range []string{
		"RESOURCE_ATTRIBUTES=team=shop,", "RESOURCE_ATTRIBUTES=team", "RESOURCE_ATTRIBUTES=team=%zz",
		"EXPORTER_OTLP_ENDPOINT=::bad::", "EXPORTER_OTLP_CERTIFICATE=/none", "TRACES_SAMPLER=nonsense",
		"BSP_MAX_QUEUE_SIZE=-1", "BSP_MAX_QUEUE_SIZE=99999999999999", "BSP_MAX_EXPORT_BATCH_SIZE=-1",
		"BSP_SCHEDULE_DELAY=0", "BSP_SCHEDULE_DELAY=5s",
	} {
		t.Run(wrong, func(t *testing.T) {
			name, value, _ := strings.Cut(wrong, "=")
			variables := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}
			variables["OTEL_"+name] = value
			logged, flush := setup(t, variables)
			before := logged.String()
			_, span := otel.Tracer("test").Start(t.Context(), "a span")
			span.End()
			flush()
			if !strings.Contains(before, `"level":"WARN"`) || !span.SpanContext().IsValid() {
				t.Errorf("the span is %v, and the log: %s", span.SpanContext(), before)
			}
		})
	}
}
