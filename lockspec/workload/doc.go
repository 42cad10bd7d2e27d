// Package workload is the one place that drives a lockspec.Client and records
// what it did. Everything that a case or a scenario wants of a lock goes
// through a [Process] and its [Tenure]s, so that no operation is ever missing
// from the history, and every stamp is the harness's own: taken before the
// request was sent and after its reply arrived.
package workload
