package reference

// queue is the local waiters of one key, first come first served. Only the
// front one asks the service. A queue exists while somebody is in it.
// Its fields are guarded by the engine's mutex.
type queue struct {
	front, back *waiter

	// last is what the service said last to a front waiter, so that one that
	// never came to ask knows what it was waiting for. Nil: nothing yet.
	last error
}

type waiter struct {
	queue      *queue
	prev, next *waiter

	first chan struct{} // closed when the waiter is the front one
	poke  chan struct{} // a local holder has released
}

// enqueue adds a waiter for key.
func (e *Engine) enqueue(key string) *waiter {
	w := &waiter{first: make(chan struct{}), poke: make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.queues.m[key]
	if q == nil {
		q = &queue{}
		e.queues.put(key, q)
	}
	w.queue, w.prev = q, q.back
	if q.back == nil {
		q.front = w
		close(w.first)
	} else {
		q.back.next = w
	}
	q.back = w
	return w
}

// dequeue takes a waiter out; if it was the front one, the next becomes it.
func (e *Engine) dequeue(key string, w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := w.queue
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.back = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
		return
	}
	q.front = w.next
	if q.front == nil {
		e.queues.remove(key)
		return
	}
	close(q.front.first)
}

// wake makes the front waiter of key ask at once.
func (e *Engine) wake(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q := e.queues.m[key]; q != nil {
		select {
		case q.front.poke <- struct{}{}:
		default:
		}
	}
}

// heard notes what the service said last, and told gives it back.
func (e *Engine) heard(q *queue, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.last = err
}

func (e *Engine) told(q *queue) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return q.last
}
