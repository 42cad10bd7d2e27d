package postgres

import (
	"context"
	"errors"

	"github.com/lockcheck/lockcheck/chaos"
)

// What follows is for the scenarios of package chaos.
var _ interface {
	chaos.Reviver
	chaos.Failoverer
	chaos.Freezer
	chaos.Crowder
	chaos.Pooler
} = (*Faults)(nil)

// Revive implements chaos.Reviver: what is on disk stays, and no session does.
func (f *Faults) Revive(ctx context.Context) error { return f.Restart(ctx) }

// Follow implements chaos.Failoverer.
func (f *Faults) Follow(ctx context.Context) (end func() error, err error) {
	s, err := f.server.Standby(ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.standby = s
	return s.Close, nil
}

// Detach implements chaos.Failoverer. No standby knows of a session's lock.
func (f *Faults) Detach(context.Context) error { return nil }

// Failover implements chaos.Failoverer.
func (f *Faults) Failover(ctx context.Context, survives bool) (former string, heal func(context.Context) error, err error) {
	defer f.silence.Begin()()
	f.mu.Lock()
	s := f.standby
	f.mu.Unlock()
	former = f.server.Addr()
	if !survives {
		if err := f.server.Kill(); err != nil {
			return "", nil, err
		}
	}
	heal = func(ctx context.Context) error {
		defer f.silence.Begin()()
		f.lead(nil)
		err := errors.Join(f.server.Restart(ctx), s.Close())
		f.relay.Move(f.server.Addr())
		return err
	}
	if err := s.Promote(ctx); err != nil {
		return "", heal, err
	}
	f.lead(s)
	f.relay.Move(s.Addr())
	return former, heal, nil
}

// lead makes what the harness does reach a standby that has taken over; nil: the
// server that was started first.
func (f *Faults) lead(s Standby) {
	f.mu.Lock()
	f.next = s
	f.mu.Unlock()
	f.admin.close()
	f.pulse.close()
}

// Freeze implements chaos.Freezer. Sessions that are open are told as well.
func (f *Faults) Freeze(ctx context.Context) (heal func(context.Context) error, err error) {
	set := func(ctx context.Context, to string) error {
		if err := f.admin.exec(ctx, "ALTER SYSTEM SET default_transaction_read_only = "+to); err != nil {
			return err
		}
		return f.admin.exec(ctx, "SELECT pg_reload_conf()")
	}
	return func(ctx context.Context) error {
		return errors.Join(f.admin.exec(ctx, "SET default_transaction_read_only = off"), set(ctx, "off"))
	}, set(ctx, "on")
}

// Pool implements chaos.Pooler.
func (f *Faults) Pool(ctx context.Context) (addr string, end func() error, err error) {
	return f.server.Pooler(ctx, "transaction")
}
