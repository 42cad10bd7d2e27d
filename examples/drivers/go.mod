module github.com/lockcheck/lockcheck/examples/drivers

go 1.26.0

require (
	github.com/lockcheck/lockcheck v0.0.0
	github.com/lockcheck/lockcheck/containers v0.0.0
)

replace (
	github.com/lockcheck/lockcheck => ../..
	github.com/lockcheck/lockcheck/containers => ../../containers
)
