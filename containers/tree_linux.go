package containers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// stopLimit bounds how long a process may take to stand still.
const stopLimit = time.Second

// stopTree makes a process stand still, so that it forks no more, and gives
// what it has forked.
func stopTree(p *os.Process) (forked []int) {
	if stopGroup(p) != nil {
		return nil
	}
	for limit := time.Now().Add(stopLimit); time.Now().Before(limit); time.Sleep(100 * time.Microsecond) {
		if _, state := parent(p.Pid); state != 'R' && state != 'S' && state != 'D' {
			break
		}
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range all {
		pid, _ := strconv.Atoi(filepath.Base(path))
		if of, state := parent(pid); of == p.Pid && state != 'Z' {
			forked = append(forked, pid)
		}
	}
	return forked
}

// parent reads who forked a process, and its state, 0 for one that is gone
// (proc(5), /proc/pid/stat).
func parent(pid int) (of int, state byte) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name stands in parentheses and may hold any.
	if _, err := fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %c %d", &state, &of); err != nil {
		return 0, 0
	}
	return of, state
}
