package history

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

const (
	headLine = `{"lockcheck":"history","version":1,"class":"lease"}` + "\n"
	noteLine = `{"index":0,"time_ns":5,"type":"event","op":"note"}` + "\n"
)

// sealed appends the right end line.
func sealed(body string) string {
	sum := sha256.Sum256([]byte(body))
	events := max(0, strings.Count(body, "index"))
	return string(appendEnd([]byte(body), int64(events), sum[:]))
}

func read(s string) (*History, error) { return ReadAll(strings.NewReader(s)) }

func TestRefused(t *testing.T) {
	event := func(fields string) string { return headLine + noteLine + `{"index":1,"time_ns":6,` + fields + "}\n" }
	cut := strings.TrimSuffix
	for _, c := range []struct {
		name, file, want string
		line             int
	}{
		{"empty", "", "empty", 1},
		{"blank", "\n\n", "empty", 1},
		{"header without newline", cut(headLine, "\n"), "not a whole line", 1},
		{"BOM", "\xef\xbb\xbf" + sealed(headLine), "byte order mark", 1},
		{"no header", noteLine, "not a lockcheck history", 1},
		{"rubbish", "hello\n", "not a lockcheck history", 1},
		{"end first", `{"lockcheck":"end"}` + "\n", "not a lockcheck history", 1},
		{"newer", `{"lockcheck":"history","version":2,"class":7}` + "\n", "version 2 is newer than this tool, which reads version 1", 1},
		{"version 0", `{"lockcheck":"history"}` + "\n", "version 0", 1},
		{"class", `{"lockcheck":"history","version":1,"class":"leese"}` + "\n", `class "leese"`, 1},
		{"bound", `{"lockcheck":"history","version":1,"bounds":{"loss_ns":"1s"}}` + "\n", "loss_ns", 1},
		{"started", `{"lockcheck":"history","version":1,"started":"today"}` + "\n", "started", 1},
		{"second header", headLine + noteLine + headLine, "second header", 3},
		{"count", strings.Replace(sealed(headLine+noteLine), `"events":1`, `"events":2`, 1), "counts 2 events, the file has 1", 3},
		{"no count", headLine + `{"lockcheck":"end"}` + "\n", "neither", 2},
		{"sum", strings.Replace(sealed(headLine+noteLine), "time_ns\":5", "time_ns\":4", 1), "sha256", 3},
		{"event after the end", sealed(headLine) + noteLine, "follows the end line", 3},
		{"blank after the end", sealed(headLine) + "\n", "follows the end line", 3},
		{"rest after the end", sealed(headLine) + "x", "follows the end line", 3},
		{"broken line", headLine + noteLine + "{\"index\":1,\n" + noteLine, "broken line", 3},
		{"broken last line", headLine + "{\"index\":1,\n", "broken line", 2},
		{"array", headLine + "[1]\n", "not a JSON object", 2},
		{"NUL", headLine + "{\"index\"\x00:1}\n", "NUL", 2},
		{"falling index", headLine + noteLine + strings.Replace(noteLine, ":5", ":6", 1), "index 0 after index 0", 3},
		{"negative index", headLine + strings.Replace(noteLine, "\":0", "\":-1", 1), "index -1", 2},
		{"time", headLine + noteLine + `{"index":1,"time_ns":4,"type":"event","op":"note"}` + "\n", "time_ns 4 after time_ns 5", 3},
		{"no type", event(`"op":"note"`), "needs index", 3},
		{"no index", headLine + `{"time_ns":4,"type":"event","op":"note"}` + "\n", "needs index", 2},
		{"type", event(`"type":"maybe","op":"note"`), `type "maybe"`, 3},
		{"op", event(`"type":"event","op":"acquire"`), `op "acquire" of type "event"`, 3},
		{"event as op", event(`"type":"invoke","op":"lost","process":"p"`), `op "lost"`, 3},
		{"error word", event(`"type":"event","op":"note","error":"bussy"`), `error "bussy"`, 3},
		{"effect", event(`"type":"event","op":"note","effect":"some"`), `effect "some"`, 3},
		{"mode", event(`"type":"event","op":"note","mode":"rw"`), `mode "rw"`, 3},
		{"renew", event(`"type":"event","op":"note","renew":"yes"`), `renew "yes"`, 3},
		{"phase", event(`"type":"event","op":"fault","phase":"middle"`), `phase "middle"`, 3},
		{"origin", event(`"type":"event","op":"fault","origin":"god"`), `origin "god"`, 3},
		{"hazard", event(`"type":"event","op":"fault","hazard":"paws"`), `hazard "paws"`, 3},
		{"register", event(`"type":"event","op":"register","register":"shut"`), `register "shut"`, 3},
		{"outcome", event(`"type":"event","op":"late","outcome":"yes"`), `outcome "yes"`, 3},
		{"twice", event(`"type":"event","op":"note","op":"note"`), `"op" appears twice`, 3},
		{"two keys", event(`"type":"event","op":"note","key":"a","key_b64":"YQ=="`), "twice", 3},
		{"key_b64", event(`"type":"event","op":"note","key_b64":"!"`), "base64", 3},
		{"fraction", event(`"type":"event","op":"note","count":1.5`), "integer", 3},
		{"token", event(`"type":"event","op":"note","token":"+5"`), "token", 3},
		{"token too large", event(`"type":"event","op":"note","token":"9223372036854775808"`), "token", 3},
		{"number as string", event(`"type":"event","op":"note","key":5`), "string", 3},
		{"structure", event(`"type":"ok","op":"acquire","process":"p1"`), "no open acquire", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := read(c.file)
			var s *SyntaxError
			if !errors.As(err, &s) || !strings.Contains(s.Problem, c.want) || s.Line != c.line {
				t.Fatalf("%v, want line %d with %q", err, c.line, c.want)
			}
			if start := lineStart(c.file, c.line); s.Byte < start || s.Byte > int64(len(c.file)) {
				t.Errorf("byte %d, the line starts at %d", s.Byte, start)
			}
		})
	}
}

