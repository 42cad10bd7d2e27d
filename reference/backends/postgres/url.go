package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Form is how a URL of a server is written.
const Form = "postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?OPTION=VALUE&…]"

// urlOptions is what a URL may say behind its question mark.
var urlOptions = map[string]func(o *Options, value string) error{
	"prefix":    func(o *Options, v string) error { o.Prefix = v; return nil },
	"fencing":   func(o *Options, v string) error { return onOff(&o.Unfenced, v) },
	"table":     func(o *Options, v string) error { o.Table = v; return nil },
	"create":    func(o *Options, v string) error { return onOff(&o.NoCreate, v) },
	"probe":     func(o *Options, v string) error { return duration(&o.Probe, v) },
	"pool_size": func(o *Options, v string) error { return number(&o.PoolSize, v) },
	"pooler":    func(o *Options, v string) error { o.Pooler = Pooler(v); return nil },
}

// libpqOptions are those of libpq, which pgx reads.
var libpqOptions = []string{"application_name", "connect_timeout", "sslcert", "sslkey", "sslmode", "sslrootcert"}

// ParseURL reads a URL of the scheme postgres or postgresql. It gives what is
// left of it for [New], and the options. An error matches ErrConfig, names the
// setting that is wrong, and holds nothing of a password.
func ParseURL(text string) (server string, o *Options, err error) {
	u, err := url.Parse(text)
	if err != nil {
		// What package url says may quote any part of the text.
		return "", nil, wrong("the URL cannot be read, the form is %s; in a password, write %%40 for @, %%2F for /, %%3A for a colon", Form)
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", nil, wrong("scheme %q is neither postgres nor postgresql", u.Scheme)
	}
	if u.Hostname() == "" || u.Opaque != "" {
		return "", nil, wrong("the URL names no host, the form is %s", Form)
	}
	if strings.Trim(u.Path, "/") == "" {
		return "", nil, wrong("the URL names no DATABASE, the form is %s; locks of two databases have nothing to do with each other", Form)
	}
	o = &Options{}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", nil, wrong("what stands behind the ? cannot be read, the form is OPTION=VALUE&…; in a value, write %%26 for &, %%3B for a semicolon")
	}
	if err := o.apply(q); err != nil {
		return "", nil, err
	}
	u.RawQuery = q.Encode()
	if _, err := o.withDefaults(); err != nil {
		return "", nil, err
	}
	_, err = parseServer(u.String())
	return u.String(), o, err
}

// apply takes our options out of the query.
func (o *Options) apply(q url.Values) error {
	known := slices.Sorted(maps.Keys(urlOptions))
	for _, name := range slices.Sorted(maps.Keys(q)) {
		set, libpq := urlOptions[name], slices.Contains(libpqOptions, name)
		if set == nil && !libpq {
			return wrong("unknown option %q; there are %s, and of libpq %s", name, strings.Join(known, ", "), strings.Join(libpqOptions, ", "))
		}
		if len(q[name]) != 1 || q[name][0] == "" {
			return wrong("option %q needs one value", name)
		}
		if libpq {
			continue
		}
		if err := set(o, q[name][0]); err != nil {
			return wrong("option %q is %w", name, err)
		}
		q.Del(name)
	}
	return nil
}

// parseServer has pgx read a connection string. What it says of a wrong one may
// quote it; only what it says of a file is passed on.
func parseServer(text string) (*pgconn.Config, error) {
	c, err := pgconn.ParseConfig(text)
	if err == nil {
		return c, nil
	}
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		return nil, wrong("%w", file)
	}
	return nil, wrong("the server's URL cannot be used: look at its port and at %s", strings.Join(libpqOptions, ", "))
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %w", lockspec.ErrConfig, fmt.Errorf(format, args...))
}

func onOff(off *bool, text string) error {
	if text != "on" && text != "off" {
		return fmt.Errorf("%q, neither on nor off", text)
	}
	*off = text == "off"
	return nil
}

func number(n *int, text string) (err error) {
	if *n, err = strconv.Atoi(text); err != nil {
		return fmt.Errorf("%q, not a number", text)
	}
	return nil
}

func duration(d *time.Duration, text string) (err error) {
	if *d, err = time.ParseDuration(text); err != nil || *d <= 0 {
		return fmt.Errorf("%q, not a time such as 500ms", text)
	}
	return nil
}
