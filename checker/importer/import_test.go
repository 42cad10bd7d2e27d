package importer_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/checker/importer"
)

func load(t testing.TB, path string, o *importer.Options) *history.History {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := importer.Import(bytes.NewReader(src), importer.Sniff(src), o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func verdict(t testing.TB, h *history.History, model string) *checker.Summary {
	t.Helper()
	m, err := checker.ParseModel(model)
	if err != nil {
		t.Fatal(err)
	}
	s := checker.NewStream(&h.Header, m, &checker.StreamOptions{Workers: 1})
	for i := range h.Events {
		s.Add(&h.Events[i])
	}
	return s.Close()
}

// brief is a history in a line an event.
func brief(h *history.History) string {
	var b strings.Builder
	for _, e := range h.Events {
		fmt.Fprintf(&b, "%d %s %s %s %s %s", e.Time, e.Process, e.Op, e.Type, e.Error, e.Tenure)
		if e.Token != 0 {
			fmt.Fprintf(&b, " token=%d", e.Token)
		}
		b.WriteByte('\n')
	}
	return strings.ReplaceAll(b.String(), "  ", " ")
}

func TestEDN(t *testing.T) {
	h := load(t, filepath.Join("testdata", "mutex.edn"), nil)
	const want = `1000 0 acquire invoke 
2000 0 acquire ok t1 token=7
3000 0 release invoke t1
4000 0 release fail not-held t1
5000 1 acquire invoke 
6000 1 acquire ok t2 token=8
7000 2 acquire invoke 
8000 2 acquire info unavailable 
`
	if got := brief(h); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], "nemesis") {
		t.Errorf("warnings %q", h.Warnings)
	}
	if got := verdict(t, h, "mutex").Outcome; got != checker.Failed {
		t.Errorf("as a mutex: %s", got)
	}
	if got := verdict(t, h, "owner").Outcome; got != checker.Pass {
		t.Errorf("as an owner's lock: %s", got)
	}
}

