package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Folder is where a run keeps what it found. run.json comes first, the
// history is appended as it happens, everything else is written at the end.
type Folder struct{ path string }

// NewFolder makes <root>/<UTC>-<seed> and points <root>/latest at it. A folder
// of that name that is there already gets a number behind it.
func NewFolder(root string, started time.Time, seed int64) (*Folder, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	base := fmt.Sprintf("%s-%d", started.UTC().Format("20060102T150405Z"), seed)
	for n := 1; n < 1000; n++ {
		name := base
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		f := &Folder{filepath.Join(root, name)}
		err := os.Mkdir(f.path, 0o755)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil {
			err = os.Mkdir(f.Path("logs"), 0o755)
		}
		if err != nil {
			return nil, fmt.Errorf("run folder: %w", err)
		}
		f.pointLatest(root, name)
		return f, nil
	}
	return nil, fmt.Errorf("run folder: %s has too many runs named %s", root, base)
}

// pointLatest is best effort: some systems have no symbolic links, and nobody
// needs one to read a run.
func (f *Folder) pointLatest(root, name string) {
	link := filepath.Join(root, "latest")
	next := link + ".next"
	_ = os.Remove(next)
	if os.Symlink(name, next) == nil {
		_ = os.Rename(next, link)
	}
}

// OpenFolder opens an existing run folder.
func OpenFolder(path string) *Folder { return &Folder{path} }

// Path is the path of a file of the folder, or of the folder itself.
func (f *Folder) Path(name ...string) string {
	return filepath.Join(append([]string{f.path}, name...)...)
}

// WriteJSON writes a file of the folder, whole or not at all.
func (f *Folder) WriteJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.Write(name, append(data, '\n'))
}

// Write writes a file of the folder, whole or not at all.
func (f *Folder) Write(name string, data []byte) error {
	next := f.Path(name + ".next")
	if err := os.WriteFile(next, data, 0o644); err != nil {
		return err
	}
	return os.Rename(next, f.Path(name))
}

// ReadReport reads results.json. One of another schema is refused by name.
func (f *Folder) ReadReport() (*Report, error) {
	return ReadReport(f.Path("results.json"))
}
