package postgres

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// session is one connection, and the goroutine that owns it. Between two jobs
// the goroutine is parked in a read, so that the end of the connection is known
// within milliseconds and not with the next use: a server that ends a session
// says so once, and unasked.
//
// Nothing is cancelled by a context: pgx can only close a connection whose query
// is cut off, and with it goes the lock. Who does not want to wait for an answer
// any more either closes the session, or leaves its question open.
type session struct {
	conn *pgconn.PgConn
	net  net.Conn
	pid  string // of the backend; what the connection was told may be a pooler's

	turn chan struct{} // holds a value while a job is under way
	jobs chan job
	dead chan struct{} // closed at the end
	lost chan error    // why it ended, then closed
	why  error         // the same; read it when dead is closed

	closing sync.Once
	reason  error // why we closed it; nil: we did not

	holds tenure // what it holds; the backend's

	mu      sync.Mutex
	silence *time.Timer // closes a session that holds a lock and is not heard of
}

type job struct {
	do   func(*pgconn.PgConn) error
	done chan error
}

func newSession(conn *pgconn.PgConn, raw net.Conn, pid string) *session {
	return &session{conn: conn, net: raw, pid: pid,
		turn: make(chan struct{}, 1), jobs: make(chan job), dead: make(chan struct{}), lost: make(chan error, 1)}
}

// past wakes a read.
var past = time.Unix(1, 0)

// serve owns the connection to its end.
func (s *session) serve() {
	for {
		err := s.conn.WaitForNotification(context.Background())
		switch {
		case err == nil:
			continue // a notification, which nobody asked for
		case !errors.Is(err, os.ErrDeadlineExceeded) || s.conn.IsClosed():
			s.bury(err)
			return
		}
		j := <-s.jobs // who wakes has one
		_ = s.net.SetReadDeadline(time.Time{})
		err = j.do(s.conn)
		j.done <- err
		<-s.turn
		if s.conn.IsClosed() {
			s.bury(err)
			return
		}
	}
}

// bury tells everybody that the session has ended.
func (s *session) bury(err error) {
	s.close(nil)
	if s.reason != nil {
		err = s.reason
	}
	if err == nil {
		err = errEnded
	}
	s.why = err
	s.lost <- err
	close(s.lost)
	close(s.dead)
}

var errEnded = errors.New("the connection ended")

// close ends the connection at once; its backend hears of it and frees what it
// holds. It is safe to call twice.
func (s *session) close(why error) {
	s.closing.Do(func() {
		s.reason = why
		s.hush()
		_ = s.net.Close()
	})
}

// do has the session do a job. When ctx ends first the job goes on and is not
// waited for; the next one waits for it.
func (s *session) do(ctx context.Context, f func(*pgconn.PgConn) error) error {
	select {
	case s.turn <- struct{}{}:
	case <-s.dead:
		return s.why
	case <-ctx.Done():
		return ctx.Err()
	}
	j := job{f, make(chan error, 1)}
	_ = s.net.SetReadDeadline(past)
	select {
	case s.jobs <- j:
	case <-s.dead:
		return s.why
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// row has the session run a prepared statement, and gives the first row of its
// result; nil: there is none.
func (s *session) row(ctx context.Context, statement string, args ...string) (row []string, err error) {
	values := make([][]byte, len(args))
	for i, a := range args {
		values[i] = []byte(a)
	}
	var got []string // the job's own, for it may outlive this call
	err = s.do(ctx, func(c *pgconn.PgConn) error {
		r := c.ExecPrepared(context.Background(), statement, values, nil, nil).Read()
		if r.Err == nil && len(r.Rows) > 0 {
			for _, v := range r.Rows[0] {
				got = append(got, string(v))
			}
		}
		return r.Err
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// alive says whether the session is of use.
func (s *session) alive() bool {
	select {
	case <-s.dead:
		return false
	default:
		return true
	}
}

var errSilent = errors.New("no probe was answered in time")

// heard makes the session close itself unless something is heard of it within
// that time: an engine has given the lock up by then, and nobody else could free
// it.
func (s *session) heard(within time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silence == nil {
		s.silence = time.AfterFunc(within, func() { s.close(errSilent) })
	} else {
		s.silence.Reset(within)
	}
}

// hush: the session holds no lock any more, and may be silent.
func (s *session) hush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silence != nil {
		s.silence.Stop()
	}
}