// TestEDNForms: a vector of maps, records, keys, other words.
func TestEDNForms(t *testing.T) {
	for name, src := range map[string]string{
		"vector":  `[{:type :invoke :f :lock :process 0 :time 1} {:type :ok :f :lock :process 0 :time 2}]`,
		"records": "#jepsen.history.Op{:type :invoke :f :lock :process 0 :time 1}\n#jepsen.history.Op{:type :ok :f :lock :process 0 :time 2}",
		"comment": "{:type :invoke :f :acquire :process 0 :time 1} #_{:type :ok} ; no\n{:type :ok, :f :acquire, :process 0, :time 2}",
		"extra":   `{:type :invoke :f :acquire :process 0 :time 1 :x #{1 2 \a \newline} :y ^:m [1.5 "a\"\u00e9\n" 1e9 -3 10N sym nil true]} {:type :ok :f :acquire :process 0 :time 2}`,
	} {
		h, err := importer.Import(strings.NewReader(src), importer.EDN, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := brief(h); got != "1 0 acquire invoke \n2 0 acquire ok t1\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
	h, err := importer.Import(strings.NewReader(`{:type :invoke :f :acquire :process 0 :value [:a nil]} {:type :ok :f :acquire :process 0 :value [:a 9]}`), importer.EDN, nil)
	if err != nil || h.Events[1].Key != "a" || h.Events[1].Token != 9 {
		t.Errorf("independent keys: %+v, %v", h, err)
	}
}

// TestKnossos judges the lock history of etcd that the Knossos project keeps
// as a bad one, in both readings. The file is not part of this project.
func TestKnossos(t *testing.T) {
	path := os.Getenv("LOCKCHECK_KNOSSOS")
	if path == "" {
		t.Skip("LOCKCHECK_KNOSSOS names no file")
	}
	h := load(t, path, nil)
	if n := len(h.Events); n != 1123 { // and 12 of the nemesis
		t.Errorf("%d events", n)
	}
	bad := verdict(t, h, "mutex")
	if bad.Outcome != checker.Failed || len(bad.Findings[0].Tenures) != 2 {
		t.Errorf("as a mutex: %+v", bad)
	} else {
		t.Log(bad.Findings[0].Message, bad.Findings[0].Events)
	}
	if good := verdict(t, h, "owner"); good.Outcome != checker.Pass {
		t.Errorf("as an owner's lock: %v", good.Findings)
	}
}

func TestOperations(t *testing.T) {
	h := load(t, filepath.Join("testdata", "operations.json"), nil)
	const want = `0 0 acquire invoke 
5 1 acquire invoke 
8 1 acquire fail busy 
10 0 acquire ok t1
20 0 release invoke t1
20 1 acquire invoke 
25 1 acquire ok t2 token=7
26 2 acquire invoke 
30 0 release ok t1
`
	if got := brief(h); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestTies: equal times are concurrent, but not within one process; a hold of
// no length conflicts with whatever is strictly around it.
func TestTies(t *testing.T) {
	hand := `[{"ClientId":0,"Input":"acquire","Call":0,"Output":true,"Return":10},{"ClientId":0,"Input":"release","Call":20,"Output":true,"Return":30},
	          {"ClientId":1,"Input":"acquire","Call":5,"Output":true,"Return":%d},{"ClientId":1,"Input":"release","Call":%d,"Output":true,"Return":40}]`
	for _, row := range []struct {
		at   int
		want checker.Outcome
	}{{15, checker.Failed}, {20, checker.Pass}, {10, checker.Failed}} {
		h, err := importer.Import(strings.NewReader(fmt.Sprintf(hand, row.at, row.at)), importer.Operations, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := verdict(t, h, "mutex").Outcome; got != row.want {
			t.Errorf("a hold of no length at %d: %s, want %s\n%s", row.at, got, row.want, brief(h))
		}
	}
}

func TestOTLP(t *testing.T) {
	path := filepath.Join("testdata", "traces.json")
	h := load(t, path, nil)
	if got := verdict(t, h, "owner"); got.Outcome != checker.Failed {
		t.Errorf("the holds overlap by 3 ms: %s\n%s", got.Outcome, brief(h))
	}
	h = load(t, path, &importer.Options{ClockError: 5 * time.Millisecond})
	if got := verdict(t, h, "owner"); got.Outcome != checker.Pass {
		t.Errorf("but the clocks differ by up to 5 ms: %v\n%s", got.Findings, brief(h))
	}
	h = load(t, path, &importer.Options{ClockError: time.Millisecond})
	if got := verdict(t, h, "lease"); got.Outcome != checker.Failed {
		t.Errorf("1 ms does not explain it: %s\n%s", got.Outcome, brief(h))
	}
}

func TestOTLPNames(t *testing.T) {
	src := strings.NewReplacer("lock.hold", "critical", "lock.acquire", "take", "lock.release", "give", "lock.key", "k").Replace(read(t, filepath.Join("testdata", "traces.json")))
	if _, err := importer.Import(strings.NewReader(src), importer.OTLP, nil); err == nil {
		t.Error("no span has a known name")
	}
	o := &importer.Options{Spans: importer.SpanNames{Acquire: "take", Hold: "critical", Release: "give", Key: "k"}}
	h, err := importer.Import(strings.NewReader(src), importer.OTLP, o)
	if err != nil || len(h.Events) != 8 || h.Events[0].Key != "orders/42" {
		t.Errorf("%v\n%s", err, brief(h))
	}
}

// TestShortHold: a hold shorter than the clock error is nobody's for certain.
func TestShortHold(t *testing.T) {
	h := load(t, filepath.Join("testdata", "traces.json"), &importer.Options{ClockError: 60 * time.Millisecond})
	if len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], "shorter than the clock error") {
		t.Errorf("warnings %q\n%s", h.Warnings, brief(h))
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSniff(t *testing.T) {
	for src, want := range map[string]importer.Format{
		`{"lockcheck":"history","version":1}`:      importer.JSONL,
		"\x1f\x8b\x08":                             importer.JSONL,
		` [{:type :invoke`:                         importer.EDN,
		"{:type :invoke":                           importer.EDN,
		"#jepsen.history.Op{:index 0":              importer.EDN,
		"; a comment":                              importer.EDN,
		`{"resourceSpans":[`:                       importer.OTLP,
		`[{"ClientId":0,"Input":"lock","Call":0}]`: importer.Operations,
		"":            importer.JSONL,
		`{"index":0}`: importer.JSONL,
	} {
		if got := importer.Sniff([]byte(src)); got != want {
			t.Errorf("%q is %s, want %s", src, got, want)
		}
	}
}

// TestBadInput: every one is refused with its place, never with a verdict.
func TestBadInput(t *testing.T) {
	const in = `{:type :invoke :f :acquire :process 0 :time 1 :index 0}`
	rows := []struct {
		name   string
		format importer.Format
		src    string
		line   int
		want   string
	}{
		{"an empty file", importer.EDN, "", 1, "no operation"},
		{"a return before its call", importer.EDN, "\n{:type :ok :f :acquire :process 0}", 2, "no open acquire"},
		{"a second return", importer.EDN, in + "\n{:type :ok :f :acquire :process 0}\n{:type :ok :f :acquire :process 0}", 3, "no open acquire"},
		{"two open operations", importer.EDN, in + "\n{:type :invoke :f :release :process 0}", 2, "while its acquire is open"},
		{"a return of another operation", importer.EDN, in + "\n{:type :ok :f :release :process 0}", 2, "no open release"},
		{"an index twice", importer.EDN, in + "\n{:type :ok :f :acquire :process 0 :index 0}", 2, "index 0 a second time"},
		{"a time that is none", importer.EDN, "{:type :invoke :f :acquire :process 0 :time :soon}", 1, "no number"},
		{"no process", importer.EDN, "{:type :invoke :f :acquire}", 1, "without :process"},
		{"no type", importer.EDN, in + "{:f :acquire :process 0}", 1, "unknown :type"},
		{"a cut vector", importer.EDN, "[" + in, 1, "never closed"},
		{"a cut map", importer.EDN, in + "\n{:type :ok :f", 2, "never closed"},
		{"a cut string", importer.EDN, `{:type "`, 1, "never closed"},
		{"an odd map", importer.EDN, `{:type}`, 1, "no value"},
		{"something after the vector", importer.EDN, "[" + in + "]\n{}", 2, "follows"},
		{"no map", importer.EDN, ":a", 1, "must be a map"},
		{"a NUL byte", importer.EDN, "{:ty\x00pe :ok}", 1, "NUL"},
		{"nested 10,000 deep", importer.EDN, "{:value " + strings.Repeat("[", 10_000), 1, "deep"},
		{"discards nested 10,000 deep", importer.EDN, strings.Repeat("#_", 10_000), 1, "deep"},
		{"tags nested 10,000 deep", importer.EDN, strings.Repeat("#a ", 10_000), 1, "deep"},
		{"the name of an unknown acquire again", importer.EDN, in + "\n{:type :info :f :acquire :process 0}\n{:type :invoke :f :acquire :process 0}", 3, "retired"},
		{"returned before it was called", importer.Operations, "[\n" + `{"ClientId":0,"Input":"lock","Call":9,"Output":true,"Return":3}]`, 2, "before it was called"},
		{"no call", importer.Operations, `[{"ClientId":0,"Input":"lock"}]`, 1, "without Call"},
		{"no client", importer.Operations, `[{"Input":"lock","Call":1}]`, 1, "without ClientId"},
		{"an unknown operation", importer.Operations, `[{"ClientId":0,"Input":"jump","Call":1}]`, 1, "unknown operation"},
		{"an unknown outcome", importer.Operations, `[{"ClientId":0,"Input":"lock","Call":1,"Output":"perhaps","Return":2}]`, 1, "unknown outcome"},
		{"two open operations of a client", importer.Operations, `[{"ClientId":0,"Input":"lock","Call":1,"Output":true,"Return":9},` + "\n" + `{"ClientId":0,"Input":"lock","Call":3,"Output":true,"Return":8}]`, 2, "while its acquire is open"},
		{"a cut list", importer.Operations, `[{"ClientId":0,"Input":"lock","Call":1}`, 1, "never closed"},
		{"nothing", importer.Operations, `[]`, 1, "nothing"},
		{"a NUL byte in JSON", importer.OTLP, "{\"resourceSpans\":\x00[]}", 1, "NUL"},
		{"no such span", importer.OTLP, `{"resourceSpans":[]}`, 1, "no span is named"},
		{"a span that ends before it starts", importer.OTLP, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"lock.hold","startTimeUnixNano":"5","endTimeUnixNano":"4"}]}]}]}`, 1, "before it starts"},
		{"a span without times", importer.OTLP, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"lock.hold"}]}]}]}`, 1, "no times"},
		{"a token that is none", importer.OTLP, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"lock.hold","startTimeUnixNano":"5","endTimeUnixNano":"6","attributes":[{"key":"lock.token","value":{"stringValue":"x"}}]}]}]}]}`, 1, "no number"},
		{"broken JSON", importer.OTLP, "{\"resourceSpans\":\n[}", 2, "invalid character"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := importer.Import(strings.NewReader(row.src), row.format, nil)
			var syntax *history.SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("got %v", err)
			}
			if syntax.Line != row.line || !strings.Contains(syntax.Problem, row.want) {
				t.Errorf("got %v; want line %d, %q", err, row.line, row.want)
			}
		})
	}
	if _, err := importer.Import(strings.NewReader(""), "yaml", nil); err == nil {
		t.Error("no format is called yaml")
	}
}

// FuzzImport: whatever the bytes, no panic, and what is taken is well-formed.
func FuzzImport(f *testing.F) {
	for _, name := range []string{"mutex.edn", "traces.json", "operations.json"} {
		f.Add(read(f, filepath.Join("testdata", name)), int64(0))
		f.Add(read(f, filepath.Join("testdata", name)), int64(60e6))
	}
	f.Add(`[{:type :invoke :f :lock :process 0 :value [1 {:owner "x"}]} #jepsen.history.Op{:type :ok}]`, int64(1))
	f.Fuzz(func(t *testing.T, src string, clock int64) {
		for _, format := range []importer.Format{importer.EDN, importer.OTLP, importer.Operations} {
			h, err := importer.Import(strings.NewReader(src), format, &importer.Options{ClockError: time.Duration(clock % 1e9)})
			if err != nil {
				continue
			}
			for i, e := range h.Events {
				if e.Index != int64(i) || i > 0 && e.Time < h.Events[i-1].Time {
					t.Fatalf("%s: event %d is out of order", format, i)
				}
			}
			verdict(t, h, "lease")
			checker.Judge(&h.Header, h.Events)
		}
	})
}
