package checker

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Model is what a [Stream] takes the operations on a key to be operations on.
//
//   - mutex: one holder, no expiry; a release that failed had no effect.
//   - owner: one holder, no expiry; whoever called a release, whatever it
//     answered, holds no more.
//   - lease: owner, and a lease ends by itself.
//   - fenced: lease, in the order of the tokens.
//   - permits:k, rw, reentrant: up to k at once; readers or one writer; an
//     owner any number of times. Leases end where the history has them.
//
// Counter-example to reading a failed release as no effect everywhere: a lock
// whose lease had gone answers "not held", and the next grant is right. As a
// mutex that history is illegal, as an owner's lock it is legal.
type Model struct {
	Kind    ModelKind
	Permits int // of permits
}

// ModelKind is the word of a model.
type ModelKind string

// The models.
const (
	ModelAuto      ModelKind = "auto" // what the header's class, capacity and claims say
	ModelMutex     ModelKind = "mutex"
	ModelOwner     ModelKind = "owner"
	ModelLease     ModelKind = "lease"
	ModelFenced    ModelKind = "fenced"
	ModelPermits   ModelKind = "permits"
	ModelReadWrite ModelKind = "rw"
	ModelReentrant ModelKind = "reentrant"
)

// Models lists the words of the models, as ParseModel takes them.
func Models() []string {
	return []string{"auto", "mutex", "owner", "fenced", "lease", "permits:k", "rw", "reentrant"}
}

// ParseModel reads a model's word.
func ParseModel(word string) (Model, error) {
	kind, k, permits := strings.Cut(word, ":")
	m := Model{Kind: ModelKind(kind), Permits: 1}
	switch m.Kind {
	case ModelPermits:
		n, err := strconv.Atoi(k)
		if err != nil || n < 1 {
			return m, fmt.Errorf("model %q: permits:k needs a number of permits, at least 1", word)
		}
		m.Permits = n
		return m, nil
	case ModelAuto, ModelMutex, ModelOwner, ModelLease, ModelFenced, ModelReadWrite, ModelReentrant:
		if !permits {
			return m, nil
		}
	}
	return m, fmt.Errorf("unknown model %q; the models are %s", word, strings.Join(Models(), ", "))
}

func (m Model) String() string {
	if m.Kind == ModelPermits {
		return fmt.Sprintf("permits:%d", m.Permits)
	}
	return string(m.Kind)
}

// For is the model itself or, of auto, the one that fits the header.
func (m Model) For(h *history.Header) Model {
	if m.Kind != ModelAuto && m.Kind != "" {
		return m
	}
	switch {
	case h.Capacity > 1:
		return Model{ModelPermits, h.Capacity}
	case h.Claimed(lockspec.Shared):
		return Model{ModelReadWrite, 1}
	case h.Claimed(lockspec.Reentrant):
		return Model{ModelReentrant, 1}
	case h.Claimed(lockspec.Fencing):
		return Model{ModelFenced, 1}
	case h.Class == lockspec.Memory || h.Class == lockspec.Session:
		return Model{ModelOwner, 1}
	}
	return Model{ModelLease, 1}
}

// expires says whether leases end by themselves.
func (m Model) expires() bool { return m.Kind != ModelMutex && m.Kind != ModelOwner }

// chained says whether grants are placed one after the other.
func (m Model) chained() bool { return m.Kind == ModelLease || m.Kind == ModelFenced }
