package chaos

import "github.com/lockcheck/lockcheck/lockspec"

// Fault is one kind of fault.
type Fault struct {
	Name    string
	Hazard  lockspec.Hazard // the hazard word that it maps to; empty: none, it excuses nothing
	Strikes string          // node, link, clock, service, key
	Means   string
}

// faults is the table of faults.
var faults = []Fault{
	{"pause", lockspec.Pause, "node", "the node's processes are stopped (SIGSTOP) and continued later"},
	{"kill", "", "node", "the node's processes are killed (SIGKILL)"},
}

// Faults is the table of faults.
func Faults() []Fault { return append([]Fault(nil), faults...) }

func fault(name string) Fault {
	for _, f := range faults {
		if f.Name == name {
			return f
		}
	}
	panic("no fault is named " + name)
}
