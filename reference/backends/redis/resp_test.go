package redis

import (
	"bufio"
	"strings"
	"testing"
)

// TestReplies: a reply is read with all that it holds, and not more.
func TestReplies(t *testing.T) {
	for _, reply := range []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$-1\r\n", "$0\r\n\r\n", "$5\r\na\r\nbc\r\n", "*-1\r\n", "*0\r\n",
		"*2\r\n*1\r\n:1\r\n$1\r\na\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(12345678901234567890\r\n", "=5\r\ntxt:a\r\n",
		"!5\r\nERR a\r\n", "%1\r\n+a\r\n*1\r\n:1\r\n", "~1\r\n:1\r\n", ">2\r\n+a\r\n+b\r\n", "|1\r\n+a\r\n+b\r\n:1\r\n",
	} {
		in := bufio.NewReader(strings.NewReader(reply + "+next\r\n"))
		got, err := readReply(in)
		if err != nil || string(got) != reply {
			t.Errorf("%q: %q, %v", reply, got, err)
		}
		if rest, _ := in.ReadString('\n'); rest != "+next\r\n" {
			t.Errorf("%q: %q is left", reply, rest)
		}
	}
}

func FuzzCommand(f *testing.F) {
	for _, seed := range []string{"*1\r\n$4\r\nPING\r\n", "PING\r\n", "*-1\r\n", "*1\r\n$-1\r\n", "*2\r\n$1\r\na\r\n+b\r\n", "*1\r\n$99999999999\r\n", "\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReader(strings.NewReader(string(data)))
		for at := 0; ; {
			raw, _, err := readCommand(in)
			if err != nil {
				return
			}
			if !strings.HasPrefix(string(data[at:]), string(raw)) {
				t.Fatalf("at %d: %q is not what came", at, raw)
			}
			at += len(raw)
		}
	})
}
