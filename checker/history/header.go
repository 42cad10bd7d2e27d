package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// The words in the field "lockcheck" of the two lines that are no events.
const (
	headerWord = "history"
	endWord    = "end"
)

// headerLine is the header as it is written.
type headerLine struct {
	Lockcheck string                     `json:"lockcheck"`
	Version   int                        `json:"version"`
	Started   string                     `json:"started,omitempty"`
	Clock     string                     `json:"clock,omitempty"`
	BootID    string                     `json:"boot_id,omitempty"`
	Seed      int64                      `json:"seed"`
	Target    string                     `json:"target,omitempty"`
	Class     lockspec.Class             `json:"class,omitempty"`
	Profile   lockspec.Profile           `json:"profile,omitempty"`
	Capacity  int                        `json:"capacity,omitempty"`
	Hazards   []lockspec.Hazard          `json:"hazards,omitempty"`
	Claims    map[lockspec.Feature]Claim `json:"claims,omitempty"`
	Bounds    boundsLine                 `json:"bounds"`
	Eps       *int64                     `json:"eps_ns"`
	Tool      string                     `json:"tool,omitempty"`
	Suite     string                     `json:"suite,omitempty"`
}

// boundsLine is the bounds as they are written: the names of the driver
// protocol, in nanoseconds.
type boundsLine struct {
	LeaseMin        time.Duration `json:"lease_min_ns,omitempty"`
	LeaseMax        time.Duration `json:"lease_max_ns,omitempty"`
	Takeover        time.Duration `json:"takeover_ns,omitempty"`
	Loss            time.Duration `json:"loss_ns,omitempty"`
	LossMargin      time.Duration `json:"loss_margin_ns,omitempty"`
	RenewEvery      time.Duration `json:"renew_every_ns,omitempty"`
	Tolerates       time.Duration `json:"tolerates_ns,omitempty"`
	Cancel          time.Duration `json:"cancel_ns,omitempty"`
	Poll            time.Duration `json:"poll_ns,omitempty"`
	KeyMax          int           `json:"key_max,omitempty"`
	ClockRate       float64       `json:"clock_rate,omitempty"`
	RenewEveryRatio float64       `json:"renew_every_ratio,omitempty"`
	LossRatio       float64       `json:"loss_ratio,omitempty"`
	LossMarginRatio float64       `json:"loss_margin_ratio,omitempty"`
}

func writtenBounds(b lockspec.Bounds) boundsLine {
	return boundsLine{b.LeaseMin, b.LeaseMax, b.Takeover, b.Loss, b.LossMargin, b.RenewEvery, b.Tolerates,
		b.Cancel, b.Poll, b.KeyMax, b.ClockRate, b.RenewEveryRatio, b.LossRatio, b.LossMarginRatio}
}

func (l boundsLine) bounds() lockspec.Bounds {
	return lockspec.Bounds{LeaseMin: l.LeaseMin, LeaseMax: l.LeaseMax, Takeover: l.Takeover, Loss: l.Loss,
		LossMargin: l.LossMargin, RenewEvery: l.RenewEvery, Tolerates: l.Tolerates, Cancel: l.Cancel, Poll: l.Poll,
		KeyMax: l.KeyMax, ClockRate: l.ClockRate, RenewEveryRatio: l.RenewEveryRatio, LossRatio: l.LossRatio,
		LossMarginRatio: l.LossMarginRatio}
}

// appendHeader appends the header's line, newline included. It is refused if
// it could not be read again.
func appendHeader(dst []byte, h Header) ([]byte, error) {
	h = h.withDefaults()
	if err := h.check(); err != nil {
		return dst, err
	}
	eps := int64(h.Eps)
	line := headerLine{headerWord, FormatVersion, "", h.Clock, h.BootID, h.Seed, h.Target, h.Class, h.Profile,
		h.Capacity, h.Hazards, h.Claims, writtenBounds(h.Bounds), &eps, h.Tool, h.Suite}
	if !h.Started.IsZero() {
		line.Started = h.Started.UTC().Format(time.RFC3339Nano)
	}
	b, err := json.Marshal(line)
	if err != nil {
		return dst, fmt.Errorf("history header: %w", err)
	}
	return append(append(dst, b...), '\n'), nil
}

func (h Header) withDefaults() Header {
	if h.Clock == "" {
		h.Clock = "monotonic"
	}
	if h.Eps == 0 {
		h.Eps = DefaultEps
	}
	h.Version = FormatVersion
	return h
}

