package memory

import "context"

// Delete frees a key whoever holds it, as a plain DEL does. No correct lock
// calls it; deliberately broken ones do.
func (r *remote) Delete(ctx context.Context, key string) error {
	_, err := r.call(ctx, message{Op: "delete", Key: key})
	return err
}
