package main

import (
	"fmt"
	"strings"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference/backends/azureblob"
	"github.com/lockcheck/lockcheck/reference/backends/postgres"
	"github.com/lockcheck/lockcheck/reference/backends/redis"
	"github.com/lockcheck/lockcheck/reference/backends/redlock"
	"github.com/lockcheck/lockcheck/reference/memory"
)

// backendRow is one line of the table of built-in locks. Its class, its hazards
// and whether it gives tokens are what the lock says of itself.
type backendRow struct {
	name    string
	targets []string // whose runs are of it, without what they are told beyond their name
	servers []string // of the table of doctor; nil: it needs none
	backend func() (described, error)
}

// described is a lock that tells what it is before it has reached anything.
type described interface {
	Describe() lockspec.Description
	Close() error
}

func backendTable() []backendRow {
	return []backendRow{
		{"memory", []string{embeddedName, "memory://"}, nil, func() (described, error) { return memory.Dial(nowhere, nil), nil }},
		{"redis", []string{"redis://", "rediss://", "up:redis"}, []string{"redis"}, anyRedis},
		{"valkey", []string{"redis://", "rediss://", "up:valkey"}, []string{"valkey"}, anyRedis},
		{"redlock", []string{"redlock://", "up:redlock"}, []string{"redis"}, func() (described, error) {
			return redlock.New([]string{"a" + nowhere, "b" + nowhere, "c" + nowhere}, nil)
		}},
		{"postgres", []string{"postgres://", "postgresql://", "up:postgres"}, []string{"postgres"}, func() (described, error) {
			return postgres.New("postgres://"+nowhere+"/", nil)
		}},
		{"azureblob", []string{azureblob.Scheme + "://", "up:azurite"}, []string{"azurite"}, func() (described, error) {
			return azureblob.New("http://"+nowhere+"/container", &azureblob.Options{SAS: "sig="})
		}},
	}
}

// nowhere is an address that nothing is asked for.
const nowhere = ".invalid:1"

func anyRedis() (described, error) { return redis.New(nowhere, nil) }

// describe is what a lock says of itself.
func (b *backendRow) describe() (lockspec.Description, error) {
	lock, err := b.backend()
	if err != nil {
		return lockspec.Description{}, fmt.Errorf("%s: %w", b.name, err)
	}
	defer lock.Close()
	return lock.Describe(), nil
}

func backendRows() [][]string {
	var rows [][]string
	for _, b := range backendTable() {
		d, err := b.describe()
		if err != nil {
			continue // a test says that there is none
		}
		fencing := "no"
		if d.Claims(lockspec.Fencing) {
			fencing = "yes"
		}
		rows = append(rows, []string{b.name, string(d.Class), strings.Join(b.targets, " "), orDash(strings.Join(b.servers, " ")), fencing, orDash(joined(d.Hazards))})
	}
	return rows
}

func joined[T ~string](words []T) string {
	var all []string
	for _, w := range words {
		all = append(all, string(w))
	}
	return strings.Join(all, " ")
}

func orDash(text string) string { return or(text, "-") }
