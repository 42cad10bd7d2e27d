// Package importer reads histories that others recorded: Jepsen's EDN, lists of
// operations as JSON, and OpenTelemetry traces as OTLP JSON.
//
// What they lack is not invented. Clocks of several machines are believed only
// within [Options.ClockError]: every stamp is moved by it to the side that
// favours the lock. Equal times are concurrent, but never within one process.
package importer
