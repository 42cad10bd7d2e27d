package history

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// sample is a typical return: 14 fields, about 240 bytes.
func sample() Event {
	return Event{Case: "A02", Process: "p12", Owner: "o3", Node: "n1", Type: OK, Op: Acquire, Key: "orders/42",
		Tenure: "t1017", Lease: 2 * time.Second, Token: 41, Sent: 12_000_345_678}
}

// BenchmarkRecord is what an event costs who records it, in bursts between
// which the writer keeps up, as in a run.
func BenchmarkRecord(b *testing.B) {
	const burst = 500
	r, e := recordToFile(b), sample()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%burst == 0 {
			b.StopTimer()
			r.Sync()
			b.StartTimer()
		}
		r.Record(&e)
	}
}

// BenchmarkRecordSustained has the writer compete with one who does nothing
// but record.
func BenchmarkRecordSustained(b *testing.B) {
	r, e := recordToFile(b), sample()
	b.ReportAllocs()
	for b.Loop() {
		r.Record(&e)
	}
}

func recordToFile(b *testing.B) *Recorder {
	f, err := os.Create(filepath.Join(b.TempDir(), "history.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	r, err := NewRecorder(Header{Class: "lease"}, &Options{Out: f})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(r.Close(), f.Close()); err != nil {
			b.Fatal(err)
		}
	})
	return r
}

func BenchmarkRead(b *testing.B) {
	var out bytes.Buffer
	r, err := NewRecorder(Header{}, &Options{Out: &out})
	if err != nil {
		b.Fatal(err)
	}
	const pairs = 50_000
	for range pairs {
		r.Record(&Event{Process: "p1", Node: "n1", Type: Invoke, Op: Acquire, Key: "orders/42", Ask: 2 * time.Second})
		r.Record(&Event{Process: "p1", Node: "n1", Type: OK, Op: Acquire, Key: "orders/42", Tenure: "t1", Token: 41, Lease: 2 * time.Second})
	}
	if err := r.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(out.Len()))
	b.ReportAllocs()
	var e Event
	for b.Loop() {
		d, err := NewReader(bytes.NewReader(out.Bytes()))
		if err != nil {
			b.Fatal(err)
		}
		for d.Next(&e) == nil {
		}
		if !errors.Is(d.err, io.EOF) || d.Truncated() {
			b.Fatal(d.err)
		}
	}
	b.ReportMetric(float64(b.N)*2*pairs/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(out.Len())/2/pairs, "bytes/event")
}
