package redlock

import (
	"fmt"
	"strings"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference/backends/redis"
)

// Form is how a URL of several servers is written.
const Form = "redlock://[USER:PASSWORD@]HOST:PORT,HOST:PORT,HOST:PORT[/DB][?OPTION=VALUE&…]"

// Scheme begins a URL.
const Scheme = "redlock://"

// URLs splits a URL into those of its servers. It is no URL to package url,
// which takes one host.
func URLs(text string) ([]string, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return nil, fmt.Errorf("%w: the form is %s", lockspec.ErrConfig, Form)
	}
	user, rest := cutUser(rest)
	hosts, rest := rest, ""
	if end := strings.IndexAny(hosts, "/?"); end >= 0 {
		hosts, rest = hosts[:end], hosts[end:]
	}
	var all []string
	for host := range strings.SplitSeq(hosts, ",") {
		all = append(all, "redis://"+user+host+rest)
	}
	return all, nil
}

// cutUser cuts off what stands before the last @ of the authority.
func cutUser(rest string) (user, hosts string) {
	authority := rest
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		authority = rest[:end]
	}
	at := strings.LastIndex(authority, "@")
	return rest[:at+1], rest[at+1:]
}

// ParseURL reads a URL. An error matches ErrConfig or ErrUnsupported, names the
// setting that is wrong, and holds nothing of a password.
func ParseURL(text string) (addrs []string, o *Options, err error) {
	urls, err := URLs(text)
	if err != nil {
		return nil, nil, err
	}
	o = &Options{}
	for _, u := range urls {
		addr, server, err := redis.ParseURL(u)
		if err != nil {
			return nil, nil, err
		}
		addrs, o.Server = append(addrs, addr), *server
	}
	if o.Server.Class != "" && o.Server.Class != lockspec.ReplicatedLease {
		return nil, nil, fmt.Errorf("%w: option %q is %q; Redlock is %s", lockspec.ErrConfig, "class", o.Server.Class, lockspec.ReplicatedLease)
	}
	return addrs, o, (&Backend{opts: *o}).validate(addrs)
}
