package checker_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
)

// TestGolden judges histories that naive rules judge wrongly.
func TestGolden(t *testing.T) {
	for _, row := range wanted(t) {
		t.Run(row.file, func(t *testing.T) {
			v := judgeFile(t, filepath.Join("testdata", "golden", row.file))
			if string(v.Outcome) != row.want {
				t.Errorf("%s: %s, want %s", row.about, v.Outcome, row.want)
				for _, f := range append(v.Findings, v.Doubts...) {
					t.Logf("%s %s (%s): %s", f.Kind, f.Rule, f.Certainty, f.Message)
				}
			}
		})
	}
}

type wantRow struct{ file, want, about string }

func wanted(t *testing.T) []wantRow {
	f, err := os.Open(filepath.Join("testdata", "golden", "want.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []wantRow
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		cols := strings.Split(lines.Text(), "\t")
		if len(cols) == 3 && strings.HasSuffix(cols[0], ".jsonl") {
			rows = append(rows, wantRow{cols[0], cols[1], cols[2]})
		}
	}
	if len(rows) == 0 {
		t.Fatal("want.tsv has no rows")
	}
	return rows
}

func judgeFile(t *testing.T, path string) *checker.Verdict {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := history.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return checker.Judge(&h.Header, h.Events)
}
