package chaos

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// tape is a world and a recorder in one: it writes down in which order things
// happened to it.
type tape struct {
	did         []string
	land, heals error
}

func (w *tape) Record(e *history.Event) int64 {
	w.did = append(w.did, string(e.Phase))
	return int64(len(w.did))
}

func (w *tape) Can(Fault) error { return nil }

func (w *tape) Strike(context.Context, Fault, string) (func(context.Context) error, error) {
	w.did = append(w.did, "strike")
	return func(ctx context.Context) error {
		if ctx.Err() != nil {
			w.did = append(w.did, "healed too late")
		}
		w.did = append(w.did, "heal")
		return w.heals
	}, w.land
}

// TestPhases: start is stamped before the fault is applied, landed after it was
// confirmed, end after its healing was; what did not happen is not recorded.
func TestPhases(t *testing.T) {
	broken := errors.New("no such process")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name string
		ctx  context.Context
		w    tape
		want []string
		err  error
	}{
		{"lands and heals", t.Context(), tape{}, []string{"start", "strike", "landed", "healing", "heal", "end"}, nil},
		{"does not land", t.Context(), tape{land: broken}, []string{"start", "strike"}, broken},
		{"does not heal", t.Context(), tape{heals: broken}, []string{"start", "strike", "landed", "healing", "heal"}, broken},
		{"interrupted", cancelled, tape{}, []string{"start", "strike", "landed", "healing", "heal", "end"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			began := time.Now()
			err := perform(test.ctx, &test.w, &test.w, "f1", Step{Fault: "pause", Node: "n1", For: 20 * time.Millisecond})
			if !errors.Is(err, test.err) || !slices.Equal(test.w.did, test.want) {
				t.Errorf("%v, %v; want %v", test.w.did, err, test.want)
			}
			if test.ctx.Err() == nil && test.err == nil && time.Since(began) < 20*time.Millisecond {
				t.Error("healed too soon")
			}
		})
	}
}

// TestTables: every scenario's plan uses faults that there are, and maps only
// to hazards that some class may declare.
func TestTables(t *testing.T) {
	known := map[string]Fault{}
	for _, f := range Faults() {
		if _, twice := known[f.Name]; twice {
			t.Errorf("fault %s is there twice", f.Name)
		}
		known[f.Name] = f
		if f.Hazard != "" && !slices.Contains(lockspec.Hazards(), f.Hazard) {
			t.Errorf("fault %s maps to the unknown hazard %s", f.Name, f.Hazard)
		}
	}
	last := ""
	for _, c := range Cases() {
		if c.ID <= last {
			t.Errorf("%s comes after %s", c.ID, last)
		}
		last = c.ID
		for seed := range int64(200) {
			p, ok := Plan(c.ID, contract.Rand(seed, c.ID), time.Second)
			if !ok || len(p.Steps) == 0 {
				t.Fatalf("%s has no plan", c.ID)
			}
			for _, s := range p.Steps {
				if _, ok := known[s.Fault]; !ok || s.Grant < 1 || s.Into < 0 || s.Into >= time.Second/2 {
					t.Errorf("%s, seed %d: %+v", c.ID, seed, s)
				}
			}
		}
	}
}
