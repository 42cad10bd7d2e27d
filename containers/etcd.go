package containers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// EtcdOptions say how an etcd runs.
type EtcdOptions struct {
	Options

	// Program is its name or path; default: etcd.
	Program string
}

// Etcd starts a cluster of one etcd, a program of this machine. It writes to
// disk before it answers. An error matches *MissingError if there is none.
func Etcd(ctx context.Context, o *EtcdOptions) (Server, error) {
	if o == nil {
		o = &EtcdOptions{}
	}
	path, err := find(o.Program, []string{"etcd"}, nil, "apt-get install etcd-server")
	if err != nil {
		return nil, err
	}
	return startLocal(ctx, program{
		name: "etcd", path: path, ready: etcdReady, data: []string{"data"},
		prepare: func(_ context.Context, s *local, port int) ([]string, error) {
			client := fmt.Sprintf("http://127.0.0.1:%d", port)
			// Where other members of its cluster would reach it: there are none, and a
			// second port may be another's by the time it is wanted. The socket is in
			// its working folder.
			const peer = "unix://peer:1"
			return []string{
				"--data-dir", filepath.Join(s.folder, "data"), "--logger", "zap", "--log-level", "warn",
				"--listen-client-urls", client, "--advertise-client-urls", client,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
			}, nil
		},
	}, &o.Options)
}

// etcdReady asks for its health: whether the cluster has a leader
// (https://etcd.io/docs/v3.4/op-guide/monitoring/).
func etcdReady(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/health", nil)
	if err != nil {
		return err
	}
	way := &http.Transport{DialContext: (&net.Dialer{}).DialContext, DisableKeepAlives: true} // no proxy of the environment's
	answer, err := way.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1024))
	if err == nil && !strings.Contains(string(text), `"health":"true"`) {
		err = fmt.Errorf("its health is %s", text)
	}
	return err
}
