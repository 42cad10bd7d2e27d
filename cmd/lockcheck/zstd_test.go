package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reports/result"
)

// turns is a whole history in which n tenures follow one another, or all are
// open at once.
func turns(t *testing.T, n int, overlap bool) []byte {
	t.Helper()
	var out bytes.Buffer
	r, err := history.NewRecorder(history.Header{Class: lockspec.Memory}, &history.Options{Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		e := history.Event{Process: fmt.Sprint("p", i), Key: "k", Type: history.Invoke, Op: history.Acquire}
		r.Record(&e)
		e.Type, e.Tenure = history.OK, fmt.Sprint("t", i)
		r.Record(&e)
		if overlap {
			continue
		}
		e.Type, e.Op = history.Invoke, history.Release
		r.Record(&e)
		e.Type = history.OK
		r.Record(&e)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// packed packs into small blocks, so that a stream that stops short has given
// some of what it holds.
func packed(t *testing.T, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderCRC(true))
	if err != nil {
		t.Fatal(err)
	}
	for len(plain) > 0 {
		n, err := w.Write(plain[:min(4096, len(plain))])
		if err == nil {
			err = w.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		plain = plain[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestCheckZstd: a packed history is judged like a plain one, from a file and
// from standard input; what is missing or broken is said, never guessed.
func TestCheckZstd(t *testing.T) {
	good, wrong := packed(t, turns(t, 500, false)), packed(t, turns(t, 2, true))
	changed := bytes.Clone(good)
	changed[len(changed)/2] ^= 0x55
	edn := packed(t, []byte(failedRelease))
	rows := []struct {
		name string
		src  []byte
		args []string
		want result.Exit
		says string
	}{
		{"whole", good, nil, result.ExitOK, ""},
		{"whole, as a model", good, []string{"--model", "mutex"}, result.ExitOK, ""},
		{"an overlap", wrong, nil, result.ExitViolation, "t1"},
		{"cut off in the middle", good[:len(good)/2], nil, result.ExitInconclusive, "cut off"},
		{"cut off in the middle, as a model", good[:len(good)/2], []string{"--model", "mutex"}, result.ExitInconclusive, "no end line"},
		{"cut off in its head", good[:5], nil, result.ExitUsage, "empty"},
		{"changed", changed, nil, result.ExitUsage, ""},
		{"changed, as a model", changed, []string{"--model", "mutex"}, result.ExitUsage, ""},
		{"rubbish behind the magic", append(bytes.Clone(zstdMagic), "rubbish, more rubbish"...), nil, result.ExitUsage, "broken zstd"},
		{"rubbish behind the end", append(bytes.Clone(good), "rubbish"...), nil, result.ExitUsage, "broken zstd"},
		{"two histories", append(bytes.Clone(good), good...), nil, result.ExitUsage, "something follows the end line"},
		{"of another format", edn, []string{"--model", "owner"}, result.ExitOK, ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "h.jsonl.zst")
			if err := os.WriteFile(path, row.src, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, from := range []string{path, "-"} {
				c := &cli{in: string(row.src)}
				c.run(t, append([]string{"check", from}, row.args...)...).want(t, row.want)
				if !strings.Contains(c.out+c.err, row.says) {
					t.Errorf("%s: does not say %q:\n%s%s", from, row.says, c.out, c.err)
				}
			}
		})
	}
}
