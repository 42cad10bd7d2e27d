package reference_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// apiCases are the cases of the contract that are promises of the engine's Go
// API, so that no suite can try them on another lock. Each has a test of this
// package whose name begins with Test, the ID and an underscore.
var apiCases = []string{
	"A08", "B05", "B10", "B11", "C01", "C04", "C05", "C06", "C08", "C10", "C11",
	"D04", "D05", "D06", "D13", "E05", "E13", "E16", "F06", "G09", "H04", "H06", "H07",
}

func TestEveryCaseHasItsTest(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`(?m)^func Test([A-J][0-9]{2})_`)
	var tested []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllSubmatch(text, -1) {
			tested = append(tested, string(m[1]))
		}
	}
	for _, id := range apiCases {
		if !slices.Contains(tested, id) {
			t.Errorf("case %s has no test", id)
		}
	}
}
