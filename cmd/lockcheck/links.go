package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/chaos"
	"github.com/lockcheck/lockcheck/chaos/toxiproxy"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// nodes are the nodes of a run as processes, and the way of each to the service.
type nodes struct {
	*contract.Processes
	*links
}

// Close ends the nodes, and then their ways.
func (n nodes) Close() error { return errors.Join(n.Processes.Close(), n.links.close()) }

var _ chaos.Linker = nodes{}

// links lead the nodes of scenarios to the service, each through a proxy of its
// own for every server. Other nodes go there directly.
type links struct {
	url       string
	endpoints []string
	addrs     []string // of the servers, as they stand in the URL or are the endpoints

	mu sync.Mutex
	by map[string]link
}

func newLinks(text string, endpoints []string) *links {
	l := &links{url: text, endpoints: endpoints, by: map[string]link{}}
	if l.addrs = endpoints; len(endpoints) == 0 {
		l.addrs = addresses(text)
	}
	return l
}

// addresses are the servers of a service's URL, each host:port as it stands
// there. There are none where a proxy would not be let through: a certificate is
// for one name.
func addresses(text string) []string {
	scheme, rest, _ := strings.Cut(text, "://")
	authority, query, _ := strings.Cut(rest, "?")
	q, _ := url.ParseQuery(query)
	switch {
	case q.Has("at"):
		return []string{q.Get("at")}
	case scheme == "rediss", scheme == "azblob" && q.Get("tls") != "off", strings.HasPrefix(q.Get("sslmode"), "verify"):
		return nil
	}
	authority, _, _ = strings.Cut(authority, "/")
	authority = authority[strings.LastIndex(authority, "@")+1:]
	var all []string
	for _, a := range strings.Split(authority, ",") {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return nil
		}
		all = append(all, a)
	}
	return all
}

// At is where a node finds the service.
func (l *links) At(node string) (text string, endpoints []string, err error) {
	text, endpoints = l.url, l.endpoints
	if !strings.HasPrefix(node, chaos.NodePrefix) || len(l.addrs) == 0 {
		return text, endpoints, nil
	}
	way, err := l.way(node)
	if err != nil {
		return "", nil, err
	}
	if len(l.endpoints) > 0 {
		endpoints = nil
		for _, p := range way {
			endpoints = append(endpoints, p.Addr())
		}
		return text, endpoints, nil
	}
	for i, a := range l.addrs {
		text = strings.Replace(text, a, way[i].Addr(), 1)
		text = strings.Replace(text, url.QueryEscape(a), url.QueryEscape(way[i].Addr()), 1)
	}
	return text, endpoints, nil
}

// way is that of a node, made when it is first asked for.
func (l *links) way(node string) (link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if way, ok := l.by[node]; ok {
		return way, nil
	}
	var way link
	for _, a := range l.addrs {
		p, err := toxiproxy.Listen(a)
		if err != nil {
			return nil, errors.Join(err, way.close())
		}
		way = append(way, &hop{p, a})
	}
	l.by[node] = way
	return way, nil
}

// Link implements chaos.Linker.
func (l *links) Link(node string) (chaos.Link, error) {
	if len(l.addrs) == 0 {
		return nil, fmt.Errorf("%w: no way leads to the service that could be struck; give its --endpoint host:port, without TLS", lockspec.ErrUnsupported)
	}
	return l.way(node)
}

func (l *links) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, way := range l.by {
		errs = append(errs, way.close())
	}
	return errors.Join(errs...)
}

// link is the way of one node: a proxy for each server. It is a chaos.Link.
type link []*hop

// hop is one of them, and the server that it leads to.
type hop struct {
	*toxiproxy.Proxy
	home string
}

func (w link) close() error {
	var errs []error
	for _, p := range w {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// each does something to every proxy, and undoes it.
func (w link) each(do func(*hop) func()) func() {
	var undos []func()
	for _, p := range w {
		undos = append(undos, do(p))
	}
	return func() {
		for _, undo := range undos {
			undo()
		}
	}
}

// Cut implements chaos.Link.
func (w link) Cut(d chaos.Direction) func() {
	return w.each(func(p *hop) func() { return p.Cut(toxiproxy.Direction(d)) })
}

// Slow implements chaos.Link.
func (w link) Slow(d chaos.Direction, latency time.Duration, rate int) func() {
	return w.each(func(p *hop) func() { return p.Proxy.Slow(toxiproxy.Direction(d), latency, rate) })
}

// CutAfter implements chaos.Link.
func (w link) CutAfter(d chaos.Direction, bytes int) func() {
	return w.each(func(p *hop) func() { return p.Proxy.CutAfter(toxiproxy.Direction(d), bytes) })
}

// Reset implements chaos.Link.
func (w link) Reset() (n int) {
	for _, p := range w {
		n += p.Reset()
	}
	return n
}

// Refuse implements chaos.Link.
func (w link) Refuse() (func() error, error) {
	var heals []func() error
	heal := func() error {
		var errs []error
		for _, h := range heals {
			errs = append(errs, h())
		}
		return errors.Join(errs...)
	}
	for _, p := range w {
		h, err := p.Refuse()
		if err != nil {
			return nil, errors.Join(err, heal())
		}
		heals = append(heals, h)
	}
	return heal, nil
}

// Point implements chaos.Link.
func (w link) Point(addr string) {
	for _, p := range w {
		if addr == "" {
			p.Proxy.Point(p.home)
		} else {
			p.Proxy.Point(addr)
		}
	}
}

// Connections implements chaos.Link.
func (w link) Connections() (n int) {
	for _, p := range w {
		n += p.Proxy.Connections()
	}
	return n
}

// Passed implements chaos.Link.
func (w link) Passed() (n int64) {
	for _, p := range w {
		n += p.Proxy.Passed()
	}
	return n
}
