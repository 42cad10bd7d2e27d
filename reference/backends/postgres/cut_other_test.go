//go:build !linux

package postgres

const envCut = "LOCKCHECK_TEST_CUT"

func cutOff() int { return 0 }
