package driver

// rule is one rule of the protocol and how it is tried. What goes wrong in any
// attempt counts against the rule it belongs to.
type rule struct {
	letter, says, how string
	tries             []func(*attempt)
}

// rules is the table of rules, in the order of the protocol.
func rules() []rule {
	return []rule{
		{"hello", "hello says who speaks, and every reply has what it claims", "the reply to hello, a grant, a stamp of every ping", []func(*attempt){tryClaims}},
		{"a", "exactly one reply for each request, in any order", "every line of every attempt; a thousand pings at once", []func(*attempt){tryBurst}},
		{"b", "lost is written before any reply computed after it, and nothing asked after it is answered ok", "a lease that nobody renews, asked about until it is lost and then again", []func(*attempt){tryLoss}},
		{"c", "stdout belongs to the protocol", "every line of every attempt", []func(*attempt){tryLines}},
		{"d", "stdin is read at all times, also while calls block", "pings and checks while calls work and wait; a request of a megabyte", []func(*attempt){tryBlocked, tryFull, tryHuge}},
		{"e", "the end of stdin ends the driver at once, and it releases nothing", "stdin is closed under a driver that holds a key", []func(*attempt){tryEnd}},
		{"f", "a driver dies only when it is asked to, and then it does", "every attempt; shutdown with and without release", []func(*attempt){tryShutdown}},
		{"g", "wait_ms and renew mean what they say, what is not claimed is unsupported, every call is bounded", "no wait, a short one, one without limit; a lease left alone; a service that never answers", []func(*attempt){tryWait, tryNoLimit, tryDefaultRenewal, tryUnclaimed, trySilence}},
		{"h", "every process is an owner of its own", "two processes of one driver, and one twice, on one key", []func(*attempt){tryOwners}},
		{"i", "busy from a quorum lock may leave keys for up to one lease", "nothing to try: it allows, and demands nothing", nil},
		{"j", "what is unknown is answered so, cancel is always ok, hello does not wait for the service", "an unknown op and lease, cancel of nothing and of a wait, a version nobody speaks, a service that is away", []func(*attempt){tryUnknown, tryCancel, tryVersion, tryAway}},
		{"k", "lease_ms of a grant is what the service surely keeps, counted from the send of the request", "every grant; an abandoned lease that another process waits for", []func(*attempt){tryPromise}},
		{"l", "held asks the lock, write checks first and works then", "a holder and a former holder, work of known length", []func(*attempt){tryChecks}},
		{"m", "a section tells when its work begins and ends, and answers lost where it lost the lock", "a section, and one whose lease ends in its work", []func(*attempt){trySection, tryLostSection}},
	}
}
