// Package lockcheck_test holds what is true of the modules as a whole.
package lockcheck_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/lockcheck/lockcheck"

// rooms is the order of the rooms and what each may import of the others.
// Imports run one way: what is not listed is not allowed.
var rooms = []struct {
	path string
	may  []string
}{
	{"fakeclock", nil},
	{"lockspec", nil},
	{"lockspec/driver", []string{"lockspec", "fakeclock"}},
	{"checker/history", []string{"lockspec", "fakeclock"}},
	{"checker", []string{"lockspec", "checker/history"}},
	{"checker/porcupine", []string{"lockspec", "checker/history", "checker"}},
	{"checker/importer", []string{"lockspec", "checker/history", "checker"}},
	{"reports/result", []string{"lockspec", "checker/history", "checker"}},
	{"reports", []string{"lockspec", "checker/history", "checker", "reports/result"}},
	{"lockspec/workload", []string{"lockspec", "checker/history", "checker", "reports/result", "fakeclock"}},
	{"lockspec/contract", []string{"lockspec", "lockspec/driver", "lockspec/workload", "checker/history", "checker", "reports/result", "fakeclock"}},
	{"chaos", []string{"lockspec", "lockspec/driver", "lockspec/workload", "lockspec/contract", "checker/history", "checker", "reports/result"}},
	{"reference", []string{"lockspec", "fakeclock"}},
	{"reference/memory", []string{"lockspec", "fakeclock", "reference"}},
	{"chaos/explore", []string{"lockspec", "lockspec/workload", "lockspec/contract", "checker/history", "checker", "reports/result", "fakeclock", "chaos"}},
	{"reference/simulated", []string{"lockspec", "fakeclock", "reference", "reference/memory", "chaos/explore"}},
	{"reference/broken", []string{"lockspec", "fakeclock", "reference"}},
	{"reference/backends/redlock", []string{"lockspec", "lockspec/contract", "reference", "chaos", "reference/backends/redis"}},
	{"chaos/toxiproxy", nil},
	{"containers", []string{"lockspec", "lockspec/driver"}},
	{"containers/docker", []string{"lockspec", "containers"}},
	{"reference/backends/interference", []string{"lockspec"}},
	{"reference/backends/refusal", []string{"reference"}},
	{"reference/backends/relay", []string{"reference/backends/interference"}},
	{"reference/backends/redis", []string{"lockspec", "lockspec/contract", "reference", "chaos", "reference/backends/refusal", "reference/backends/relay", "reference/backends/interference"}},
	{"reference/backends/postgres", []string{"lockspec", "lockspec/contract", "reference", "chaos", "reference/backends/refusal", "reference/backends/relay", "reference/backends/interference"}},
	{"reference/backends/azureblob/relay", []string{"reference/backends/interference"}},
	{"reference/backends/azureblob", []string{"lockspec", "lockspec/contract", "reference", "chaos", "reference/backends/refusal", "reference/backends/azureblob/relay", "reference/backends/interference"}},
}

// outside is what a room may import that is neither ours nor the standard
// library's.
var outside = map[string][]string{
	"github.com/Shopify/toxiproxy/v2":                 {"chaos/toxiproxy"},
	"github.com/Shopify/toxiproxy/v2/stream":          {"chaos/toxiproxy"},
	"github.com/Shopify/toxiproxy/v2/toxics":          {"chaos/toxiproxy"},
	"github.com/rs/zerolog":                           {"chaos/toxiproxy"},
	"github.com/anishathalye/porcupine":               {"checker/porcupine"},
	"github.com/containerd/errdefs":                   {"containers/docker"},
	"github.com/moby/moby/api/types/container":        {"containers/docker"},
	"github.com/moby/moby/api/types/network":          {"containers/docker"},
	"github.com/moby/moby/client":                     {"containers/docker"},
	"github.com/testcontainers/testcontainers-go":     {"containers/docker"},
	"github.com/testcontainers/testcontainers-go/log": {"containers/docker"},
	"github.com/redis/go-redis/v9":                    {"reference/backends/redis"},
	"github.com/redis/go-redis/v9/maintnotifications": {"reference/backends/redis"},
	"github.com/jackc/pgx/v5/pgconn":                  {"reference/backends/postgres"},
}

// family is a prefix of which a room may import whatever it needs.
type family struct{ prefix, room string }

var families = []family{{"github.com/Azure/azure-sdk-for-go/sdk/", "reference/backends/azureblob"}}

// everywhere is the patterns of all rooms: ./... leaves nested modules out.
var everywhere = []string{"./...", "./chaos/toxiproxy/...", "./containers/...", "./containers/docker/...", "./reference/backends/..."}

type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

func list(t *testing.T, patterns ...string) []listed {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Standard"}, patterns...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestArrows checks that every room is in the table and imports only what the
// table allows.
func TestArrows(t *testing.T) {
	may := map[string][]string{}
	for _, r := range rooms {
		may[r.path] = r.may
	}
	for _, p := range list(t, everywhere...) {
		room := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if room == "" || strings.Contains(room, "/internal/") {
			continue
		}
		allowed, known := may[room]
		if !known {
			t.Errorf("room %s is not in the table", room)
		}
		for _, i := range p.Imports {
			checkArrow(t, room, i, allowed)
		}
	}
}

func checkArrow(t *testing.T, room, imported string, allowed []string) {
	t.Helper()
	if own, ok := strings.CutPrefix(imported, module+"/"); ok {
		if !slices.Contains(allowed, own) && !strings.HasPrefix(own, room+"/internal/") {
			t.Errorf("%s may not import %s", room, own)
		}
		return
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return // the standard library
	}
	if !slices.Contains(outside[imported], room) && !slices.ContainsFunc(families, func(f family) bool {
		return f.room == room && strings.HasPrefix(imported, f.prefix)
	}) {
		t.Errorf("%s may not import %s", room, imported)
	}
}

// TestRoomNames: a package is named after what it holds.
func TestRoomNames(t *testing.T) {
	for _, p := range list(t, everywhere...) {
		for _, part := range strings.Split(strings.TrimPrefix(p.ImportPath, module), "/") {
			if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "manager", "misc"}, part) {
				t.Errorf("%s: %q says nothing", p.ImportPath, part)
			}
		}
	}
}
