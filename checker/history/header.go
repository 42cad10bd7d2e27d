package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
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

// parseHeader decodes the first line. unknown is the names that it ignored.
func parseHeader(line []byte) (h Header, unknown []string, err error) {
	if err := checkVersion(line); err != nil {
		return h, nil, err
	}
	var l headerLine
	if err := json.Unmarshal(line, &l); err != nil {
		return h, nil, fmt.Errorf("header: %w", err)
	}
	if h, err = l.header(); err != nil {
		return h, nil, err
	}
	return h, unknownHeaderFields(line), h.check()
}

// checkVersion looks at the version before anything else is looked at, because
// a newer format may mean other things by our fields.
func checkVersion(line []byte) error {
	var kind struct {
		Lockcheck string `json:"lockcheck"`
		Version   int    `json:"version"`
	}
	switch err := json.Unmarshal(line, &kind); {
	case err != nil || kind.Lockcheck != headerWord:
		return errors.New(`not a lockcheck history: the first line must be {"lockcheck":"history","version":…}`)
	case kind.Version > FormatVersion:
		return fmt.Errorf("history version %d is newer than this tool, which reads version %d and older", kind.Version, FormatVersion)
	case kind.Version < 1:
		return fmt.Errorf("history version %d does not exist", kind.Version)
	}
	return nil
}

func (l headerLine) header() (Header, error) {
	h := Header{Version: l.Version, Clock: l.Clock, BootID: l.BootID, Seed: l.Seed, Target: l.Target, Class: l.Class,
		Profile: l.Profile, Capacity: l.Capacity, Hazards: l.Hazards, Claims: l.Claims, Bounds: l.Bounds.bounds(),
		Tool: l.Tool, Suite: l.Suite, Eps: DefaultEps}
	if l.Eps != nil {
		h.Eps = time.Duration(*l.Eps)
	}
	if l.Started == "" {
		return h, nil
	}
	var err error
	if h.Started, err = time.Parse(time.RFC3339Nano, l.Started); err != nil {
		return h, fmt.Errorf("header: started: %w", err)
	}
	return h, nil
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

// unknownHeaderFields lists the fields of the header, and of the bounds in it,
// that mean nothing to this version.
func unknownHeaderFields(line []byte) []string {
	var all, bounds map[string]json.RawMessage
	_ = json.Unmarshal(line, &all) // it has been decoded before
	_ = json.Unmarshal(all["bounds"], &bounds)
	var unknown []string
	known := fieldNames(headerLine{})
	for f := range all {
		if !slices.Contains(known, f) {
			unknown = append(unknown, f)
		}
	}
	known = fieldNames(boundsLine{})
	for f := range bounds {
		if !slices.Contains(known, f) {
			unknown = append(unknown, "bounds."+f)
		}
	}
	return unknown
}

// fieldNames is the JSON names of a struct's fields.
func fieldNames(line any) []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(line)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
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
