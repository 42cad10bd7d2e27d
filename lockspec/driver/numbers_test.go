package driver

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"pgregory.net/rapid"
)

func TestMillis(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "1": time.Millisecond, "0.5": 500 * time.Microsecond, "1e3": time.Second, "0.000001": 1, "-1": -time.Millisecond,
		"2000.5": 2*time.Second + 500*time.Microsecond, "null": 0,
	} {
		var got Millis
		if err := json.Unmarshal([]byte(text), &got); err != nil || time.Duration(got) != want {
			t.Errorf("%s: %v, %v, want %v", text, time.Duration(got), err, want)
		}
	}
	for text, want := range map[string]string{
		`"1"`: "no number of milliseconds", `1e300`: "out of range", `[1]`: "no number", `true`: "no number", `9.3e12`: "out of range",
	} {
		var got Millis
		if err := json.Unmarshal([]byte(text), &got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestMillisRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// To the nanosecond, as far as a float of milliseconds has them.
		want := Millis(rapid.Int64Range(-int64(24*time.Hour), int64(24*time.Hour)).Draw(t, "ns"))
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Millis
		if err := json.Unmarshal(text, &got); err != nil || got != want {
			t.Fatalf("%d travels as %s and comes back as %d (%v)", want, text, got, err)
		}
	})
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]Token{
		"41": 41, "0": 0, "9007199254740992": 1 << 53, `"9007199254740993"`: 1<<53 + 1, `"41"`: 41,
		`"9223372036854775807"`: math.MaxInt64, "null": 0,
	} {
		var got Token
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"9007199254740993": "send it as a decimal string", "-1": "negative", "1.5": "no whole number", `"x"`: "no whole number",
		`"9223372036854775808"`: "no whole number", "{}": "no whole number", `""`: "no whole number",
	} {
		var got Token
		if err := json.Unmarshal([]byte(text), &got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for token, want := range map[Token]string{41: "41", 1 << 53: "9007199254740992", 1<<53 + 1: `"9007199254740993"`} {
		if got, err := json.Marshal(token); err != nil || string(got) != want {
			t.Errorf("%d travels as %s, want %s (%v)", token, got, want, err)
		}
	}
}

// A request means the same at both ends.
func TestAcquisitionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := lockspec.Request{
			Key:   string(rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "key")),
			Lease: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "lease")),
			Wait:  time.Duration(rapid.SampledFrom([]int64{-1, 0, 1, int64(time.Second)}).Draw(t, "wait")),
			Renew: rapid.SampledFrom([]lockspec.RenewMode{lockspec.RenewDefault, lockspec.RenewAuto, lockspec.RenewManual}).Draw(t, "renew"),
			Mode:  rapid.SampledFrom([]lockspec.Mode{lockspec.Exclusive, lockspec.Read, lockspec.Write}).Draw(t, "mode"),
			Count: rapid.IntRange(0, 5).Draw(t, "count"),
		}
		line, err := json.Marshal(acquisition(opAcquire, "p1", want))
		if err != nil {
			t.Fatal(err)
		}
		var q Request
		if err := json.Unmarshal(line, &q); err != nil {
			t.Fatal(err)
		}
		if got := q.acquisition(); got != want {
			t.Fatalf("%s: %+v, want %+v", line, got, want)
		}
	})
}

// Whatever a driver writes is a reply, an event or an error, and what is read
// can be written and read again.
func FuzzDecode(f *testing.F) {
	for _, line := range []string{
		`{"id":2,"outcome":"ok","lease":"L1","token":41,"lease_ms":2000}`,
		`{"id":2,"outcome":"ok","lease":"L1","token":"9223372036854775807","lease_left_ms":0}`,
		`{"event":"lost","lease":"L1","reason":"expired","driver_ns":789}`,
		`{"event":"renewed","lease":"L1","lease_ms":0.5,"sent_ns":"780"}`,
		`{"id":1,"outcome":"ok","version":1,"features":["permits:3"],"bounds":{"loss_ratio":0.5}}`,
		`{"id":9007199254740993,"token":1e400}`, `{"id":"1"}`, `[]`, `null`, `{}`, `{"id":1,"event":"lost"}`, `{"event":7}`, "\xff",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, e, err := decode(line)
		switch {
		case err != nil && e != nil, err == nil && (r == nil) == (e == nil):
			t.Fatalf("reply %v, event %v, error %v", r, e, err)
		case err != nil:
			return
		}
		var read any = r
		if e != nil {
			read = e
		} else {
			_, _ = description(r)
		}
		again, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := decode(again); err != nil {
			t.Fatalf("%s was read and written as %s: %v", line, again, err)
		}
	})
}

// TestEmptyKeyIsWritten: an acquisition always names its key; other requests
// do not carry one.
func TestEmptyKeyIsWritten(t *testing.T) {
	for _, test := range []struct {
		q    Request
		want string
	}{
		{Request{ID: 1, Op: opAcquire, Process: "p1"}, `{"id":1,"op":"acquire","process":"p1","key":""}`},
		{Request{ID: 1, Op: opAcquire, Process: "p1", Key: "k"}, `{"id":1,"op":"acquire","process":"p1","key":"k"}`},
		{Request{ID: 1, Op: opPing}, `{"id":1,"op":"ping"}`},
	} {
		if got, err := json.Marshal(test.q); err != nil || string(got) != test.want {
			t.Errorf("%s %v, want %s", got, err, test.want)
		}
	}
}
