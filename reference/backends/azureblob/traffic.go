package azureblob

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/lockcheck/lockcheck/reference/backends/azureblob/relay"
)

// protocol is how a relay knows this package's requests: by the action that is
// asked of a lease, and by the guard's path below the container's.
func (o *Options) protocol(containerPath string) relay.Protocol {
	return relay.Protocol{
		Classify: func(r *http.Request) (op, key string) {
			if r.Method != http.MethodPut || r.URL.Query().Get("comp") != "lease" {
				return "", ""
			}
			escaped, below := strings.CutPrefix(r.URL.EscapedPath(), containerPath+"/")
			name, err := url.PathUnescape(escaped)
			if !below || err != nil {
				return "", ""
			}
			key, ours := o.key(name)
			if !ours || strings.HasPrefix(key, probeKey) {
				return "", ""
			}
			switch action := r.Header.Get("x-ms-lease-action"); action {
			case "acquire", "renew", "release":
				return action, key
			}
			return "", ""
		},
		// Whoever finds no guard makes one, and asks again.
		Void: func(op string, reply *http.Response) bool {
			return op == "acquire" && reply.StatusCode == http.StatusNotFound
		},
	}
}
