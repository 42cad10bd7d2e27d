package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nearest names the right word that is nearest to a wrong one.
func nearest(wrong string, right []string) string {
	best, least := "", len(wrong)+1
	for _, r := range right {
		if d := distance(strings.ToLower(wrong), strings.ToLower(r)); d < least {
			best, least = r, d
		}
	}
	if best == "" {
		return "it is one of " + strings.Join(right, ", ")
	}
	if least > max(2, len(wrong)/2) {
		return fmt.Sprintf("it is one of %s", strings.Join(right, ", "))
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// distance is the number of insertions, deletions and replacements between two
// words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := min(row[j]+1, row[j+1]+1, diagonal+cost(a[i], b[j]))
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

func cost(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}

// nearestFlag adds the flag that an unknown one may have meant.
func nearestFlag(cmd *cobra.Command, err error) string {
	_, wrong, found := strings.Cut(err.Error(), "unknown flag: --")
	if !found {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return "; " + nearest(wrong, names)
}
