module github.com/lockcheck/lockcheck/containers

go 1.26.0

require github.com/lockcheck/lockcheck v0.0.0
