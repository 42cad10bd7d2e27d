package driver

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Main(openToy)
	os.Exit(m.Run())
}