// lineStart is the offset of a line, counted from 1.
func lineStart(s string, line int) int64 {
	n := int64(0)
	for _, l := range strings.SplitAfterN(s, "\n", line)[:line-1] {
		n += int64(len(l))
	}
	return n
}

func TestErrorNamesLineAndByte(t *testing.T) {
	_, err := read(headLine + "{\"index\" 1}\n")
	if want := fmt.Sprintf("line 2, byte %d: ", len(headLine)+9); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %q…", err, want)
	}
}

func TestErrorsStick(t *testing.T) {
	d, err := NewReader(strings.NewReader(headLine + "x\n" + noteLine))
	if err != nil {
		t.Fatal(err)
	}
	var e Event
	first := d.Next(&e)
	if second := d.Next(&e); first == nil || second != first {
		t.Errorf("first %v, then %v", first, second)
	}
}

func TestAccepted(t *testing.T) {
	note1 := strings.Replace(noteLine, `":0`, `":7`, 1)
	for _, c := range []struct {
		name, file string
		events     int
		truncated  bool
	}{
		{"nothing between", sealed(headLine), 0, false},
		{"whole", sealed(headLine + noteLine), 1, false},
		{"index with a gap", sealed(headLine + noteLine + note1), 2, false},
		{"blank lines", sealed("\n" + headLine + "\n \t\n" + noteLine + "\n"), 1, false},
		{"CR LF", sealed(strings.ReplaceAll(headLine+noteLine+"\n", "\n", "\r\n")), 1, false},
		{"CR LF to the end", strings.TrimSuffix(sealed("\r\n"+headLine+noteLine), "\n") + "\r\n", 1, false},
		{"blanks in a line", sealed(headLine + strings.NewReplacer(":", " :\t", ",", " , ").Replace(noteLine)), 1, false},
		{"no end line", headLine + noteLine, 1, true},
		{"header only", headLine, 0, true},
		{"torn line", headLine + noteLine + noteLine[:20], 1, true},
		{"whole line without newline", headLine + noteLine + strings.TrimSuffix(note1, "\n"), 1, true},
		{"end line without newline", strings.TrimSuffix(sealed(headLine+noteLine), "\n"), 1, true},
		{"zeros after a power cut", headLine + noteLine + strings.Repeat("\x00", 500), 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, file := range []string{c.file, string(zipped([]byte(c.file)))} {
				h, err := read(file)
				if err != nil {
					t.Fatal(err)
				}
				if len(h.Events) != c.events || h.Truncated != c.truncated || h.Warnings != nil {
					t.Errorf("%d events, truncated %v, %q; want %d, %v", len(h.Events), h.Truncated, h.Warnings, c.events, c.truncated)
				}
			}
		})
	}
}

