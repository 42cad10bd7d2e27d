package simulated_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/chaos/explore"
	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/reference/simulated"
)

func TestTry(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	debug.SetGCPercent(-1)
	n := 3000
	if s := os.Getenv("N"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	only := os.Getenv("TARGET")
	gc := 200
	if s := os.Getenv("GC"); s != "" {
		gc, _ = strconv.Atoi(s)
	}
	start, _ := strconv.Atoi(os.Getenv("SEED"))
	size := explore.Size{Nodes: 3, Tenures: 3, Steps: 3}
	if s := os.Getenv("SIZE"); s != "" {
		fmt.Sscanf(s, "%dx%d", &size.Nodes, &size.Tenures)
	}
	for _, target := range simulated.Targets() {
		if only != "" && only != target.Name {
			continue
		}
		opts := (&explore.Options{Size: size}).Filled()
		began := time.Now()
		events, virtual, tenures, runs := 0, time.Duration(0), 0, 0
		outcomes := map[checker.Outcome]int{}
		rules := map[string][]int{}
		shown := false
		for seed := start; seed < start+n; seed++ {
			if seed%gc == 0 {
				runtime.GC()
			}
			o := explore.Run(t, &target.Harness, uint64(seed), opts)
			runs++
			if o.Err != nil {
				t.Fatal(seed, o.Err)
			}
			outcomes[o.Verdict.Outcome]++
			tenures += len(o.Verdict.Tenures)
			note := func(what string, fs []checker.Finding) {
				for _, f := range fs {
					k := what + " " + string(f.Kind) + "/" + f.Rule + "/" + f.Certainty
					rules[k] = append(rules[k], seed)
				}
			}
			note("judge", o.Verdict.Findings)
			note("judge", o.Verdict.Doubts)
			note("stream", o.Stream.Findings)
			if (o.Verdict.Outcome == checker.Failed || o.Stream.Outcome == checker.Failed || os.Getenv("SHOW") != "") && !shown {
				shown = true
				t.Logf("seed %d: %+v %v\n%s", seed, o.Verdict.Findings, o.Stream.Findings, o.Bytes())
			}
			events += len(o.Events)
			virtual += o.Virtual
			if seed%20 == 0 {
				runs++
				one := o.Bytes()
				p := explore.Run(t, &target.Harness, uint64(seed), opts)
				if !bytes.Equal(one, p.Bytes()) {
					t.Errorf("seed %d differs:\n%s\n%s", seed, one, p.Bytes())
					return
				}
			}
		}
		took := time.Since(began)
		t.Logf("%s: %.0f/s, %d events, %.1f tenures, %s virtual each, %v", target.Name, float64(runs)/took.Seconds(), events/n, float64(tenures)/float64(n), virtual/time.Duration(n), outcomes)
		for k, seeds := range rules {
			t.Logf("%s: %d, %v", k, len(seeds), seeds[:min(8, len(seeds))])
		}
	}
}
