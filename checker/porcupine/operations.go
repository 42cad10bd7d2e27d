package porcupine

import (
	"math"

	"github.com/anishathalye/porcupine"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Input is an operation as the models see it.
type Input struct {
	Op      history.Op
	Key     string
	Process string
	Owner   string
	Tenure  string // of an acquisition: what it was granted
	Read    bool
	Count   int
	Lease   int64 // granted; 0: no expiry
	Token   int64
	Invoked int64 // ns of the run
	Index   int64 // of its invocation
}

// Output is how it ended.
type Output struct {
	Outcome  lockspec.Outcome
	Unknown  bool
	Returned int64 // ns of the run; math.MaxInt64 where it was never answered
}

// Operations reads acquisitions, renewals and releases out of a history. What
// was refused had no effect and is left out, but for releases: whoever was told
// that he holds no more had perhaps just ceased to. An operation of unknown
// outcome may take effect at any time after it was called.
//
// Before and after are decided by the index; the times are in Input and Output.
func Operations(events []history.Event) []porcupine.Operation {
	var ops []porcupine.Operation
	open := map[[3]string]int{}
	clients := map[string]int{}
	for i := range events {
		e := &events[i]
		if e.Op != history.Acquire && e.Op != history.Release && e.Op != history.Renew {
			continue
		}
		k := [3]string{e.Process, string(e.Op), e.Tenure}
		if e.Op == history.Acquire {
			k[2] = ""
		}
		switch {
		case e.Type == history.Invoke:
			open[k] = len(ops)
			ops = append(ops, called(e, client(clients, e.Process)))
		case e.Returns():
			if n, ok := open[k]; ok {
				delete(open, k)
				answered(&ops[n], e)
			}
		}
	}
	return kept(ops)
}

func client(clients map[string]int, process string) int {
	n, ok := clients[process]
	if !ok {
		n = len(clients)
		clients[process] = n
	}
	return n
}

func called(e *history.Event, client int) porcupine.Operation {
	return porcupine.Operation{
		ClientId: client, Call: e.Index, Return: math.MaxInt64,
		Input: Input{Op: e.Op, Key: e.Key, Process: e.Process, Owner: e.Owner, Tenure: e.Tenure, Read: e.Mode == lockspec.Read,
			Count: max(1, e.Count), Lease: int64(e.Ask), Invoked: e.Time, Index: e.Index},
		Output: Output{Outcome: lockspec.Unavailable, Unknown: true, Returned: math.MaxInt64},
	}
}

func answered(op *porcupine.Operation, e *history.Event) {
	in, out := op.Input.(Input), Output{Outcome: e.Error, Unknown: e.Type == history.Info, Returned: e.Time}
	if e.Type == history.OK {
		out.Outcome = lockspec.OK
		in.Lease, in.Token = int64(e.Lease), e.Token
		if e.Tenure != "" {
			in.Tenure = e.Tenure
		}
	}
	if out.Unknown {
		out.Returned = math.MaxInt64
	} else {
		op.Return = e.Index
	}
	op.Input, op.Output = in, out
}

func kept(ops []porcupine.Operation) []porcupine.Operation {
	var out []porcupine.Operation
	for _, op := range ops {
		in, end := op.Input.(Input), op.Output.(Output)
		if end.Outcome == lockspec.OK || end.Unknown || in.Op == history.Release {
			out = append(out, op)
		}
	}
	return out
}