func TestUnknownFieldsAreNamedInOneWarning(t *testing.T) {
	head := `{"lockcheck":"history","version":1,"colour":1,"bounds":{"taste_ns":1}}` + "\n"
	first := strings.Replace(noteLine, "{", `{"smell":{"a":[null,"\u00e9"]},`, 1)
	second := strings.Replace(strings.Replace(noteLine, `":0`, `":1`, 1), "{", `{"smell":0,"Op":"x","zoom":1e9,`, 1)
	h, err := read(sealed(head + first + second))
	if err != nil {
		t.Fatal(err)
	}
	want := "unknown fields ignored: Op, bounds.taste_ns, colour, smell, zoom"
	if len(h.Warnings) != 1 || h.Warnings[0] != want {
		t.Errorf("%q, want %q", h.Warnings, want)
	}
}

func TestLongLines(t *testing.T) {
	line := func(n int) string {
		return strings.Replace(noteLine, "}", `,"message":"`+strings.Repeat("m", n)+`"}`, 1)
	}
	file := sealed(headLine + line(10<<20))
	for what, r := range map[string]io.Reader{
		"at once":        strings.NewReader(file),
		"in half reads":  iotest.HalfReader(strings.NewReader(file)),
		"with EOF early": iotest.DataErrReader(strings.NewReader(file)),
	} {
		h, err := ReadAll(r)
		if err != nil || len(h.Events[0].Message) != 10<<20 {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := read(sealed(headLine + line(MaxLine)))
	var s *SyntaxError
	if !errors.As(err, &s) || s.Line != 2 || s.Byte != int64(len(headLine)) || !strings.Contains(s.Problem, "16 MiB") {
		t.Errorf("too long: %v", err)
	}
}

func TestReadErrorIsNoSyntaxError(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, n := range []int{0, 10, len(headLine), len(headLine) + 10} {
		_, err := ReadAll(io.MultiReader(strings.NewReader((headLine + noteLine)[:n]), iotest.ErrReader(broken)))
		var s *SyntaxError
		if !errors.Is(err, broken) || errors.As(err, &s) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	if _, err := ReadAll(io.MultiReader(strings.NewReader(sealed(headLine)), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("after the end line: %v", err)
	}
}

func TestTornGzipIsTruncated(t *testing.T) {
	var body strings.Builder
	body.WriteString(headLine)
	for i := range 5000 {
		fmt.Fprintf(&body, `{"index":%d,"time_ns":%d,"type":"event","op":"note","message":"%x"}`+"\n", i, i, sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	packed := zipped([]byte(sealed(body.String())))
	h, err := ReadAll(bytes.NewReader(packed[:len(packed)/2]))
	if err != nil || !h.Truncated || len(h.Events) < 1000 || len(h.Events) > 4000 {
		t.Errorf("half a file: %v", err)
	}
	packed[len(packed)/2] ^= 0xff
	_, err = ReadAll(bytes.NewReader(packed))
	if s := (*SyntaxError)(nil); !errors.As(err, &s) {
		t.Errorf("a flipped byte: %v", err)
	}
	_, err = ReadAll(strings.NewReader("\x1f\x8bxx"))
	if s := (*SyntaxError)(nil); !errors.As(err, &s) {
		t.Errorf("no gzip header: %v", err)
	}
}

func TestCloseEndsUnpacking(t *testing.T) {
	packed := zipped([]byte(headLine + strings.Repeat("\n", 8<<20)))
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		d, err := NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d.Close()
		d.Close()
	})
}

func TestGoldenHistories(t *testing.T) {
	files, err := filepath.Glob("../testdata/golden/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden histories: %v", err)
	}
	table, err := os.ReadFile("../testdata/golden/want.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h, err := ReadAll(bytes.NewReader(b))
		if err != nil || h.Truncated || h.Warnings != nil {
			t.Errorf("%s: %v, %+v", file, err, h)
			continue
		}
		if !bytes.Equal(written(t, h.Header, h.Events), b) {
			t.Errorf("%s: recorded again, it differs", file)
		}
		if !strings.Contains(string(table), filepath.Base(file)+"\t") {
			t.Errorf("%s: no wanted verdict", file)
		}
	}
}
