package result

// Fail makes the report that of a run which came to none of its own: it could
// not start, or broke down. Whoever reads results.json is told so by it instead
// of by its absence.
func (r *Report) Fail(code Exit, why string) {
	r.Interrupted = code == ExitInterrupted
	r.Notes = append(r.Notes, why)
	r.Conclude()
	r.Exit, r.Verdict = code, Error
	if code == ExitInterrupted || code == ExitInconclusive {
		r.Verdict = Inconclusive
	}
}
