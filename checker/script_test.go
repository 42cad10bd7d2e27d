package checker

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// script reads a history from lines for people; times are milliseconds. The
// process pN is of owner oN and lives on node nN, the key is k.
//
//	0   p1 acquire                      an invocation
//	5   p1 acquire ok t1 lease=500      a return: ok, or an outcome word
//	90  p1 lost t1 driver=88            an event
//	20  fault f1 pause n1 start         a fault: id, name, targets, phase
//	30  open write t1 version=1 based=0 a register
func script(t testing.TB, text string) []history.Event {
	t.Helper()
	var events []history.Event
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		e := history.Event{Index: int64(len(events)), Time: ms(words[0]), Key: "k"}
		switch words[1] {
		case "fault":
			faultLine(&e, words[2:])
		case history.OpenRegister, history.FencedRegister:
			e.Type, e.Op, e.Register, e.Kind, e.Tenure = history.Happen, history.Register, words[1], words[2], words[3]
			options(t, &e, words[4:])
		default:
			processLine(t, &e, words[1:])
		}
		events = append(events, e)
	}
	checkScript(t, events)
	return events
}

// checkScript refuses a script that no harness could have recorded.
func checkScript(t testing.TB, events []history.Event) {
	t.Helper()
	var v history.Validator
	for i := range events {
		if err := v.Check(&events[i]); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if i > 0 && events[i].Time < events[i-1].Time {
			t.Fatalf("event %d: time runs backwards", i)
		}
	}
}

func ms(s string) int64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err)
	}
	return int64(f * 1e6)
}

func faultLine(e *history.Event, w []string) {
	e.Type, e.Op, e.Key, e.ID, e.Fault, e.Targets, e.Phase = history.Happen, history.Fault, "", w[0], w[1], strings.Split(w[2], ","), history.Phase(w[3])
	e.Origin = history.Injected
	if hazards := map[string]lockspec.Hazard{"stall": lockspec.Pause, "flush": lockspec.Evict, "terminate": lockspec.Restart}; hazards[w[1]] != "" {
		e.Hazard = hazards[w[1]]
	} else if w[1] != "duplicate" && w[1] != "elect" && w[1] != "kill" && w[1] != "break" && w[1] != "latency" && w[1] != "delayed-write" && w[1] != "clock-step" {
		e.Hazard = lockspec.Hazard(w[1])
	}
	if e.Phase == history.Observed {
		e.Origin, e.From, e.To = history.Found, ms(w[4]), ms(w[5])
	}
}

func processLine(t testing.TB, e *history.Event, w []string) {
	n := strings.TrimPrefix(w[0], "p")
	e.Process, e.Owner, e.Node, e.Op, e.Type = w[0], "o"+n, "n"+n, history.Op(w[1]), history.Invoke
	switch e.Op {
	case history.Lost, history.Renewed, history.Doubt, history.Sure, history.Entered, history.Left, history.Exit, history.Late:
		e.Type = history.Happen
	case history.Shutdown:
		e.Process = ""
	}
	options(t, e, w[2:])
}

func options(t testing.TB, e *history.Event, words []string) {
	for _, w := range words {
		name, value, has := strings.Cut(w, "=")
		switch o := lockspec.Outcome(w); {
		case has:
			option(t, e, name, value)
		case w == "accepted":
			e.Accepted = history.Accepted
		case w == "refused":
			e.Accepted = history.Rejected
		case w == "none":
			e.Effect, e.Type = "none", history.Fail
		case o.Known() && e.Op == history.Late:
			e.Outcome = o
		case o.Known():
			if e.Type = history.ReturnType(o); o != lockspec.OK {
				e.Error = o
			}
		default:
			e.Tenure = w
		}
	}
}

func option(t testing.TB, e *history.Event, name, value string) {
	if name == "mode" {
		e.Mode = lockspec.Mode(value)
		return
	}
	if name == "owner" {
		e.Owner = value
		return
	}
	if name == "node" {
		e.Node = value
		return
	}
	if name == "key" {
		e.Key = value
		return
	}
	if name == "renew" {
		e.Renewal = lockspec.RenewMode(value)
		return
	}
	if name == "reason" {
		e.Reason = value
		return
	}
	n := ms(value)
	switch name {
	case "lease":
		e.Lease = time.Duration(n)
	case "ask":
		e.Ask = time.Duration(n)
	case "left":
		e.Left = time.Duration(n)
	case "wait":
		e.Wait = time.Duration(n)
	case "sent":
		e.Sent = n
	case "driver":
		e.Driver = n
	case "token":
		e.Token = n / 1e6
	case "count":
		e.Count = int(n / 1e6)
	case "version":
		e.Version = n / 1e6
	case "based":
		e.BasedOn = n / 1e6
	case "of":
		e.Of = n / 1e6
	default:
		t.Fatalf("script: unknown option %q", name)
	}
}

// head is a header; the words are hazards, claims or bounds.
func head(class lockspec.Class, words ...string) *history.Header {
	h := &history.Header{Class: class, Profile: lockspec.Advisory, Eps: history.DefaultEps, Claims: map[lockspec.Feature]history.Claim{}}
	for _, w := range words {
		name, value, has := strings.Cut(w, "=")
		switch {
		case !has:
			h.Hazards = append(h.Hazards, lockspec.Hazard(w))
		case value == "proven" || value == "unproven" || value == "false":
			h.Claims[lockspec.Feature(name)] = history.Claim(value)
		default:
			bound(h, name, value)
		}
	}
	return h
}

func bound(h *history.Header, name, value string) {
	d := time.Duration(ms(value))
	switch name {
	case "takeover":
		h.Bounds.Takeover = d
	case "loss":
		h.Bounds.Loss = d
	case "margin":
		h.Bounds.LossMargin = d
	case "every":
		h.Bounds.RenewEvery = d
	case "tolerates":
		h.Bounds.Tolerates = d
	case "capacity":
		h.Capacity = int(d / time.Millisecond)
	case "profile":
		panic("set the profile by hand")
	default:
		panic("unknown bound " + name)
	}
}

// said is what a verdict says, in a line: the outcome and the rules.
func said(v *Verdict) string {
	words := []string{string(v.Outcome)}
	for _, f := range v.Findings {
		words = append(words, string(f.Kind)+"/"+f.Rule)
	}
	for _, f := range v.Doubts {
		words = append(words, "?"+string(f.Kind)+"/"+f.Rule)
	}
	for _, h := range v.Hazards {
		words = append(words, "!"+string(h.Name))
	}
	return strings.Join(words, " ")
}

type judged struct {
	name string
	head *history.Header
	text string
	want string
}

func judgeAll(t *testing.T, rows []judged) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			v := Judge(row.head, script(t, row.text))
			if got := said(v); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
				for _, f := range append(v.Findings, v.Doubts...) {
					t.Logf("%s/%s %v: %s (%s)", f.Kind, f.Rule, f.Tenures, f.Message, f.Certainty)
				}
				for _, h := range v.Hazards {
					t.Log(h)
				}
			}
		})
	}
}

// cutLine is the text without the lines that contain the word.
func cutLine(text, word string) string {
	var out []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, word) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func replace(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
