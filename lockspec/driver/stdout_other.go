//go:build !unix

package driver

import "os"

// takeStdout keeps the real stdout for the protocol and points os.Stdout at
// stderr.
func takeStdout() (*os.File, error) {
	out := os.Stdout
	os.Stdout = os.Stderr
	return out, nil
}
