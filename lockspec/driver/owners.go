package driver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/lockcheck/lockcheck/lockspec"
)

// owner is one process of this node: a client of its own.
type owner struct {
	client func() (lockspec.Client, error) // made at its first use, outside every lock
	open   int                             // acquisitions
	holds  int                             // tenures that were not released
	used   int                             // when, in acquisitions of the driver
}

// owner is the owner of a process. While it is in use there is a matching idle
// to come.
func (s *server) owner(process string) *owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[process]
	if o == nil {
		s.makeRoom()
		o = &owner{client: sync.OnceValues(func() (lockspec.Client, error) { return s.lock.Client(process) })}
		s.owners[process] = o
	}
	s.uses++
	o.open++
	o.used = s.uses
	return o
}

func (s *server) idle(o *owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.open--
}

// makeRoom gives up the owner that was idle longest once there are as many as
// hello allows: a harness retires a process name after every unknown outcome,
// and the protocol has no word for that. mu is held.
func (s *server) makeRoom() {
	if len(s.owners) < maxProcesses {
		return
	}
	oldest := ""
	for name, o := range s.owners {
		if o.open == 0 && o.holds == 0 && (oldest == "" || o.used < s.owners[oldest].used) {
			oldest = name
		}
	}
	if o := s.owners[oldest]; o != nil {
		delete(s.owners, oldest)
		go s.closeOwner(o)
	}
}

func (s *server) closeOwner(o *owner) {
	_ = s.call(context.Background(), func(context.Context) error {
		client, err := o.client()
		if err != nil {
			return nil // there is nothing to close
		}
		return client.Close()
	})
}

// admitTenure gives a lease its id.
func (s *server) admitTenure(o *owner, lease lockspec.Lease) *tenure {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	t := newTenure("L"+strconv.Itoa(s.lastID), o, lease)
	o.holds++
	s.tenures[t.id] = t
	return t
}

func (s *server) tenure(id string) *tenure {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tenures[id]
}

// retire notes that a tenure is over. It can still be asked about, and released
// again, until many more are; its loss can still be raised unless it was
// released in order.
func (s *server) retire(t *tenure, released bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if released {
		t.unwatch()
	}
	if t.over {
		return
	}
	t.over = true
	t.owner.holds--
	s.retired = append(s.retired, t.id)
	if len(s.retired) > retiredKept {
		oldest := s.retired[0]
		s.tenures[oldest].unwatch()
		delete(s.tenures, oldest)
		s.retired = s.retired[1:]
	}
}

// unwatch ends watch. server.mu is held.
func (t *tenure) unwatch() {
	select {
	case <-t.ended:
	default:
		close(t.ended)
	}
}

// releaseAll releases what is held, then gives up every owner and the lock.
func (s *server) releaseAll() error {
	s.mu.Lock()
	var release []func() error
	for _, t := range s.tenures {
		if !t.over {
			release = append(release, func() error { return s.release(context.Background(), t) })
		}
	}
	owners := s.owners
	s.owners = map[string]*owner{}
	s.mu.Unlock()
	err := atOnce(release)
	var closing []func() error
	for _, o := range owners {
		closing = append(closing, func() error { s.closeOwner(o); return nil })
	}
	_ = atOnce(closing)
	if closed := s.call(context.Background(), func(context.Context) error { return s.lock.Close() }); closed != nil {
		fmt.Fprintf(s.log, "driver: close: %v\n", closed)
	}
	return err
}

// atOnce calls all at once and joins what they return, but for the answers of
// former holders: those are released as well.
func atOnce(calls []func() error) error {
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			if err := call(); !errors.Is(err, lockspec.ErrLost) && !errors.Is(err, lockspec.ErrNotHeld) {
				errs[i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
