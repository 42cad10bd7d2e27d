package lockspec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOutcomes: every word names itself through the error that stands for it,
// wrapped or not, and says what it tells of the service.
func TestOutcomes(t *testing.T) {
	for _, row := range Outcomes() {
		if !row.Word.Known() || row.Word.Effect() != row.Effect {
			t.Errorf("%s: %v", row.Word, row.Word.Effect())
		}
		if got := OutcomeOf(row.Word.Err()); got != row.Word {
			t.Errorf("%s comes back as %s", row.Word, got)
		}
		if row.Err != nil && OutcomeOf(fmt.Errorf("acquire: %w", row.Err)) != row.Word {
			t.Errorf("%s is lost when wrapped", row.Word)
		}
	}
	for _, test := range []struct {
		err  error
		want Outcome
	}{
		{nil, OK},
		{errors.New("no idea"), Failed},
		{context.DeadlineExceeded, Cancelled},
		{fmt.Errorf("%w: %w", ErrBusy, context.Canceled), Cancelled}, // a cancelled call is never busy
		{errors.Join(ErrUnavailable, errors.New("EOF")), Unavailable},
	} {
		if got := OutcomeOf(test.err); got != test.want {
			t.Errorf("%v is %s, want %s", test.err, got, test.want)
		}
	}
	if Outcome("perhaps").Known() || Outcome("perhaps").Effect() != Unknown {
		t.Error("a word that is not in the table is unknown")
	}
}

// TestCeilings: what each class may declare, spelled out, so that nobody moves
// one by accident.
func TestCeilings(t *testing.T) {
	for class, want := range map[Class]string{
		Consensus:       "client-clock pause suspend",
		Leased:          "client-clock evict partition pause restart server-clock suspend",
		ReplicatedLease: "client-clock evict failover partition pause restart server-clock suspend",
		Session:         "failover partition pause pooler restart suspend",
		Memory:          "",
	} {
		var words []string
		ceiling, ok := class.Ceiling()
		for _, h := range ceiling {
			words = append(words, string(h))
		}
		slices.Sort(words)
		if got := strings.Join(words, " "); !ok || got != want {
			t.Errorf("%s: %s, want %s", class, got, want)
		}
	}
	if _, ok := Class("quantum").Ceiling(); ok {
		t.Error("a class that does not exist has a ceiling")
	}
}

// TestValidate: everything that is wrong is listed, in one error.
func TestValidate(t *testing.T) {
	good := Description{Class: Leased, Hazards: []Hazard{Pause}, Features: []Feature{Fencing}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	bad := Description{Class: Session, Hazards: []Hazard{Evict, "gremlins"}, Features: []Feature{"telepathy"}}
	err := bad.Validate()
	if !errors.Is(err, ErrConfig) {
		t.Fatal(err)
	}
	for _, says := range []string{`"evict" is above the ceiling of class "session"`, `"gremlins"`, `"telepathy"`} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
}

// TestBoundsScale: of a bound and its ratio the larger counts.
func TestBoundsScale(t *testing.T) {
	b := Bounds{Loss: 100 * time.Millisecond, LossRatio: 0.1}
	if got := b.LossFor(500 * time.Millisecond); got != 100*time.Millisecond {
		t.Error(got)
	}
	if got := b.LossFor(10 * time.Second); got != time.Second {
		t.Error(got)
	}
}
