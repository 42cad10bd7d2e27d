package containers

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// startEtcd starts an etcd, or skips where there is none.
func startEtcd(t *testing.T) *local {
	t.Helper()
	s, err := Etcd(t.Context(), nil)
	var missing *MissingError
	if errors.As(err, &missing) && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s.(*local)
}

// askEtcd calls its gateway of JSON
// (https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/).
func askEtcd(t *testing.T, s Server, call, body string) string {
	t.Helper()
	r, err := http.Post("http://"+s.Addr()+"/v3/kv/"+call, "application/json", strings.NewReader(body))
	must(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	must(t, err)
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", call, r.Status, text)
	}
	return string(text)
}

// TestEtcd: it serves, and a crash loses nothing that was answered unless it
// loses the disk.
func TestEtcd(t *testing.T) {
	s := startEtcd(t)
	key := base64.StdEncoding.EncodeToString([]byte("k"))
	has := func() bool {
		return strings.Contains(askEtcd(t, s, "range", fmt.Sprintf(`{"key":%q}`, key)), `"kvs"`)
	}
	askEtcd(t, s, "put", fmt.Sprintf(`{"key":%q,"value":%q}`, key, key))
	must(t, errors.Join(s.Pause(), s.Resume(), s.Restart(t.Context(), Keep)))
	if !has() {
		t.Error("a crash lost a key")
	}
	must(t, s.Restart(t.Context(), Forget))
	if has() {
		t.Error("the loss of the disk kept a key")
	}
	_, err := Etcd(t.Context(), &EtcdOptions{Program: "no-such-etcd"})
	if err == nil || !strings.Contains(err.Error(), "apt-get install etcd-server") {
		t.Errorf("it does not say what to install: %v", err)
	}
}
