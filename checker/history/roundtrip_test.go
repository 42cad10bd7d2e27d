package history

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lockcheck/lockcheck/lockspec"
	"pgregory.net/rapid"
)

// actor is a process that behaves: one acquire at a time, then what a tenure
// allows, until it releases or its name is retired.
type actor struct {
	name, tenure string
	open         Op
}

// step draws the actor's next event.
func (a *actor) step(t *rapid.T, e *Event) {
	e.Process, e.Key = a.name, anyKey.Draw(t, "key")
	switch {
	case a.open == "" && a.tenure == "":
		e.Type, e.Op = Invoke, Acquire
		e.Wait = time.Duration(rapid.Int64Min(-1).Draw(t, "wait"))
		e.Renewal = rapid.SampledFrom([]lockspec.RenewMode{"", lockspec.RenewAuto, lockspec.RenewManual}).Draw(t, "renew")
	case a.open == "":
		e.Type, e.Op, e.Tenure = Invoke, rapid.SampledFrom([]Op{Renew, Held, Write, Release}).Draw(t, "op"), a.tenure
		e.Ask = time.Duration(anyInt.Draw(t, "ask"))
	default:
		a.answer(t, e)
		return
	}
	a.open = e.Op
}

func (a *actor) answer(t *rapid.T, e *Event) {
	e.Op, e.Tenure, a.open = a.open, a.tenure, ""
	outcome := rapid.SampledFrom(lockspec.Outcomes()).Draw(t, "outcome").Word
	e.Type = ReturnType(outcome)
	if e.Type != OK {
		e.Error, e.Message = outcome, rapid.String().Draw(t, "message")
	}
	switch {
	case e.Type == OK && e.Op == Acquire:
		a.tenure = "t" + rapid.StringN(1, 5, -1).Draw(t, "tenure")
		e.Tenure, e.Token, e.Lease, e.Left = a.tenure, anyInt.Draw(t, "token"), time.Duration(anyInt.Draw(t, "lease")), time.Duration(anyInt.Draw(t, "left"))
		e.Sent, e.Mode, e.Count = anyInt.Draw(t, "sent"), rapid.SampledFrom([]lockspec.Mode{"", "read", "write"}).Draw(t, "mode"), int(anyInt.Draw(t, "count"))
	case e.Type == Info && e.Op == Acquire:
		a.name += "'"
	case e.Op == Release:
		a.tenure = ""
	}
}

var (
	anyInt = rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, 1, -1, maxExact, maxExact + 1, -maxExact - 1, math.MaxInt64, math.MinInt64}))
	anyKey = rapid.OneOf(rapid.Just("orders/42"), rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
)

// happens draws an event that is no operation.
func happens(t *rapid.T, e *Event) {
	e.Type = Happen
	switch e.Op = rapid.SampledFrom([]Op{Lost, Renewed, Doubt, Sure, Entered, Left, Exit, Fault, Register, Probe, Late, Note}).Draw(t, "event"); e.Op {
	case Fault:
		e.ID, e.Fault = rapid.String().Draw(t, "id"), "pause"
		e.Hazard = rapid.SampledFrom(append(lockspec.Hazards(), "")).Draw(t, "hazard")
		e.Targets = rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "targets")
		e.Phase = rapid.SampledFrom([]Phase{Start, Landed, Healing, End, Observed}).Draw(t, "phase")
		e.Origin = rapid.SampledFrom([]Origin{Injected, Found}).Draw(t, "origin")
		e.From, e.To = anyInt.Draw(t, "from"), anyInt.Draw(t, "to")
	case Register:
		e.Register = rapid.SampledFrom([]string{OpenRegister, FencedRegister}).Draw(t, "register")
		e.Kind = rapid.SampledFrom([]string{RegisterRead, RegisterWrite}).Draw(t, "kind")
		e.Version, e.BasedOn = anyInt.Draw(t, "version"), anyInt.Draw(t, "based on")
		e.Accepted = Verdict(rapid.IntRange(0, 2).Draw(t, "accepted"))
	case Late, Probe:
		e.Of = anyInt.Draw(t, "of")
		e.Outcome = rapid.SampledFrom(lockspec.Outcomes()).Draw(t, "outcome").Word
	default:
		e.Reason, e.Driver, e.Sent, e.Instance = rapid.String().Draw(t, "reason"), anyInt.Draw(t, "driver"), anyInt.Draw(t, "sent"), int(anyInt.Draw(t, "incarnation"))
		e.Key, e.Effect = anyKey.Draw(t, "key"), rapid.SampledFrom([]string{"", "none"}).Draw(t, "effect")
	}
}

