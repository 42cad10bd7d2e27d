package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/reports/result"
)

// badTarget is a target that cannot be used, and what is said of it.
type badTarget struct {
	name, target string
	code         result.Exit
	says         []string
}

// troubles runs them: each gives one line that says what is wrong, soon, and
// without a secret.
func troubles(t *testing.T, all []badTarget, secrets ...string) {
	t.Helper()
	for _, test := range all {
		t.Run(test.name, func(t *testing.T) {
			begin := time.Now()
			c := (&cli{}).run(t, "run", test.target, "--lease", "500ms").want(t, test.code)
			if took := time.Since(begin); took > 8*time.Second {
				t.Errorf("it took %s", took)
			}
			for _, says := range test.says {
				if !strings.Contains(c.err, says) {
					t.Errorf("it does not say %s: %s", says, c.err)
				}
			}
			if lines := strings.Count(strings.TrimSpace(c.err), "\n"); lines != 0 {
				t.Errorf("%d lines instead of one:\n%s", lines+1, c.err)
			}
			for _, secret := range append(secrets, "hunter2", "ter2") {
				told(t, c, secret)
			}
		})
	}
}
