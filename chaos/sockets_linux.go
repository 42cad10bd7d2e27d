package chaos

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// closeOnExec is O_CLOEXEC as /proc shows it (proc(5), fdinfo: flags, octal).
const closeOnExec = 0o2000000

// sockets counts the TCP connections of a process, and those of them that a
// child would inherit.
func sockets(pid int) (open, inherited int, err error) {
	tcp, err := connections(pid)
	if err != nil {
		return 0, 0, err
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	names, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	for _, n := range names {
		to, err := os.Readlink(filepath.Join(dir, n.Name()))
		inode, ok := strings.CutPrefix(to, "socket:[")
		if err != nil || !ok || !tcp[strings.TrimSuffix(inode, "]")] {
			continue
		}
		flags, err := flagsOf(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, n.Name()))
		if err != nil {
			continue // it was closed meanwhile
		}
		open++
		if flags&closeOnExec == 0 {
			inherited++
		}
	}
	return open, inherited, nil
}

// connections are the inodes of established TCP connections in the process's
// network namespace.
func connections(pid int) (map[string]bool, error) {
	const established = "01"
	found := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			if table == "tcp6" {
				continue
			}
			return nil, err
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if w := strings.Fields(lines.Text()); len(w) > 9 && w[3] == established {
				found[w[9]] = true
			}
		}
		f.Close()
	}
	return found, nil
}

func flagsOf(file string) (uint64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "flags:"); ok {
			return strconv.ParseUint(strings.TrimSpace(v), 8, 64)
		}
	}
	return 0, fmt.Errorf("%s: no flags", file)
}
