package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Options are the settings of a way to a PostgreSQL. The zero value of each
// field stands for the default that its comment names.
type Options struct {
	// Prefix begins every key before it becomes a number; default: none.
	Prefix string
	// Unfenced leaves the counters out: no tokens, and no table.
	Unfenced bool
	// Table holds the counters, NAME or SCHEMA.NAME; default "lockcheck_fence".
	Table string
	// NoCreate leaves it to somebody else to make the table; see [CreateTable].
	NoCreate bool
	// Probe is how often a holder asks whether it still holds; default 2 s. Three
	// of them after the last answer it gives up, and only then the server may.
	Probe time.Duration
	// PoolSize is the most connections, one for each lock that is held and each
	// attempt; default 50. (A server has 100 by default, for everybody.)
	PoolSize int
	// Pooler says that a pooler stands before the server. Only one that gives a
	// client its session for as long as it stays is of use; default: none may.
	Pooler Pooler
	// Warn is told, once, what about the server endangers locks; default: nobody.
	Warn func(text string)
	// Dial makes a connection; default: TCP, or a Unix socket.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	_ struct{}
}

// Pooler is what stands between the clients and the server.
type Pooler string

// The poolers.
const (
	NoPooler      Pooler = ""        // connections that are no sessions are refused
	SessionPooler Pooler = "session" // such as PgBouncer with pool_mode = session
)

// The defaults.
const (
	DefaultTable    = "lockcheck_fence"
	DefaultProbe    = 2 * time.Second
	DefaultPoolSize = 50
)

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	orDefault(&c.Table, DefaultTable)
	orDefault(&c.Probe, DefaultProbe)
	orDefault(&c.PoolSize, DefaultPoolSize)
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	return c, c.validate()
}

// tableName is what a table may be called without quotes.
var tableName = regexp.MustCompile(`^([a-z_][a-z0-9_]*\.)?[a-z_][a-z0-9_]*$`)

func (o *Options) validate() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(tableName.MatchString(o.Table), "table %q is not NAME or SCHEMA.NAME of small letters, digits and underscores", o.Table)
	check(o.Probe >= leastProbe, "probe %v is below %v", o.Probe, leastProbe)
	check(o.Probe <= time.Hour, "probe %v is above an hour", o.Probe)
	check(o.PoolSize > 0, "pool size %d is not positive", o.PoolSize)
	check(o.Pooler == NoPooler || o.Pooler == SessionPooler, "pooler %q is not %s", o.Pooler, SessionPooler)
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", lockspec.ErrConfig, errors.Join(wrong...))
}

// leastProbe leaves a probe time for its round trip.
const leastProbe = 50 * time.Millisecond

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// span is how long after its last answered probe a holder may still hold. It is
// what reference.Session makes of the probe interval.
func (o *Options) span() time.Duration { return 3 * o.Probe }

// keepalive is how a server finds out that a client is cut off: the names are
// those of its settings. It must not do so before the client has given up.
//
// On Linux the first probe of an idle connection goes out after idle, and with
// tcp_user_timeout set the connection ends at the first later probe at which
// nothing was heard for that long (tcp(7); net/ipv4/tcp_timer.c). Without it,
// elsewhere, it ends after idle + interval × count.
func (o *Options) keepalive() (idle, interval, count, userTimeout int) {
	idle = int((o.span() + time.Second - 1) / time.Second)
	return idle, 1, 2, (idle + 1) * 1000
}

// takeover is the longest that a key stays held after its holder was cut off:
// the two keepalives after idle, and a second for a busy machine.
func (o *Options) takeover() time.Duration {
	idle, interval, count, _ := o.keepalive()
	return time.Duration(idle+interval*count+1) * time.Second
}
