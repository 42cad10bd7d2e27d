package checker

// LevelVerdict is what a history says of one level, and what follows from that
// for whoever uses the lock.
type LevelVerdict struct {
	Level   Level
	Outcome Outcome
	Means   string
}

// meanings is a sentence for each level and outcome.
func meanings() map[Level]map[Outcome]string {
	return map[Level]map[Outcome]string{
		Service: {
			Pass:         "The service never promised the key to more than may hold it.",
			Hazardous:    "The service forgot a promise under a fault that was declared to make it forget; without fencing, two may have worked at once.",
			Inconclusive: "Whether the service kept its promises cannot be told from this history.",
			Failed:       "The service broke a promise of its own: nothing that a client does makes this lock safe.",
		},
		Lease: {
			Pass:         "Nobody went on believing in a lock that another held, and whoever lost it was told in time.",
			Hazardous:    "A holder was overtaken while it could not know; what it did meanwhile is harmless only where the resource checks tokens.",
			Inconclusive: "Whether a holder was overtaken without cause cannot be told from this history.",
			Failed:       "A holder was misled about its lock: an application that trusts it works at the same time as another.",
		},
		Resource: {
			Pass:         "No update was lost and no stale token was accepted.",
			Hazardous:    "A declared failure reached the resource and did no harm there.",
			Inconclusive: "Nothing shows whether the resource would have turned a stale holder away.",
			Failed:       "The protected resource was harmed: updates were lost or a stale holder's write was let in.",
		},
	}
}

// Levels reports the three levels apart, in the order service, lease, resource:
// one history can fail one and pass another.
func (v *Verdict) Levels() []LevelVerdict {
	means := meanings()
	var out []LevelVerdict
	for _, l := range []Level{Service, Lease, Resource} {
		o := v.at(l)
		out = append(out, LevelVerdict{l, o, means[l][o]})
	}
	return out
}

func (v *Verdict) at(l Level) Outcome {
	for i := range v.Findings {
		if v.Findings[i].Level == l {
			return Failed
		}
	}
	for i := range v.Doubts {
		if v.Doubts[i].Level == l {
			return Inconclusive
		}
	}
	// A hazard is of the lease: its holder was overtaken.
	if l == Lease && len(v.Hazards) > 0 {
		return Hazardous
	}
	return Pass
}
