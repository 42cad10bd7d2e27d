module github.com/lockcheck/lockcheck

go 1.25.0
