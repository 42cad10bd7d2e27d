package redis

import (
	"bytes"
	"strings"
)

// classify says what a command does to which key: it is how a relay knows this
// package's requests. The answers are acquire, renew, release, or "" for what
// is none of these.
func (o *Options) classify(args [][]byte) (op, key string) {
	if len(args) < 2 {
		return "", ""
	}
	name := args[1]
	switch word := strings.ToUpper(string(args[0])); word {
	case "EVAL", "EVALSHA":
		if len(args) < 4 {
			return "", ""
		}
		op, name = scriptOp(word, string(args[1])), args[3]
	case "SET":
		op = setOp(args)
	case "DELIFEQ", "DELEX":
		op = "release"
	}
	if op == "" {
		return "", ""
	}
	key, ok := o.key(string(name))
	if !ok || strings.HasPrefix(key, probeKey) {
		return "", ""
	}
	return op, key
}

func scriptOp(word, text string) string {
	if word == "EVAL" {
		text = sum(text)
	}
	for _, s := range scripts() {
		if strings.EqualFold(s.sum, text) {
			return s.op
		}
	}
	return ""
}

func setOp(args [][]byte) string {
	for _, a := range args[min(3, len(args)):] {
		switch string(bytes.ToUpper(a)) {
		case "NX":
			return "acquire"
		case "IFEQ":
			return "renew"
		}
	}
	return ""
}
