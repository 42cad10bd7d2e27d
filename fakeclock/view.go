package fakeclock

// View is a node's view of another clock.
type View struct{ Clock; base Clock }
