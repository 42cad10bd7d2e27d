package history

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Options are the options of a Recorder.
type Options struct {
	// Out receives the history, in one Write a batch. It is not closed. Nil:
	// nothing is written, the events go to Follow only.
	Out io.Writer
	// Follow is called by the writer goroutine with each batch of events, in
	// order, after their bytes were written to Out. The slice is reused after
	// the call. Follow may call Record, but neither Sync nor Close.
	Follow func([]Event)
	// Every is how long an event waits at most before its batch is written
	// (10 ms if 0).
	Every time.Duration
	// Now tells the run time in nanoseconds (monotonic time since NewRecorder
	// if nil). It is called under the recorder's mutex. If it is given, stamps
	// are readings of the same clock: see At.
	Now func() int64
	// Direct is called by Record itself, under the recorder's mutex, with each
	// stamped event, which it may not keep. Nothing is then encoded or written
	// and no goroutine is started: Out, Follow and Every must be zero. It is for
	// simulations, of which there are too many to write down. It may not call
	// the Recorder.
	Direct func(*Event)

	_ struct{}
}

const (
	defaultEvery = 10 * time.Millisecond
	batchBytes   = 128 << 10
	mostSpare    = 32 // batches that are kept for reuse
)

// batch is what is written in one Write and followed in one call. Batches have
// a fixed size and form a queue, because one buffer that grows while the disk
// is slow would be copied again and again, under the mutex.
type batch struct {
	bytes  []byte
	events []Event // only if somebody follows
}

// Recorder stamps events and writes them as a history. It is safe for
// concurrent use.
//
// Recording never waits for the disk: one goroutine takes what has gathered
// and writes it, while the next batch gathers. After a failed write nothing
// more is written, so that what is there remains a readable, truncated
// history; events are still stamped and followed.
type Recorder struct {
	now    func() int64
	offset int64 // raw CLOCK_MONOTONIC at run time 0
	raw    bool  // the offset is known
	every  time.Duration
	follow func([]Event)
	direct func(*Event)
	handed Event // the event that direct has

	wake  chan struct{} // the first event of a batch is there
	hurry chan struct{} // the batch is to be written now
	done  chan struct{} // the writer has ended

	mu      sync.Mutex
	written sync.Cond // progress of the writer
	queue   []*batch  // what gathered; the last one is being filled
	spare   []*batch
	next    int64 // index of the next event
	last    int64 // time of the last event
	upto    int64 // events below it are written and followed
	closed  bool
	refused int64 // events recorded after Close
	err     error // of the first failed write

	out io.Writer // what follows belongs to the writer
	sum hash.Hash
}

// NewRecorder writes the header and starts the writer goroutine, which lives
// until Close.
func NewRecorder(h Header, o *Options) (*Recorder, error) {
	if o == nil {
		o = &Options{}
	}
	if o.Direct != nil {
		return newDirect(o)
	}
	line, err := appendHeader(nil, h)
	if err != nil {
		return nil, err
	}
	r := &Recorder{now: o.Now, every: o.Every, follow: o.Follow, out: o.Out, sum: sha256.New(),
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), done: make(chan struct{})}
	r.written.L = &r.mu
	if r.every <= 0 {
		r.every = defaultEvery
	}
	r.startClock()
	if err := r.write(line); err != nil {
		return nil, fmt.Errorf("history header: %w", err)
	}
	go r.run()
	return r, nil
}

// newDirect is a recorder that hands each event on and writes nothing.
func newDirect(o *Options) (*Recorder, error) {
	if o.Out != nil || o.Follow != nil || o.Every != 0 {
		return nil, errors.New("history: Direct goes without Out, Follow and Every")
	}
	r := &Recorder{now: o.Now, direct: o.Direct}
	r.written.L = &r.mu
	r.startClock()
	return r, nil
}

// startClock starts run time and reads the offset of raw stamps to it. The
// narrowest of a few readings counts, so that a preemption between the two
// clocks does not shift every stamp of the run.
func (r *Recorder) startClock() {
	if r.now != nil {
		r.raw = true
		return
	}
	start := time.Now()
	r.now = func() int64 { return int64(time.Since(start)) }
	narrowest := int64(-1)
	for range 5 {
		before := r.now()
		raw, ok := fakeclock.Monotonic()
		width := r.now() - before
		if ok && (narrowest < 0 || width < narrowest) {
			narrowest, r.raw, r.offset = width, true, raw-before-width/2
		}
	}
}

// Now is the run time in nanoseconds.
func (r *Recorder) Now() int64 { return r.now() }

// At is the run time of a stamp, 0 where there is none: s is 0, or this system
// has no raw monotonic clock. Without Options.Now stamps are readings of raw
// CLOCK_MONOTONIC; with it, of the same clock as Now.
func (r *Recorder) At(s lockspec.Stamp) int64 {
	if s == 0 || !r.raw {
		return 0
	}
	return int64(s) - r.offset
}

