package broken

import (
	"context"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Locks whose acquisitions are wrong.
func acquisitions() []Lock {
	return []Lock{
		{
			Name: "cancel-leaves-the-lock", Means: "an acquisition that is cancelled under way is granted all the same, renewed, and never given back",
			Reports: []string{"redisson/redisson#2714"},
			Caught:  []Finding{{"C03", "residue", "orphan"}},
			Client:  func(c lockspec.Client) lockspec.Client { return leaving{c} },
		},
	}
}

// leaving answers a cancel at once, and forgets what goes on.
type leaving struct{ lockspec.Client }

func (c leaving) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	type answer struct {
		l   lockspec.Lease
		err error
	}
	got := make(chan answer, 1)
	go func() {
		l, err := c.Client.Acquire(context.WithoutCancel(ctx), r)
		got <- answer{l, err}
	}()
	select {
	case a := <-got:
		return a.l, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
