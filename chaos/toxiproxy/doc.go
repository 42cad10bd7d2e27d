// Package toxiproxy puts faults on real TCP ways between clients and servers.
//
// It stands on Shopify's toxiproxy (v2.12.0), which runs inside the process,
// and adds what that one lacks: a cut. Its own timeout toxic is none: the FIN of
// a client that dies crosses it at once, so a holder that is cut off is freed
// like one that left in order; and when it is removed the connection is closed,
// so a short blip costs every session its lock.
//
// TCP loses nothing: a cut is a stall that heals. What was sent meanwhile, the
// end of a connection included, arrives then.
package toxiproxy
