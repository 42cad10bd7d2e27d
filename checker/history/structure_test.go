package history

import (
	"fmt"
	"strings"
	"testing"
)

// script is events in short: "p1 invoke acquire [tenure]", "@" before the
// process names a case.
func script(t *testing.T, s string) []Event {
	t.Helper()
	var events []Event
	for line := range strings.SplitSeq(s, ";") {
		f := strings.Fields(line)
		if len(f) < 3 {
			t.Fatalf("bad script line %q", line)
		}
		e := Event{Process: f[0], Type: Type(f[1]), Op: Op(f[2])}
		if scope, name, ok := strings.Cut(f[0], "@"); ok {
			e.Case, e.Process = scope, name
		}
		if len(f) > 3 {
			e.Tenure = f[3]
		}
		if e.Process == "-" {
			e.Process, e.Node = "", "n1"
		}
		events = append(events, e)
	}
	return events
}

const taken = "p invoke acquire; p ok acquire t;"

func TestStructure(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"a tenure", taken + "p invoke renew t; p ok renew t; p invoke held t; p fail held t; p invoke release t; p info release t", ""},
		{"again after", "p invoke acquire; p fail acquire; p invoke acquire", ""},
		{"two processes", "p invoke acquire; q invoke acquire; q ok acquire t; p fail acquire", ""},
		{"questions while it works", taken + "p invoke write t; p invoke held t; p ok held t; p invoke renew t; p ok renew t; p invoke release t; p ok release t; p ok write t", ""},
		{"work while it asks", taken + "p invoke renew t; p invoke write t", ""},
		{"renew in a section", "p invoke section; p invoke renew t; p ok section t", ""},
		{"racing releases", taken + "p invoke release t; p invoke release t; p ok release t; p fail release t; p invoke release t", ""},
		{"cancel", "p invoke acquire; p invoke cancel; p info acquire; p ok cancel", ""},
		{"shutdown of a node", "p invoke acquire; - invoke shutdown; p info acquire; - ok shutdown", ""},
		{"late grant released", "p invoke acquire; p info acquire; p event late t; p invoke release t; p ok release t", ""},
		{"unknown renew retires nobody", taken + "p invoke renew t; p info renew t; p invoke release t", ""},
		{"same name in another case", "a@p invoke acquire; a@p info acquire; b@p invoke acquire; b@p ok acquire", ""},

		{"return without invoke", "p ok acquire t", "no open acquire"},
		{"return of something else", "p invoke acquire; p ok release t", "no open release"},
		{"second return", "p invoke acquire; p ok acquire t; p ok acquire t", "no open acquire"},
		{"return of another process", "p invoke acquire; q ok acquire", "no open acquire"},
		{"return in another case", "a@p invoke acquire; b@p ok acquire", "no open acquire"},
		{"two acquires", "p invoke acquire; p invoke acquire", "acquire while its acquire is open"},
		{"renew in an acquire", "p invoke acquire; p invoke renew t", "renew while its acquire"},
		{"two questions", taken + "p invoke renew t; p invoke held t", "held while its renew"},
		{"question about another tenure", taken + "p invoke write t; p invoke held u", "held while its write"},
		{"releases of two tenures", taken + "p invoke release t; p invoke release u", "release while its release"},
		{"two writes", taken + "p invoke write t; p invoke write t", "write while its write"},
		{"used after an unknown acquire", "p invoke acquire; p info acquire; p invoke acquire", "retired"},
		{"used after an unknown section", "p invoke section; p info section; p invoke held", "retired"},
		{"nobody's acquire", "- invoke acquire", "without a process"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v Validator
			events := script(t, c.script)
			for i := range events {
				err := v.Check(&events[i])
				if last := i == len(events)-1; err != nil && (!last || c.want == "") {
					t.Fatalf("event %d: %v", i, err)
				} else if last && c.want != "" && !strings.Contains(fmt.Sprint(err), c.want) {
					t.Fatalf("%v, want %q", err, c.want)
				}
			}
		})
	}
}
