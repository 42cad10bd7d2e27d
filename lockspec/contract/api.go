package contract

// apiCases are promises of the reference engine's Go API, or of the registers
// that this suite judges by. No suite can try them on another lock: they are
// tests of their own packages, listed here so that the contract is whole.
func apiCases() []Case {
	var cases []Case
	for _, row := range []struct{ id, group, name string }{
		{"A08", "acquire", "owner names are unique for each attempt, and no prefix of one or empty name matches another"},
		{"B05", "release", "a release whose context has ended still releases"},
		{"B10", "release", "the callback form releases on return, error, panic and Goexit"},
		{"B11", "release", "a closed engine has released its leases and takes none"},
		{"C01", "handle", "a context that has ended asks nothing of the service"},
		{"C04", "handle", "a cancel after the grant does not touch the lease"},
		{"C05", "handle", "a deadline of the acquisition does not bound the lease"},
		{"C06", "handle", "the lease's context carries the values of the acquisition's"},
		{"C08", "handle", "what a lease says of its end is consistent, and free of races"},
		{"C10", "handle", "a bound context ends with the first of its two, and tells which"},
		{"C11", "handle", "1,000 cycles with failures leave no goroutine, timer or connection"},
		{"D04", "waiting", "the delay between attempts starts at its minimum, doubles, and is capped"},
		{"D05", "waiting", "each delay is drawn from the upper half of its step"},
		{"D06", "waiting", "a waiter of a minute asks as often as one that has just reached the cap"},
		{"D13", "waiting", "an idle key's queue takes no memory"},
		{"E05", "renewal", "the deadline counts from the send of the last good renewal"},
		{"E13", "renewal", "no lease says held past its deadline, even where its timer starves"},
		{"E16", "renewal", "the longest hold ends a tenure as lost, however well it is renewed"},
		{"F06", "fencing", "a failed attempt shows no token"},
		{"F09", "fencing", "the fenced register takes equal and higher tokens and refuses lower ones"},
		{"F10", "fencing", "a seal before the first write keeps an older holder's write out"},
		{"G09", "keys", "two namespaces share no key"},
		{"G11", "keys", "keys are mapped as in every earlier version"},
		{"H04", "errors", "an acquisition returns a lease or an error, never both or neither"},
		{"H06", "errors", "a panic of the backend is an error, and leaks no lock"},
		{"H07", "errors", "a cause is found by type, and no message shows a key or a secret"},
		{"I01", "limits", "an acquisition is a span that says how it ended; busy is no failure"},
		{"I02", "limits", "counters match a scripted history exactly"},
		{"I03", "limits", "the gauge of what is held returns to 0"},
		{"I04", "limits", "no key is in spans, metrics or logs unless asked for"},
		{"I05", "limits", "without telemetry, telemetry costs nothing"},
	} {
		cases = append(cases, Case{ID: row.id, Group: row.group, Name: row.name, Level: APILevel, Since: "1"})
	}
	return cases
}
