package memory

import "context"

// What deliberately broken locks ask a service for. No correct lock does.

// Delete frees a key whoever holds it, as a plain DEL does.
func (r *remote) Delete(ctx context.Context, key string) error {
	_, err := r.call(ctx, message{Op: "delete", Key: key})
	return err
}

// Owner is who holds a key, as a plain GET tells; empty: nobody.
func (r *remote) Owner(ctx context.Context, key string) (string, error) {
	m, err := r.call(ctx, message{Op: "get", Key: key})
	return m.Owner, err
}