// Record copies the event, stamps the copy's Index and Time, and returns the
// index. What e says in those two fields is ignored. After Close it returns -1
// and the event is lost, which Err and Close report.
func (r *Recorder) Record(e *Event) int64 {
	if r.direct != nil {
		return r.hand(e)
	}
	return r.enqueue(e)
}

// enqueue is Record's to a file. It has a frame of its own, because it is a large
// one, and a simulated world has many small stacks.
func (r *Recorder) enqueue(e *Event) int64 {
	var space [768]byte
	body := appendBody(space[:0], e)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		r.refused++
		return -1
	}
	index := r.next
	r.next++
	r.last = max(r.last, r.now())
	b := r.room(len(body))
	b.bytes = append(appendStamp(b.bytes, index, r.last), body...)
	if r.follow != nil {
		b.keep(e, index, r.last)
	}
	return index
}

// hand stamps a copy of the event and hands it to direct.
func (r *Recorder) hand(e *Event) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		r.refused++
		return -1
	}
	r.handed = *e
	r.last = max(r.last, r.now())
	r.handed.Index, r.handed.Time = r.next, r.last
	r.next++
	r.upto = r.next
	r.direct(&r.handed)
	return r.handed.Index
}

// longestStamp is what appendStamp appends at most.
const longestStamp = 64

// room returns the batch that a line goes to. A line longer than a batch has
// one to itself.
func (r *Recorder) room(line int) *batch {
	if n := len(r.queue); n > 0 {
		b := r.queue[n-1]
		if len(b.bytes)+line+longestStamp <= cap(b.bytes) {
			return b
		}
		poke(r.hurry)
	} else {
		poke(r.wake)
	}
	var b *batch
	if n := len(r.spare); n > 0 {
		b, r.spare = r.spare[n-1], r.spare[:n-1]
	} else {
		b = &batch{bytes: make([]byte, 0, batchBytes)}
	}
	r.queue = append(r.queue, b)
	return b
}

// keep copies the event for Follow.
func (b *batch) keep(e *Event, index, time int64) {
	b.events = append(b.events, *e)
	c := &b.events[len(b.events)-1]
	c.Index, c.Time = index, time
	if len(c.Targets) > 0 {
		c.Targets = slices.Clone(c.Targets)
	}
}

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Sync returns once every event recorded before the call was written to Out
// (not fsynced) and given to Follow. It returns what Err does.
func (r *Recorder) Sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for want := r.next; r.upto < want; {
		poke(r.hurry)
		r.written.Wait()
	}
	return r.problem()
}

// Err is what went wrong so far: the first failed write, events recorded after
// Close.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem()
}

func (r *Recorder) problem() error {
	if r.refused > 0 {
		return errors.Join(r.err, fmt.Errorf("history: %d events recorded after Close", r.refused))
	}
	return r.err
}

// Close writes what is left and the end line, waits for the last call of
// Follow, and returns what Err does. Closing twice is fine.
func (r *Recorder) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	if r.direct != nil {
		return r.Err()
	}
	poke(r.hurry)
	<-r.done
	return r.Err()
}

// run is the writer goroutine. While nothing happens it sleeps without a
// timer, so that a simulated clock can jump.
func (r *Recorder) run() {
	defer close(r.done)
	var queue []*batch
	for closed := false; !closed; {
		r.await()
		queue, closed = r.flush(queue)
	}
	r.fail(r.write(appendEnd(nil, r.upto, r.sum.Sum(nil))))
}

// await returns when a batch is due.
func (r *Recorder) await() {
	select {
	case <-r.hurry:
		return
	case <-r.wake:
	}
	due := time.NewTimer(r.every)
	defer due.Stop()
	select {
	case <-r.hurry:
	case <-due.C:
	}
}

// flush swaps the queue for an empty one and writes it. It returns the queue,
// emptied.
func (r *Recorder) flush(queue []*batch) ([]*batch, bool) {
	r.mu.Lock()
	queue, r.queue = r.queue, queue[:0]
	upto, closed := r.next, r.closed
	r.mu.Unlock()

	for i, b := range queue {
		r.fail(r.write(b.bytes))
		if len(b.events) > 0 {
			r.follow(b.events)
		}
		clear(b.events) // lets go of the strings
		b.bytes, b.events = b.bytes[:0], b.events[:0]
		r.recycle(b)
		queue[i] = nil
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.upto = upto
	r.written.Broadcast()
	return queue, closed
}

func (r *Recorder) recycle(b *batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spare) < mostSpare && cap(b.bytes) == batchBytes {
		r.spare = append(r.spare, b)
	}
}

// write writes bytes and adds them to the sum, unless a write has failed.
func (r *Recorder) write(b []byte) error {
	if r.out == nil || len(b) == 0 {
		return nil
	}
	n, err := r.out.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		r.out = nil
		return err
	}
	r.sum.Write(b)
	return nil
}

// fail keeps the first error.
func (r *Recorder) fail(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = fmt.Errorf("history: %w", err)
	}
}
