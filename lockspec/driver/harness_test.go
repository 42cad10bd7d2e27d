package driver

import (
	"context"
	"fmt"
	"os"
	"time"
)

// harnessToKill is a harness with a guard, a running and a paused node with a
// child each, and a temporary folder. It prints what there is and waits for its
// end.
func harnessToKill() {
	guard, err := StartGuard(nil)
	if err != nil {
		panic(err)
	}
	folder, err := os.MkdirTemp("", FolderPrefix)
	if err != nil {
		panic(err)
	}
	guard.Folder(folder)
	fmt.Println("folder", folder)
	for i := range 2 {
		n, err := Start(context.Background(), Config{
			Name: fmt.Sprint("n", i), Guard: guard,
			Command: []string{"/bin/sh", "-c", `sleep 1000 & exec "$0"`, os.Args[0]},
		})
		if err != nil {
			panic(err)
		}
		if i == 1 {
			if err := n.Pause(); err != nil {
				panic(err)
			}
		}
		fmt.Println("group", n.PID())
	}
	fmt.Println("guard", guard.cmd.Process.Pid)
	time.Sleep(time.Minute)
	os.Exit(1)
}
