// Package explore runs real lock code in virtual time, a thousand schedules a
// second, and judges each as a real run is judged.
//
// A schedule is a [World]: nodes, a network of messages and a simulated
// service, in a synctest bubble. One seed decides all of it: what each node
// does, how long each message travels, what is struck when. The lock under test
// runs unchanged; it gets its clock and its way to the service from its [Node].
package explore