// anyHistory draws events as a run could record them.
func anyHistory(t *rapid.T) []Event {
	actors := []*actor{{name: "p1"}, {name: "p2"}, {name: "ü"}}
	events := make([]Event, rapid.IntRange(0, 40).Draw(t, "events"))
	var now int64
	for i := range events {
		e := &events[i]
		now += rapid.Int64Range(0, 1<<40).Draw(t, "step")
		e.Index, e.Time = int64(i), now
		e.Owner, e.Node = rapid.String().Draw(t, "owner"), rapid.String().Draw(t, "node")
		if who := rapid.IntRange(0, len(actors)).Draw(t, "who"); who < len(actors) {
			actors[who].step(t, e)
		} else {
			happens(t, e)
		}
	}
	return events
}

func anyHeader(t *rapid.T) Header {
	d := func(name string) time.Duration { return time.Duration(anyInt.Draw(t, name)) }
	f := func(name string) float64 { return rapid.Float64Range(0, 1e9).Draw(t, name) }
	h := Header{Version: FormatVersion, Clock: "monotonic", BootID: rapid.String().Draw(t, "boot"), Seed: anyInt.Draw(t, "seed"),
		Started: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "started"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(),
		Target:  rapid.String().Draw(t, "target"), Tool: rapid.String().Draw(t, "tool"), Suite: rapid.String().Draw(t, "suite"),
		Class:    rapid.SampledFrom(lockspec.Classes()).Draw(t, "class").Class,
		Profile:  rapid.SampledFrom(lockspec.Profiles()).Draw(t, "profile"),
		Capacity: rapid.IntRange(0, 9).Draw(t, "capacity"), Eps: time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "eps")),
		Bounds: lockspec.Bounds{LeaseMin: d("min"), LeaseMax: d("max"), Takeover: d("takeover"), Loss: d("loss"), LossMargin: d("margin"),
			RenewEvery: d("renew"), Tolerates: d("tolerates"), Cancel: d("cancel"), Poll: d("poll"), KeyMax: int(anyInt.Draw(t, "key max")),
			ClockRate: f("rate"), RenewEveryRatio: f("renew ratio"), LossRatio: f("loss ratio"), LossMarginRatio: f("margin ratio")}}
	if hazards := rapid.SliceOf(rapid.SampledFrom(lockspec.Hazards())).Draw(t, "hazards"); len(hazards) > 0 {
		h.Hazards = hazards
	}
	claims := rapid.MapOf(rapid.SampledFrom(lockspec.Features()), rapid.SampledFrom([]Claim{Proven, False, Unproven})).Draw(t, "claims")
	if len(claims) > 0 {
		h.Claims = claims
	}
	return h
}

// written is the history's bytes.
func written(t interface{ Fatal(...any) }, h Header, events []Event) []byte {
	var out bytes.Buffer
	var now int64
	r, err := NewRecorder(h, &Options{Out: &out, Now: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		now = events[i].Time
		r.Record(&events[i])
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWhatIsRecordedIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events, header := anyHistory(t), anyHeader(t)
		file := written(t, header, events)
		got, err := ReadAll(bytes.NewReader(file))
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		if want := (&History{Header: header, Events: events}); !same(got, want) {
			t.Fatalf("read  %+v\nwrote %+v\n%s", got, want, file)
		}
		packed, err := ReadAll(bytes.NewReader(zipped(file)))
		if err != nil || !same(got, packed) {
			t.Fatalf("packed: %+v, %v", packed, err)
		}
	})
}

// same compares histories; no events are no events, nil or not.
func same(a, b *History) bool {
	return a.Truncated == b.Truncated && fmt.Sprint(a.Warnings) == fmt.Sprint(b.Warnings) &&
		reflect.DeepEqual(a.Header, b.Header) && len(a.Events) == len(b.Events) && (len(a.Events) == 0 || reflect.DeepEqual(a.Events, b.Events))
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

// TestEveryFieldTravels fails for a field that was added to Event but not to
// the encoder, or whose number in field is another's.
func TestEveryFieldTravels(t *testing.T) {
	var e, scanned, decoded Event
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"n1", "n2"}))
		case reflect.Int8:
			f.SetInt(int64(Rejected))
		default:
			f.SetInt(int64(i + 1))
		}
	}
	e.Type = Happen // the type whose lines may have any field
	line := bytes.TrimSpace(appendEvent(nil, &e))
	s := scanner{}
	if _, ok := s.scan(&scanned, line); !ok || !reflect.DeepEqual(scanned, e) {
		t.Errorf("scanned %+v\nwrote   %+v", scanned, e)
	}
	if _, unknown, err := decode(&decoded, line); err != nil || unknown != nil || !reflect.DeepEqual(decoded, e) {
		t.Errorf("decoded %+v\nwrote   %+v\n%v, unknown %q", decoded, e, err, unknown)
	}
}

