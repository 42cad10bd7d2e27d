//go:build !unix

package main

const envBad = "LOCKCHECK_TEST_BAD"

func badDriver(mode string) { panic("no bad driver " + mode + " on this system") }
