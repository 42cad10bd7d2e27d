package result

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/lockcheck/lockcheck/checker/history"
)

// ReadReport reads a results.json, wherever it lies. One of another schema is
// refused by name.
func ReadReport(path string) (*Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("%s: schema %q, this tool reads %q", path, r.Schema, Schema)
	}
	return &r, nil
}

// Against holds the report against an earlier one: what was verified then must
// not silently be left out now. A case that fails, is an error or undecided has
// an exit code of its own; what is caught here is the case that is no longer
// tried, and the claim that is no longer made. Cases that whoever runs has
// filtered out are not missed.
func (r *Report) Against(base *Report, filtered func(id string) bool) {
	now := map[string]*Case{}
	for i := range r.Cases {
		now[r.Cases[i].ID] = &r.Cases[i]
	}
	for i := range base.Cases {
		old := &base.Cases[i]
		if old.Status != Pass && old.Status != Hazard || filtered(old.ID) {
			continue
		}
		switch c := now[old.ID]; {
		case c == nil:
			r.Gate = append(r.Gate, fmt.Sprintf("%s was %s in the baseline and is gone", old.ID, old.Status))
		case c.Status == Unsupported, c.Status == Skipped, c.Status == NotRun && !r.Interrupted:
			r.Gate = append(r.Gate, fmt.Sprintf("%s was %s in the baseline and is %s: %s", old.ID, old.Status, c.Status, c.Reason))
		}
	}
	for _, f := range slices.Sorted(maps.Keys(base.Claims)) {
		if base.Claims[f] == history.Proven && (r.Claims[f] == "" || r.Claims[f] == history.False) {
			r.Gate = append(r.Gate, fmt.Sprintf("the claim %s was proven in the baseline and is %s", f, or(string(r.Claims[f]), "not made")))
		}
	}
	r.Conclude()
}

func or(word, otherwise string) string {
	if word == "" {
		return otherwise
	}
	return word
}
