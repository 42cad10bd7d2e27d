package driver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// FolderPrefix begins the name of every temporary folder that a guard removes.
// It removes no others.
const FolderPrefix = "lockcheck-"

// guardLimit bounds how long a guard waits for what it has killed.
const guardLimit = 5 * time.Second

// Guard is a process that outlives the harness by a moment. It is told which
// process groups run and which temporary folders exist, through a pipe; when
// the pipe closes, because the harness closed it or because it was killed, the
// guard kills what still runs, stopped or not, removes the folders and exits.
//
// A nil *Guard is valid and guards nothing. Methods are safe for concurrent use.
type Guard struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	pipe *os.File
}

// StartGuard starts a guard: command, or this program if it has none, which
// must call [Main]. On a system without sessions the error matches
// ErrUnsupported.
func StartGuard(command []string, env ...string) (*Guard, error) {
	if !canSession {
		return nil, fmt.Errorf("%w: guard: %s has no sessions", lockspec.ErrUnsupported, runtime.GOOS)
	}
	command, err := orSelf(command)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	in, pipe, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	defer in.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(append(os.Environ(), env...), EnvGuard+"=1")
	cmd.Stdin = in
	ownSession(cmd)
	if err := cmd.Start(); err != nil {
		pipe.Close()
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &Guard{cmd: cmd, pipe: pipe}, nil
}

// orSelf is the command, or this program.
func orSelf(command []string) ([]string, error) {
	if len(command) > 0 {
		return command, nil
	}
	self, err := os.Executable()
	return []string{self}, err
}

// Started tells that a process group runs.
func (g *Guard) Started(pgid int) { g.tell(wordStart, strconv.Itoa(pgid)) }

// Ended tells that a process group was ended. It comes before its leader is
// reaped, because the number may name somebody else afterwards.
func (g *Guard) Ended(pgid int) { g.tell(wordEnd, strconv.Itoa(pgid)) }

// Folder tells that a temporary folder exists. It is below os.TempDir and its
// name begins with [FolderPrefix]; the guard ignores any other.
func (g *Guard) Folder(path string) { g.tell(wordFolder, path) }

// FolderGone tells that the folder was removed.
func (g *Guard) FolderGone(path string) { g.tell(wordGone, path) }

// The words of the guard's pipe: each a line with one quoted argument.
const (
	wordStart  = "start"
	wordEnd    = "end"
	wordFolder = "folder"
	wordGone   = "gone"
)

func (g *Guard) tell(word, what string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe != nil {
		_, _ = fmt.Fprintf(g.pipe, "%s %q\n", word, what) // a guard that was killed guards nothing
	}
}

// Close makes the guard clean up and waits for its exit, which is bounded. It
// is safe to call twice.
func (g *Guard) Close() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	pipe := g.pipe
	g.pipe = nil
	g.mu.Unlock()
	if pipe == nil {
		return nil
	}
	pipe.Close()
	kill := time.AfterFunc(2*guardLimit, func() { _ = g.cmd.Process.Kill() })
	defer kill.Stop()
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	return nil
}

// guard is the guard's own side: it reads in to its end, then cleans up.
func guard(in io.Reader) {
	groups, folders := map[int]bool{}, map[string]bool{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		word, quoted, _ := strings.Cut(lines.Text(), " ")
		what, err := strconv.Unquote(quoted)
		if err != nil {
			continue // the last line of a harness that was killed in the middle of it
		}
		pgid, _ := strconv.Atoi(what)
		switch word {
		case wordStart:
			if pgid > 1 { // no group of ours is that of init
				groups[pgid] = true
			}
		case wordEnd:
			delete(groups, pgid)
		case wordFolder:
			folders[what] = true
		case wordGone:
			delete(folders, what)
		}
	}
	cleanUp(groups, folders)
}

func cleanUp(groups map[int]bool, folders map[string]bool) {
	for pgid := range groups {
		_ = killGroup(pgid) // all first, then one by one
	}
	limit := time.Now().Add(guardLimit)
	for pgid := range groups {
		awaitGroup(pgid, limit)
	}
	for path := range folders {
		if ours(path) {
			_ = os.RemoveAll(path)
		}
	}
}

// awaitGroup ends what is left of a group and waits until it is gone. It kills
// more than once: a member may start another at the very moment of a kill.
func awaitGroup(pgid int, limit time.Time) {
	for groupAlive(pgid) && time.Now().Before(limit) {
		_ = killGroup(pgid)
		time.Sleep(2 * time.Millisecond)
	}
}

// ours says whether the folder is a temporary one of ours: below the folder for
// such, also after symbolic links, and marked as ours.
func ours(path string) bool {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || !strings.HasPrefix(filepath.Base(path), FolderPrefix) {
		return false
	}
	parent, err1 := filepath.EvalSymlinks(filepath.Dir(path))
	temp, err2 := filepath.EvalSymlinks(os.TempDir())
	if errors.Join(err1, err2) != nil {
		return false
	}
	up, err := filepath.Rel(temp, parent)
	return err == nil && filepath.IsLocal(up)
}
