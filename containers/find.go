package containers

import (
	"cmp"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// find is the path of the named program, or of the first that there is: on
// PATH, or in the newest of the folders, which are patterns.
func find(name string, programs, folders []string, install string) (string, error) {
	if name != "" {
		programs, folders = []string{name}, nil
	}
	for _, p := range programs {
		for _, path := range append([]string{p}, within(folders, p)...) {
			if path, err := exec.LookPath(path); err == nil {
				return filepath.Abs(path)
			}
		}
	}
	return "", &MissingError{Programs: programs, Install: install}
}

// within are the paths of a program in the folders, the newest version first.
func within(folders []string, name string) (paths []string) {
	for _, f := range folders {
		found, _ := filepath.Glob(filepath.Join(f, name))
		slices.SortFunc(found, func(a, b string) int { // 16 before 15, 10 before 9.6
			return cmp.Or(cmp.Compare(version(f, b), version(f, a)), strings.Compare(b, a))
		})
		paths = append(paths, found...)
	}
	return paths
}

var firstNumber = regexp.MustCompile(`\d+`)

// version is the first number in what stands for the star of a pattern.
func version(pattern, path string) int {
	fixed, _, _ := strings.Cut(pattern, "*")
	n, _ := strconv.Atoi(firstNumber.FindString(strings.TrimPrefix(path, fixed)))
	return n
}
