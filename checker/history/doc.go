// Package history holds the record of a run: its [Event]s and [Header], the
// [Recorder] that stamps and keeps them while it happens, and the [Reader]
// that gives them back.
//
// A history is JSON lines: a header, events, and an end line with their count
// and the SHA-256 of all bytes before it. What a history cannot contain is as
// important as what it can: see the rules of each type.
package history
