// Package porcupine checks lock histories with the linearizability checker of
// that name: as an oracle for the checks without search, as the engine for a
// model that a user brings, and to draw a window around a witness.
//
// It searches, and searching blows up exactly where lock tests live: see
// docs/checker.md for both side by side. Use [checker.Stream] for verdicts.
package porcupine
