package reference

// Kept counts what an engine keeps of keys and leases.
func (e *Engine) Kept() (queues, leases int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.queues.m), len(e.leases.m)
}

// Freed says whether an engine has given back the memory of its maps.
func (e *Engine) Freed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queues.m == nil && e.leases.m == nil
}
