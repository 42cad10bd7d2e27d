//go:build !unix

package main

import "time"

// processor stands in where the processor time is not told: the wall clock.
func processor() time.Duration { return time.Duration(time.Now().UnixNano()) }
