package main

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/chaos"
	"github.com/lockcheck/lockcheck/lockspec"
)

func TestAddresses(t *testing.T) {
	for _, row := range []struct {
		url  string
		want []string
	}{
		{"memory://127.0.0.1:1?lease=1s", []string{"127.0.0.1:1"}},
		{"broken://name?at=127.0.0.1%3A1&lease=1s", []string{"127.0.0.1:1"}},
		{"redis://:pass%40word@127.0.0.1:2/0?lease=1s", []string{"127.0.0.1:2"}},
		{"redlock://:pw@a:1,b:2,c:3/?lease=1s", []string{"a:1", "b:2", "c:3"}},
		{"postgres://u:p@[::1]:5/db?sslmode=disable", []string{"[::1]:5"}},
		{"azblob://a:k@127.0.0.1:4/c?tls=off", []string{"127.0.0.1:4"}},
		{"rediss://127.0.0.1:2/0", nil},
		{"azblob://a:k@account.example/c", nil},
		{"postgres://u@h:5/db?sslmode=verify-full", nil},
		{"redis://nowhere", nil},
		{"", nil},
	} {
		if got := addresses(row.url); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.url, got, row.want)
		}
	}
}

// TestLinks: nodes of scenarios, and no others, go through proxies of their own.
func TestLinks(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	addr := l.Addr().String()
	for _, row := range []struct {
		name      string
		links     *links
		endpoints bool
	}{
		{"in the URL", newLinks("broken://b?at="+strings.ReplaceAll(addr, ":", "%3A"), nil), false},
		{"as an endpoint", newLinks("", []string{addr}), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			defer row.links.close()
			text, endpoints, err := row.links.At("n1")
			must(t, err)
			if text != row.links.url || !slices.Equal(endpoints, row.links.endpoints) {
				t.Errorf("n1 is led to %s, %v", text, endpoints)
			}
			text, endpoints, err = row.links.At(chaos.NodePrefix + "1")
			must(t, err)
			again, _, _ := row.links.At(chaos.NodePrefix + "1")
			other, others, _ := row.links.At(chaos.NodePrefix + "2")
			if row.endpoints && (len(endpoints) != 1 || endpoints[0] == addr || endpoints[0] == others[0]) ||
				!row.endpoints && (text == row.links.url || text != again || text == other) {
				t.Errorf("x1 is led to %s, %v, x2 to %s, %v", text, endpoints, other, others)
			}
			way, err := row.links.Link(chaos.NodePrefix + "1")
			must(t, err)
			c, err := net.DialTimeout("tcp", way.(link)[0].Addr(), time.Second)
			must(t, err)
			defer c.Close()
			served, err := l.Accept()
			must(t, err)
			defer served.Close()
			_, _ = c.Write([]byte("hello"))
			for limit := time.Now().Add(5 * time.Second); way.Passed() != 5; time.Sleep(time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatalf("%d bytes have passed", way.Passed())
				}
			}
			if n := way.Reset(); n != 1 {
				t.Errorf("%d connections were reset", n)
			}
		})
	}
	if _, err := newLinks("rediss://127.0.0.1:2/0", nil).Link("x1"); !errors.Is(err, lockspec.ErrUnsupported) {
		t.Errorf("a way that cannot be led: %v", err)
	}
}
