// Package lockspec holds the words of lockcheck: what a distributed lock's
// client looks like ([Client], [Lease] and their optional powers), how the
// outcome of an operation is named ([Outcome]), and how a lock describes what
// it claims ([Description], [Class], [Feature], [Hazard], [Profile], [Bounds]).
//
// It imports the standard library only, so that a lock library can implement
// [Client] without taking anything else on.
//
// What a suite built on these words can and cannot say: a violation it reports
// is one (there are no false positives by design, and each verdict carries its
// evidence); a pass means that no violation was seen under the faults that
// landed, not that none exists. Run it often, with -race, with other seeds.
package lockspec
