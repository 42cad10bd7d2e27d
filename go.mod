module github.com/lockcheck/lockcheck

go 1.25.0

require (
	github.com/anishathalye/porcupine v1.3.1
	pgregory.net/rapid v1.3.0
)
