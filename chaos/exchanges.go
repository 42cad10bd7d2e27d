package chaos

import (
	"context"
	"errors"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

const holdRequests = "stand between clients and the service"

// exchangeFaults strike one request of the key, or its reply: Step.Op says of
// which operation.
var exchangeFaults = []Fault{
	{Name: "drop-request", Hazard: lockspec.Partition, Strikes: OnKey, Needs: holdRequests, Means: "a request is lost on its way", offered: offers[contract.Interferer], strike: interfere(contract.DropRequest)},
	{Name: "drop-reply", Hazard: lockspec.Partition, Strikes: OnKey, Needs: holdRequests, Means: "a request takes effect and its reply is lost", offered: offers[contract.Interferer], strike: interfere(contract.DropReply)},
	{Name: "hold-request", Hazard: lockspec.Partition, Strikes: OnKey, Needs: holdRequests, Means: "a request reaches the service late", offered: offers[contract.Interferer], strike: interfere(contract.HoldRequest)},
	{Name: "hold-reply", Hazard: lockspec.Partition, Strikes: OnKey, Needs: holdRequests, Means: "a request takes effect and is answered late", offered: offers[contract.Interferer], strike: interfere(contract.HoldReply)},
}

// errNotLanded is a fault that struck nothing: it says nothing of the lock.
var errNotLanded = errors.New("the fault did not land")

// interfere has landed when the first request has been struck. Step.Times of
// them are, all until it is healed if that is negative.
func interfere(what contract.Interference) striker {
	return at(func(ctx context.Context, p contract.Interferer, s Step, key string) (healer, error) {
		times := s.Times
		if times == 0 {
			times = 1
		}
		struck, err := p.Interfere(ctx, what, s.Op, key, times)
		if err != nil {
			return nil, err
		}
		within, cancel := context.WithTimeout(ctx, s.Patience)
		defer cancel()
		if err := struck.Await(within); err != nil {
			return struck.Lift, errNotLanded
		}
		return struck.Lift, nil
	})
}
