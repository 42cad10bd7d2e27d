package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

func newRecorder(t *testing.T, h Header, o *Options) *Recorder {
	t.Helper()
	r, err := NewRecorder(h, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func note(text string) *Event { return &Event{Type: Happen, Op: Note, Message: text} }

// buffer is a bytes.Buffer for two goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestConcurrentRecordersShareOneOrder(t *testing.T) {
	var out buffer
	var followed []Event
	r := newRecorder(t, Header{}, &Options{Out: &out, Follow: func(b []Event) { followed = append(followed, b...) }})
	const writers, each = 8, 2000
	indices := make([][]int64, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				indices[w] = append(indices[w], r.Record(note(fmt.Sprint(w, " ", i))))
			}
		})
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := ReadAll(strings.NewReader(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Events) != writers*each || h.Truncated {
		t.Fatalf("read %d events, truncated %v", len(h.Events), h.Truncated)
	}
	for w, list := range indices {
		for i, index := range list {
			if got := h.Events[index].Message; got != fmt.Sprint(w, " ", i) {
				t.Fatalf("index %d was returned for %d %d, the file has %q there", index, w, i, got)
			}
		}
	}
	if !slices.EqualFunc(followed, h.Events, equal) {
		t.Error("Follow and the file differ")
	}
}

func equal(a, b Event) bool {
	x, y := a.Targets, b.Targets
	return slices.Equal(x, y) && fmt.Sprint(a) == fmt.Sprint(b)
}

func TestSyncReturnsAfterBytesAndFollow(t *testing.T) {
	var out buffer
	var seen []int64
	follow := func(batch []Event) {
		for _, e := range batch {
			if !strings.Contains(out.String(), e.Message) {
				t.Errorf("%s was followed before its bytes were written", e.Message)
			}
			seen = append(seen, e.Index)
		}
	}
	r := newRecorder(t, Header{}, &Options{Out: &out, Follow: follow, Every: time.Hour})
	for i := range 50 {
		index := r.Record(note(fmt.Sprintf("<%d>", i)))
		if err := r.Sync(); err != nil {
			t.Fatal(err)
		}
		if len(seen) != i+1 || seen[i] != index {
			t.Fatalf("after Sync %d: followed %v", i, seen)
		}
	}
}

func TestEventsReachOutWithinEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		r := newRecorder(t, Header{}, &Options{Out: &out})
		for range 3 {
			time.Sleep(time.Hour) // idle: no timer of the recorder may be needed
			r.Record(note("here"))
			before := strings.Count(out.String(), "here")
			time.Sleep(defaultEvery)
			synctest.Wait()
			if got := strings.Count(out.String(), "here"); got != before+1 {
				t.Fatalf("%d lines after %v, want %d", got, defaultEvery, before+1)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFollowMayRecord(t *testing.T) {
	var out buffer
	var r *Recorder
	r = newRecorder(t, Header{}, &Options{Out: &out, Follow: func(batch []Event) {
		if batch[0].Message == "cause" {
			r.Record(note("effect"))
		}
	}})
	r.Record(note("cause"))
	r.Sync()
	r.Sync()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "effect") {
		t.Error("what Follow recorded is missing")
	}
}

func TestRecordCopies(t *testing.T) {
	var followed []Event
	r := newRecorder(t, Header{}, &Options{Follow: func(b []Event) { followed = append(followed, b...) }})
	e := Event{Type: Happen, Op: Fault, Targets: []string{"n1"}, Index: 99, Time: -99}
	r.Record(&e)
	e.Targets[0], e.Op = "n2", Note
	r.Close()
	if got := followed[0]; got.Targets[0] != "n1" || got.Op != Fault || got.Index != 0 || got.Time < 0 {
		t.Errorf("followed %+v", got)
	}
	if e.Index != 99 || e.Time != -99 {
		t.Error("Record wrote to the caller's event")
	}
}

var errFull = errors.New("no space left on device")

// disk takes room bytes, fails once, and has room again.
type disk struct {
	buffer
	room int
}

func (d *disk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.buffer.Write(p[:n])
	if n < len(p) {
		d.room = 1 << 40
		return n, errFull
	}
	return n, nil
}

func TestFullDiskIsReportedAndStopsNobody(t *testing.T) {
	for _, room := range []int{150, 1 << 10, 300 << 10} {
		d := &disk{room: room}
		followed := 0
		r := newRecorder(t, Header{}, &Options{Out: d, Follow: func(b []Event) { followed += len(b) }})
		const n = 20_000
		for i := range n {
			if index := r.Record(note("full")); index != int64(i) {
				t.Fatalf("index %d, want %d", index, i)
			}
		}
		for what, err := range map[string]error{"Sync": r.Sync(), "Err": r.Err(), "Close": r.Close(), "second Close": r.Close()} {
			if !errors.Is(err, errFull) {
				t.Errorf("room %d: %s: %v", room, what, err)
			}
		}
		if followed != n {
			t.Errorf("followed %d of %d", followed, n)
		}
		h, err := ReadAll(strings.NewReader(d.String()))
		if err != nil || !h.Truncated {
			t.Errorf("room %d: what was written is no truncated history: %v", room, err)
		}
	}
	if _, err := NewRecorder(Header{}, &Options{Out: &disk{}}); !errors.Is(err, errFull) {
		t.Errorf("no room for the header: %v", err)
	}
}

func TestRecordAfterClose(t *testing.T) {
	var out buffer
	r := newRecorder(t, Header{}, &Options{Out: &out})
	r.Record(note("in time"))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	whole := out.String()
	for range 3 {
		if index := r.Record(note("late")); index != -1 {
			t.Errorf("index %d", index)
		}
	}
	for what, err := range map[string]error{"Err": r.Err(), "Close": r.Close(), "Sync": r.Sync()} {
		if err == nil || !strings.Contains(err.Error(), "3 events") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if out.String() != whole {
		t.Error("a closed history was written to")
	}
}

func TestCloseFromManySides(t *testing.T) {
	r := newRecorder(t, Header{}, &Options{Out: io.Discard})
	r.Record(note("x"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := errors.Join(r.Sync(), r.Close(), r.Sync()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestTimeNeverFalls(t *testing.T) {
	clock := []int64{5, 9, 3, 12}
	var got []int64
	i := -1
	r := newRecorder(t, Header{}, &Options{
		Now:    func() int64 { i++; return clock[i] },
		Follow: func(b []Event) { got = append(got, b[0].Time) },
	})
	for range clock {
		r.Record(note("tick"))
		r.Sync()
	}
	if want := []int64{5, 9, 9, 12}; !slices.Equal(got, want) {
		t.Errorf("times %v, want %v", got, want)
	}
}

func TestAt(t *testing.T) {
	simulated := newRecorder(t, Header{}, &Options{Now: func() int64 { return 7 }})
	if got := simulated.At(42); got != 42 || simulated.At(0) != 0 || simulated.Now() != 7 {
		t.Errorf("a stamp of the same clock became %d", got)
	}
	measured := newRecorder(t, Header{}, nil)
	before := measured.Now()
	raw, ok := fakeclock.Monotonic()
	after := measured.Now()
	if !ok {
		if got := measured.At(lockspec.Stamp(1)); got != 0 {
			t.Errorf("a stamp without a clock became %d", got)
		}
		return
	}
	if got := measured.At(lockspec.Stamp(raw)); got < before-1000 || got > after+1000 {
		t.Errorf("stamp between %d and %d became %d", before, after, got)
	}
}

func TestHeaderThatCannotBeReadIsRefused(t *testing.T) {
	for want, h := range map[string]Header{
		"class":   {Class: "leese"},
		"profile": {Profile: "safe"},
		"hazard":  {Hazards: []lockspec.Hazard{"pause", "paws"}},
		"claim":   {Claims: map[lockspec.Feature]Claim{"wait": "maybe"}},
		"eps":     {Eps: -1},
	} {
		if _, err := NewRecorder(h, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	r := newRecorder(t, Header{}, &Options{Out: io.Discard, Follow: func([]Event) {}})
	e := sample()
	for range 20_000 {
		r.Record(&e)
	}
	r.Sync()
	if n := testing.AllocsPerRun(500, func() { r.Record(&e) }); n >= 1 {
		t.Errorf("%v allocations a call", n)
	}
}
