package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"time"

	"github.com/lockcheck/lockcheck/chaos"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// plan is schedule.json: every fault that the run will perform, decided by its
// seed alone.
type plan struct {
	Seed  int64            `json:"seed"`
	Lease int64            `json:"lease_ns"`
	Cases []chaos.Schedule `json:"cases"`
}

func (r *run) plan() plan {
	p := plan{Seed: r.f.seed, Lease: int64(r.f.lease), Cases: []chaos.Schedule{}}
	for i := range r.cases {
		if c := &r.cases[i]; r.only(c) {
			if s, ok := chaos.Plan(c.ID, contract.Rand(r.f.seed, c.ID), r.f.lease); ok {
				p.Cases = append(p.Cases, s)
			}
		}
	}
	return p
}

func (r *run) printPlan() error {
	enc := json.NewEncoder(r.d.out)
	enc.SetIndent("", "  ")
	return enc.Encode(r.plan())
}

// config is run.json: what was asked, before anything runs. It holds nothing
// secret: a target with credentials is redacted where it is parsed.
type config struct {
	Target  string    `json:"target"`
	Suites  []string  `json:"suites"`
	Cases   []string  `json:"cases,omitempty"`
	Profile string    `json:"profile,omitempty"`
	Class   string    `json:"class,omitempty"`
	Bounds  []string  `json:"bounds,omitempty"`
	Base    string    `json:"baseline,omitempty"`
	Lease   int64     `json:"lease_ns"`
	Seed    int64     `json:"seed"`
	Timeout int64     `json:"timeout_ns"`
	Started time.Time `json:"started"`
	Version string    `json:"tool_version"`
	Suite   string    `json:"suite_version"`
}

// writePlan writes what is known before the run: run.json, schedule.json.
func (r *run) writePlan() error {
	err := r.folder.WriteJSON("run.json", config{Target: r.t.text, Suites: r.f.suites, Cases: r.f.cases, Profile: r.f.profile,
		Class: r.f.class, Bounds: r.f.bounds, Base: r.f.baseline,
		Lease: int64(r.f.lease), Seed: r.f.seed, Timeout: int64(r.f.timeout), Started: time.Now().UTC(), Version: toolVersion(), Suite: contract.Suite})
	if err != nil {
		return err
	}
	return r.folder.WriteJSON("schedule.json", r.plan())
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
