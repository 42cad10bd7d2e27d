package driver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"unsafe"
)

// awaitExit waits until the child has ended and leaves it unreaped. It is false
// if the system does not let it.
func awaitExit(pid int) bool {
	const pPID = 1
	var info [16]uint64 // siginfo_t, 128 bytes
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}

// groupAlive says whether a process of the group still runs or is stopped.
// Dead ones that nobody has reaped do not count.
func groupAlive(pgid int) bool { return len(members(pgid)) > 0 }

// groupStopped says whether every thread of every process of the group is
// stopped.
func groupStopped(pgid int) bool {
	pids := members(pgid)
	for _, pid := range pids {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, thread := range threads {
			if state, _, ok := readStat(thread); ok && !dead(state) && state != 'T' && state != 't' {
				return false
			}
		}
	}
	return len(pids) > 0
}

func members(pgid int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if state, group, ok := readStat(path); ok && group == pgid && !dead(state) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func dead(state byte) bool { return state == 'Z' || state == 'X' }

// readStat reads state and process group of a /proc stat file; ok is false if
// the process has gone.
func readStat(path string) (state byte, pgid int, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, false
	}
	// PID (NAME) STATE PPID PGRP …; the name may hold anything, ")" too.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 3 {
		return 0, 0, false
	}
	pgid, err = strconv.Atoi(string(fields[2]))
	return fields[0][0], pgid, err == nil
}
