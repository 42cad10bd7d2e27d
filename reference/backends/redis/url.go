package redis

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Form is how a URL of a server is written.
const Form = "redis://[USER:PASSWORD@]HOST[:PORT][/DB][?OPTION=VALUE&…]"

// defaultPort is Redis's own.
const defaultPort = "6379"

// urlOptions is what a URL may say behind its question mark.
var urlOptions = map[string]func(o *Options, value string) error{
	"prefix":       func(o *Options, v string) error { o.Prefix = v; return nil },
	"fencing":      func(o *Options, v string) error { return onOff(&o.Unfenced, v) },
	"class":        func(o *Options, v string) error { o.Class = lockspec.Class(v); return nil },
	"wait":         func(o *Options, v string) error { return number(&o.Wait, v) },
	"wait_timeout": func(o *Options, v string) error { return duration(&o.WaitTimeout, v) },
	"renew":        func(o *Options, v string) error { o.Renew = RenewBy(v); return nil },
	"release":      func(o *Options, v string) error { o.Release = ReleaseBy(v); return nil },
	"pool_size":    func(o *Options, v string) error { return number(&o.PoolSize, v) },
	"lease":        func(o *Options, v string) error { return duration(&o.Lease, v) },
}

// ParseURL reads a URL of the scheme redis, or rediss for TLS. An error
// matches ErrConfig, names the setting that is wrong, and holds nothing of a
// password.
func ParseURL(text string) (addr string, o *Options, err error) {
	u, err := url.Parse(text)
	if err != nil {
		// What package url says may quote any part of the text.
		return "", nil, wrong("the URL cannot be read, the form is %s; in a password, write %%40 for @, %%2F for /, %%3A for a colon", Form)
	}
	o = &Options{}
	host := u.Hostname()
	if host == "" || u.Opaque != "" {
		return "", nil, wrong("the URL names no host, the form is %s", Form)
	}
	switch u.Scheme {
	case "redis":
	case "rediss":
		o.TLS = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	default:
		return "", nil, wrong("scheme %q is neither redis nor rediss", u.Scheme)
	}
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	if db := strings.Trim(u.Path, "/"); db != "" {
		if err := number(&o.DB, db); err != nil {
			return "", nil, wrong("the database behind the / is %w", err)
		}
	}
	if err := o.apply(u.Query()); err != nil {
		return "", nil, err
	}
	port := u.Port()
	orDefault(&port, defaultPort)
	if _, err := o.withDefaults(); err != nil {
		return "", nil, err
	}
	return net.JoinHostPort(host, port), o, nil
}

func (o *Options) apply(q url.Values) error {
	known := slices.Sorted(maps.Keys(urlOptions))
	for _, name := range slices.Sorted(maps.Keys(q)) {
		set := urlOptions[name]
		if set == nil {
			return wrong("unknown option %q; there are %s", name, strings.Join(known, ", "))
		}
		if len(q[name]) != 1 || q[name][0] == "" {
			return wrong("option %q needs one value", name)
		}
		if err := set(o, q[name][0]); err != nil {
			return wrong("option %q is %w", name, err)
		}
	}
	return nil
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
