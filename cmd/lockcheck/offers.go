package main

import (
	"net/url"
	"strconv"

	"github.com/lockcheck/lockcheck/reports/result"
)

// offers are what the lock in this process has besides being a lock.
type offers struct {
	shared    bool // readers share
	permits   int  // that a key has; 0: a mutex
	reentrant bool
}

// offersForm is how they stand in a target.
const offersForm = "memory://[?shared][&permits=K][&reentrant]"

// parseOffers reads them from the query of a target.
func parseOffers(query string) (o offers, err error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return o, exit(result.ExitUsage, "memory://?%s: the form is %s", query, offersForm)
	}
	for name, values := range q {
		value := values[len(values)-1]
		switch {
		case name == "shared" && value == "":
			o.shared = true
		case name == "reentrant" && value == "":
			o.reentrant = true
		case name == "permits":
			if o.permits, err = strconv.Atoi(value); err != nil || o.permits < 2 {
				return o, exit(result.ExitUsage, "memory://?%s: permits=K needs a number, at least 2", query)
			}
		default:
			return o, exit(result.ExitUsage, "memory://?%s: unknown option %q; %s", query, name, nearest(name, []string{"shared", "permits", "reentrant"}))
		}
	}
	if o.permits > 0 && (o.shared || o.reentrant) {
		return o, exit(result.ExitUsage, "memory://?%s: permits are neither shared nor reentrant", query)
	}
	return o, nil
}
