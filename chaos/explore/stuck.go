package explore

import "strings"

// waiting is those goroutines of a dump that are in a bubble, leaving out the
// ones that synctest and testing keep. Where, is a word that the first line must
// have.
func waiting(dump []byte, where string) string {
	var out []string
	for _, g := range strings.Split(string(dump), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		if strings.Contains(head, "synctest bubble") && !strings.Contains(head, "[synctest.Run") && strings.Contains(head, where) {
			out = append(out, g)
		}
	}
	return strings.Join(out, "\n\n")
}
