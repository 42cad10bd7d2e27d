package driver

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Bounds are a lock's bounds on the wire; see [lockspec.Bounds].
type Bounds struct {
	LeaseMinMS   Millis  `json:"lease_min_ms,omitempty"`
	LeaseMaxMS   Millis  `json:"lease_max_ms,omitempty"`
	TakeoverMS   Millis  `json:"takeover_ms,omitempty"`
	LossMS       Millis  `json:"loss_ms,omitempty"`
	LossMarginMS Millis  `json:"loss_margin_ms,omitempty"`
	RenewEveryMS Millis  `json:"renew_every_ms,omitempty"`
	ToleratesMS  Millis  `json:"tolerates_ms,omitempty"`
	CancelMS     Millis  `json:"cancel_ms,omitempty"`
	PollMS       Millis  `json:"poll_ms,omitempty"`
	KeyMax       int     `json:"key_max,omitempty"`
	ClockRate    float64 `json:"clock_rate,omitempty"`

	RenewEveryRatio float64 `json:"renew_every_ratio,omitempty"`
	LossRatio       float64 `json:"loss_ratio,omitempty"`
	LossMarginRatio float64 `json:"loss_margin_ratio,omitempty"`
}

func wireBounds(b lockspec.Bounds) *Bounds {
	return &Bounds{
		LeaseMinMS: Millis(b.LeaseMin), LeaseMaxMS: Millis(b.LeaseMax), TakeoverMS: Millis(b.Takeover),
		LossMS: Millis(b.Loss), LossMarginMS: Millis(b.LossMargin), RenewEveryMS: Millis(b.RenewEvery),
		ToleratesMS: Millis(b.Tolerates), CancelMS: Millis(b.Cancel), PollMS: Millis(b.Poll),
		KeyMax: b.KeyMax, ClockRate: b.ClockRate,
		RenewEveryRatio: b.RenewEveryRatio, LossRatio: b.LossRatio, LossMarginRatio: b.LossMarginRatio,
	}
}

func (b *Bounds) spec() lockspec.Bounds {
	if b == nil {
		return lockspec.Bounds{}
	}
	return lockspec.Bounds{
		LeaseMin: time.Duration(b.LeaseMinMS), LeaseMax: time.Duration(b.LeaseMaxMS), Takeover: time.Duration(b.TakeoverMS),
		Loss: time.Duration(b.LossMS), LossMargin: time.Duration(b.LossMarginMS), RenewEvery: time.Duration(b.RenewEveryMS),
		Tolerates: time.Duration(b.ToleratesMS), Cancel: time.Duration(b.CancelMS), Poll: time.Duration(b.PollMS),
		KeyMax: b.KeyMax, ClockRate: b.ClockRate,
		RenewEveryRatio: b.RenewEveryRatio, LossRatio: b.LossRatio, LossMarginRatio: b.LossMarginRatio,
	}
}

// wireFeatures spells the features; permits carries its capacity.
func wireFeatures(d lockspec.Description) []string {
	words := make([]string, 0, len(d.Features))
	for _, f := range d.Features {
		word := string(f)
		if f == lockspec.Permits {
			word = fmt.Sprintf("%s:%d", f, d.Capacity)
		}
		words = append(words, word)
	}
	return words
}

// features reads what wireFeatures spells. Words that nobody knows are kept:
// Description.Validate names them.
func features(words []string) (known []lockspec.Feature, capacity int, err error) {
	for _, word := range words {
		name, k, counted := strings.Cut(word, ":")
		if lockspec.Feature(name) != lockspec.Permits {
			known = append(known, lockspec.Feature(word))
			continue
		}
		capacity, err = strconv.Atoi(k)
		if !counted || err != nil || capacity < 1 {
			return nil, 0, fmt.Errorf("feature %q: want permits:k with k ≥ 1", word)
		}
		known = append(known, lockspec.Permits)
	}
	return known, capacity, nil
}

// description is what a hello reply says of the lock. A driver that names no
// class is a lease without hazards.
func description(r *Reply) (lockspec.Description, error) {
	known, capacity, err := features(r.Features)
	if err != nil {
		return lockspec.Description{}, err
	}
	d := lockspec.Description{Name: r.Name, Class: r.Class, Features: known, Capacity: capacity, Hazards: r.Hazards, Bounds: r.Bounds.spec()}
	if d.Class == "" {
		d.Class, d.Hazards = lockspec.Leased, nil
	}
	return d, nil
}

// hello is the reply that says d.
func hello(d lockspec.Description) Reply {
	return Reply{
		Outcome: lockspec.OK, Version: Version, Name: d.Name, Class: d.Class, Hazards: d.Hazards,
		Features: wireFeatures(d), Bounds: wireBounds(d.Bounds), MaxProcesses: maxProcesses,
	}
}