// parseHeader decodes the first line. The version is looked at before
// anything else, because a newer format may mean other things by our fields.
func parseHeader(line []byte) (h Header, unknown []string, err error) {
	var kind struct {
		Lockcheck string `json:"lockcheck"`
		Version   int    `json:"version"`
	}
	if err := json.Unmarshal(line, &kind); err != nil || kind.Lockcheck != headerWord {
		return h, nil, errors.New(`not a lockcheck history: the first line must be {"lockcheck":"history","version":…}`)
	}
	if kind.Version > FormatVersion {
		return h, nil, fmt.Errorf("history version %d is newer than this tool, which reads version %d and older", kind.Version, FormatVersion)
	}
	if kind.Version < 1 {
		return h, nil, fmt.Errorf("history version %d does not exist", kind.Version)
	}
	eps := int64(DefaultEps)
	l := headerLine{Eps: &eps}
	if err := json.Unmarshal(line, &l); err != nil {
		return h, nil, fmt.Errorf("header: %w", err)
	}
	h = Header{Version: l.Version, Clock: l.Clock, BootID: l.BootID, Seed: l.Seed, Target: l.Target, Class: l.Class,
		Profile: l.Profile, Capacity: l.Capacity, Hazards: l.Hazards, Claims: l.Claims, Bounds: l.Bounds.bounds(),
		Tool: l.Tool, Suite: l.Suite, Eps: DefaultEps}
	if l.Eps != nil {
		h.Eps = time.Duration(*l.Eps)
	}
	if l.Started != "" {
		if h.Started, err = time.Parse(time.RFC3339Nano, l.Started); err != nil {
			return h, nil, fmt.Errorf("header: started: %w", err)
		}
	}
	return h, unknownHeaderFields(line), h.check()
}

// check refuses words that no rule could be applied to.
func (h *Header) check() error {
	if _, ok := h.Class.Ceiling(); !ok && h.Class != "" {
		return fmt.Errorf("header: unknown class %q", h.Class)
	}
	if h.Profile != "" && !slices.Contains(lockspec.Profiles(), h.Profile) {
		return fmt.Errorf("header: unknown profile %q", h.Profile)
	}
	for _, z := range h.Hazards {
		if !slices.Contains(lockspec.Hazards(), z) {
			return fmt.Errorf("header: unknown hazard %q", z)
		}
	}
	for f, c := range h.Claims {
		if c != Proven && c != False && c != Unproven {
			return fmt.Errorf("header: claim %q is %q, not proven, false or unproven", f, c)
		}
	}
	if h.Capacity < 0 || h.Eps < 0 {
		return errors.New("header: negative capacity or eps_ns")
	}
	return nil
}

var headerFields = []string{"lockcheck", "version", "started", "clock", "boot_id", "seed", "target", "class", "profile",
	"capacity", "hazards", "claims", "bounds", "eps_ns", "tool", "suite"}

var boundFields = []string{"lease_min_ns", "lease_max_ns", "takeover_ns", "loss_ns", "loss_margin_ns", "renew_every_ns",
	"tolerates_ns", "cancel_ns", "poll_ns", "key_max", "clock_rate", "renew_every_ratio", "loss_ratio", "loss_margin_ratio"}

func unknownHeaderFields(line []byte) []string {
	var all map[string]json.RawMessage
	if json.Unmarshal(line, &all) != nil {
		return nil
	}
	var bounds map[string]json.RawMessage
	if json.Unmarshal(all["bounds"], &bounds) != nil {
		bounds = nil
	}
	var unknown []string
	for f := range all {
		if !slices.Contains(headerFields, f) {
			unknown = append(unknown, f)
		}
	}
	for f := range bounds {
		if !slices.Contains(boundFields, f) {
			unknown = append(unknown, "bounds."+f)
		}
	}
	return unknown
}

// endLine is the last line.
type endLine struct {
	Lockcheck string `json:"lockcheck"`
	Events    *int64 `json:"events"`
	SHA256    string `json:"sha256"`
}

// appendEnd appends the end's line, newline included.
func appendEnd(dst []byte, events int64, sum []byte) []byte {
	return fmt.Appendf(dst, "{\"lockcheck\":%q,\"events\":%d,\"sha256\":\"%x\"}\n", endWord, events, sum)
}
