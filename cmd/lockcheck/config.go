package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/lockcheck/lockcheck/reports/result"
)

// targetKey is the one key of a configuration file that is no flag.
const targetKey = "target"

// fromFile sets every flag that was given neither on the command line nor in
// the environment from a configuration file, and gives the target that it
// names. The file is a mapping of flag names to a value or a list of values.
//
//	target: redis://localhost:6379
//	profile: fenced
//	lease: 2s
//	case: [A01, A02]
func fromFile(flags *pflag.FlagSet, path string) (target string, err error) {
	if path == "" {
		return "", nil
	}
	pairs, err := readPairs(path)
	if err != nil {
		return "", exit(result.ExitUsage, "--config %s: %w", path, err)
	}
	names := []string{targetKey}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	for _, p := range pairs {
		f := flags.Lookup(p.name)
		switch {
		case !slices.Contains(names, p.name):
			return "", exit(result.ExitUsage, "--config %s: line %d: unknown setting %q; %s", path, p.line, p.name, nearest(p.name, names))
		case p.name == targetKey && len(p.values) == 1:
			target = p.values[0]
			continue
		case p.name == targetKey:
			return "", exit(result.ExitUsage, "--config %s: line %d: there is one target", path, p.line)
		case f.Changed:
			continue
		}
		for _, v := range p.values {
			if err := flags.Set(p.name, v); err != nil {
				return "", exit(result.ExitUsage, "--config %s: line %d: %s: %w", path, p.line, p.name, err)
			}
		}
	}
	return target, nil
}

// pair is one setting of a file.
type pair struct {
	name   string
	values []string
	line   int
}

// readPairs reads a flat mapping.
func readPairs(path string) (pairs []pair, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	err = yaml.NewDecoder(bytes.NewReader(text)).Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	case doc.Content[0].Kind != yaml.MappingNode:
		return nil, errors.New("it is no mapping of names to values")
	}
	in := doc.Content[0].Content
	for i := 0; i < len(in); i += 2 {
		p := pair{name: in[i].Value, line: in[i].Line}
		if slices.ContainsFunc(pairs, func(q pair) bool { return q.name == p.name }) {
			return nil, lineError(p.line, p.name+" stands there twice")
		}
		if p.values, err = scalars(in[i+1]); err != nil {
			return nil, err
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// scalars are a value, or the values of a list.
func scalars(n *yaml.Node) (values []string, err error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return []string{n.Value}, nil
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, lineError(item.Line, "a value is a word, a number or a list of them")
			}
			values = append(values, item.Value)
		}
		return values, nil
	}
	return nil, lineError(n.Line, "a value is a word, a number or a list of them")
}

func lineError(line int, what string) error { return fmt.Errorf("line %d: %s", line, what) }
