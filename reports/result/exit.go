package result

import "slices"

// Exit is a code that the command line ends with.
type Exit int

// The exit codes. exits holds their order and meaning.
const (
	ExitOK           Exit = 0
	ExitViolation    Exit = 1
	ExitInconclusive Exit = 2
	ExitGate         Exit = 3
	ExitUsage        Exit = 64
	ExitUnavailable  Exit = 69
	ExitInternal     Exit = 70
	ExitInterrupted  Exit = 130
)

// ExitRow is one line of the table of exit codes.
type ExitRow struct {
	Code  Exit
	Means string
}

// exits is ordered: where several apply, the first stands.
var exits = []ExitRow{
	{ExitViolation, "the lock broke a promise, also where the run was interrupted later"},
	{ExitGate, "a gate or the baseline failed"},
	{ExitInternal, "our own fault"},
	{ExitUnavailable, "the target, its driver or Docker is not usable"},
	{ExitInconclusive, "inconclusive, or no case ran"},
	{ExitUsage, "wrong usage, configuration or input file"},
	{ExitInterrupted, "interrupted"},
	{ExitOK, "every claim was verified"},
}

// Exits is the table of exit codes, worst first.
func Exits() []ExitRow { return slices.Clone(exits) }

// WorstExit is the one of the codes that stands.
func WorstExit(codes ...Exit) Exit {
	for _, row := range exits {
		if slices.Contains(codes, row.Code) {
			return row.Code
		}
	}
	return ExitOK
}

// ExitCode is the code that a report ends with.
func (r *Report) ExitCode() Exit {
	if len(r.Gate) > 0 {
		return WorstExit(ExitGate, r.worst())
	}
	return r.worst()
}

// worst is the code without gates.
func (r *Report) worst() Exit {
	codes := []Exit{}
	ran := 0
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.Status.Ran() && c.Suite != ProbesSuite {
			ran++ // the probes only say what can be tried
		}
		switch c.Status {
		case Fail:
			codes = append(codes, ExitViolation)
		case Error:
			codes = append(codes, c.blame())
		case Inconclusive:
			codes = append(codes, ExitInconclusive)
		}
	}
	if ran == 0 && !r.Interrupted || len(r.Lacks) > 0 {
		codes = append(codes, ExitInconclusive)
	}
	if r.Interrupted {
		codes = append(codes, ExitInterrupted)
	}
	return WorstExit(codes...)
}

func (c *Case) blame() Exit {
	if c.Blame == BlameTarget {
		return ExitUnavailable
	}
	return ExitInternal
}