// TestStringsAreWrittenAsEncodingJSONHasThem holds the encoder's strings
// against the standard library's.
func TestStringsAreWrittenAsEncodingJSONHasThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyKey.Draw(t, "s")
		std, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var got, want string
		line := appendString(nil, s)
		if err := json.Unmarshal(line, &got); err != nil || !utf8.Valid(line) {
			t.Fatalf("%q: %v", line, err)
		}
		if err := json.Unmarshal(std, &want); err != nil || got != want {
			t.Fatalf("%q was written as %q, not %q", s, got, want)
		}
	})
}

func TestHeaderLine(t *testing.T) {
	h := Header{Started: time.Date(2026, 7, 1, 12, 0, 0, 5, time.FixedZone("", 7200)), Class: "lease", Hazards: []lockspec.Hazard{"pause"},
		Claims: map[lockspec.Feature]Claim{"wait": Proven, "fifo": False}, Bounds: lockspec.Bounds{Loss: 5, ClockRate: 0.1}}
	got, err := appendHeader(nil, h)
	want := `{"lockcheck":"history","version":1,"started":"2026-07-01T10:00:00.000000005Z","clock":"monotonic","seed":0,"class":"lease",` +
		`"hazards":["pause"],"claims":{"fifo":"false","wait":"proven"},"bounds":{"loss_ns":5,"clock_rate":0.1},"eps_ns":2000000}` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\nwrote %swant  %s", err, got, want)
	}
}

// TestLines pins the format: these lines are what other tools read. All but
// those with escapes are for the scanner, with either line end.
func TestLines(t *testing.T) {
	s := scanner{}
	for want, e := range map[string]Event{
		`{"index":0,"time_ns":1203,"case":"A02","process":"p1","owner":"o1","node":"n1","type":"invoke","op":"acquire","key":"orders/42","ask_ns":2000000000,"wait_ns":0}`: {
			Time: 1203, Case: "A02", Process: "p1", Owner: "o1", Node: "n1", Type: Invoke, Op: Acquire, Key: "orders/42", Ask: 2 * time.Second},
		`{"index":1,"time_ns":9,"process":"p1","incarnation":2,"type":"ok","op":"acquire","key_b64":"a/8=","tenure":"t1","mode":"read","count":2,"renew":"auto","lease_ns":5,"lease_left_ns":4,"token":9007199254740992,"sent_ns":3}`: {
			Index: 1, Time: 9, Process: "p1", Instance: 2, Type: OK, Op: Acquire, Key: "k\xff", Tenure: "t1", Mode: "read", Count: 2, Renewal: "auto", Lease: 5, Left: 4, Token: 1 << 53, Sent: 3},
		`{"index":2,"time_ns":9,"process":"p1","type":"info","op":"acquire","token":"9007199254740993","error":"unavailable","effect":"none","message":"\"no\"\u000a"}`: {
			Index: 2, Time: 9, Process: "p1", Type: Info, Op: Acquire, Token: 1<<53 + 1, Error: "unavailable", Effect: "none", Message: "\"no\"\n"},
		`{"index":3,"time_ns":9,"type":"event","op":"fault","id":"f1","fault":"stall","hazard":"pause","targets":["n1","key:k"],"phase":"observed","origin":"observed","from_ns":0,"to_ns":8}`: {
			Index: 3, Time: 9, Type: Happen, Op: Fault, ID: "f1", Fault: "stall", Hazard: "pause", Targets: []string{"n1", "key:k"}, Phase: Observed, Origin: Found, To: 8},
		`{"index":4,"time_ns":9,"type":"event","op":"lost","tenure":"t1","reason":"expired","driver_ns":7}`: {
			Index: 4, Time: 9, Type: Happen, Op: Lost, Tenure: "t1", Reason: "expired", Driver: 7},
		`{"index":5,"time_ns":9,"type":"event","op":"register","token":42,"register":"fenced","kind":"write","version":0,"based_on":0,"accepted":false}`: {
			Index: 5, Time: 9, Type: Happen, Op: Register, Token: 42, Register: FencedRegister, Kind: RegisterWrite, Accepted: Rejected},
		`{"index":6,"time_ns":9,"type":"event","op":"late","of":0,"outcome":"ok"}`: {
			Index: 6, Time: 9, Type: Happen, Op: Late, Outcome: "ok"},
	} {
		if got := strings.TrimSuffix(string(appendEvent(nil, &e)), "\n"); got != want {
			t.Errorf("wrote %s\nwant  %s", got, want)
		}
		rare := strings.Contains(want, `\`) || strings.Contains(want, `"token":"`) || e.Key == "k\xff"
		var back Event
		if _, ok := s.scan(&back, []byte(want+"\r")); ok == rare || ok && !reflect.DeepEqual(back, e) {
			t.Errorf("scanned %v %+v\nof %s", ok, back, want)
		}
	}
}
