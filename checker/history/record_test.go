package history

import (
	"bytes"
	"fmt"
	"testing"
)

func TestTry(t *testing.T) {
	var b bytes.Buffer
	r, err := NewRecorder(Header{Class: "lease"}, &Options{Out: &b})
	if err != nil {
		t.Fatal(err)
	}
	r.Record(&Event{Case: "A02", Process: "p1", Owner: "o1", Node: "n1", Type: Invoke, Op: Acquire, Key: "k\xff", Ask: 2e9})
	r.Record(&Event{Case: "A02", Process: "p1", Owner: "o1", Node: "n1", Type: OK, Op: Acquire, Key: "k\"é", Ask: 2e9, Tenure: "t1", Token: 1 << 60})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	fmt.Println(b.String())
	h, err := ReadAll(&b)
	fmt.Printf("%+v %v\n", h, err)
}
