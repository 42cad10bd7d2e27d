package contract_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference/broken"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TestGallery: the whole suite catches every broken lock by the findings that
// its row names, and no case fails of which the row does not say why. A machine
// that stalls may leave a case undecided; then all is tried again.
func TestGallery(t *testing.T) {
	for _, l := range broken.Locks() {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			if wrong := eventually(3, func() error { return caught(t, l) }); wrong != nil {
				t.Error(wrong)
			}
		})
	}
}

// caught says what the suite missed, or found that it should not.
func caught(t *testing.T, l broken.Lock) error {
	lab := newLab(t, fault{backend: l.Backend, client: l.Client, misdirected: refusing{}})
	r, err := contract.Check(t.Context(), lab, &contract.Options{Lease: labLease, Seed: 1})
	if err != nil {
		return err
	}
	var wrong []string
	named := map[string]bool{}
	for _, f := range l.Caught {
		named[f.Case] = true
		if missed := finds(r, f.Case, f.Kind, f.Rule); missed != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", f.Case, missed))
		}
	}
	for _, c := range r.Cases {
		if c.Status != result.Fail && c.Status != result.Error {
			continue
		}
		if _, explained := l.Also[c.ID]; !named[c.ID] && !explained {
			wrong = append(wrong, fmt.Sprintf("%s is %s too: %s", c.ID, c.Status, c.Reason))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
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
