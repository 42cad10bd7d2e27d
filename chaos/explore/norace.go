//go:build !race

package explore

const shuffled = false
