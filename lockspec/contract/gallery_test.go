package contract_test

import (
	"hash/fnv"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference/broken"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TestGallery: the suite catches every broken lock by the findings that its row
// names, and no case fails of which the row does not say why. LOCKCHECK_FULL=1
// runs all cases against each; else it is those that must fail and a third of
// the others, another third for each lock. Where a
// machine stalls a case may be undecided, and a lock that is wrong somewhere may
// fail elsewhere, because what it holds outlasts a lease; then those cases are
// tried again.
func TestGallery(t *testing.T) {
	for _, l := range broken.Locks() {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			missed, extra, stalled := catch(t, l, l.Caught, some(l))
			for tries := 0; len(missed)+len(extra) > 0 && tries < 5; tries++ {
				again := extra
				for _, f := range missed {
					again = append(again, f.Case)
				}
				missed, extra, stalled = catch(t, l, missed, again)
			}
			switch {
			case len(extra) == 0 && len(missed) > 0 && stalled:
				t.Logf("undecided, because this machine stalled: %v", missed)
			case len(missed)+len(extra) > 0:
				t.Errorf("no findings %v; failed too: %v", missed, extra)
			}
		})
	}
}

// some are the cases that a broken lock is tried with; nil: all.
func some(l broken.Lock) (ids []string) {
	if os.Getenv("LOCKCHECK_FULL") != "" {
		return nil
	}
	for _, f := range l.Caught {
		ids = append(ids, f.Case)
	}
	for _, c := range contract.Cases() {
		h := fnv.New32a()
		_, _ = io.WriteString(h, l.Name+" "+c.ID)
		if h.Sum32()%3 == 0 {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// catch runs some cases, or all for none, against a broken lock. It says which
// findings it missed, and which cases failed though nothing says why. A machine
// that stalled for longer than a case has an answer for may be why something was
// missed, if the case did not pass: what it found may rest on nobody's having
// lost a lease, and then it says nothing.
func catch(t *testing.T, l broken.Lock, wanted []broken.Finding, ids []string) (missed []broken.Finding, extra []string, stalled bool) {
	t.Helper()
	lab := newLab(t, fault{backend: l.Backend, client: l.Client, misdirected: refusing{}})
	r, err := contract.Check(t.Context(), lab, &contract.Options{Lease: labLease, Seed: 1, Workers: labWorkers,
		Only: func(c *contract.Case) bool { return len(ids) == 0 || slices.Contains(ids, c.ID) }})
	if err != nil {
		t.Fatal(err)
	}
	stalled = r.Environment.MaxStall > int64(labLease/10)
	for _, f := range wanted {
		if why := finds(r, f.Case, f.Kind, f.Rule); why != nil {
			t.Logf("%s: %v", f.Case, why)
			missed = append(missed, f)
			stalled = stalled && statusOf(r, f.Case) != result.Pass
		}
	}
	for _, c := range r.Cases {
		if (c.Status == result.Fail || c.Status == result.Error) && !explained(l, c.ID) {
			t.Logf("%s is %s too: %s", c.ID, c.Status, c.Reason)
			extra = append(extra, c.ID)
		}
	}
	return missed, extra, stalled
}

func statusOf(r *result.Report, id string) result.Status {
	for i := range r.Cases {
		if r.Cases[i].ID == id {
			return r.Cases[i].Status
		}
	}
	return ""
}

// explained says whether a row says why the case fails.
func explained(l broken.Lock, id string) bool {
	_, also := l.Also[id]
	return also || slices.ContainsFunc(l.Caught, func(f broken.Finding) bool { return f.Case == id })
}

// TestGalleryRows: every row says what it stands for and what catches it, and
// names cases that there are.
func TestGalleryRows(t *testing.T) {
	known := map[string]bool{}
	for _, c := range contract.Cases() {
		known[c.ID] = true
	}
	for _, l := range broken.Locks() {
		if l.Means == "" || len(l.Reports) == 0 || len(l.Caught) == 0 || l.Backend == nil && l.Client == nil {
			t.Errorf("%s: an incomplete row", l.Name)
		}
		for _, f := range l.Caught {
			if !known[f.Case] {
				t.Errorf("%s: there is no case %s", l.Name, f.Case)
			}
		}
	}
}
