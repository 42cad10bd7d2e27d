// Package chaos strikes a lock with real faults while contenders use it, and
// says what each class of locks may and may not do then.
//
// A [Fault] is a row of a table; a [Schedule] is data from one seed; a [World]
// performs it, or says why it cannot; a scenario is a contract.Case whose Run
// needs a World. Adding a fault is a row and, for the real world, the method
// that applies it; adding a scenario is a file and a row.
package chaos
