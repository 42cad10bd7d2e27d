package history

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func TestPartOfAHistoryIsAHistory(t *testing.T) {
	h := Header{Seed: 7, Class: "lease"}
	events := []Event{
		{Index: 3, Time: 10, Case: "A01", Process: "p1", Type: Invoke, Op: Acquire, Key: "k"},
		{Index: 9, Time: 12, Case: "A01", Process: "p1", Type: OK, Op: Acquire, Key: "k", Tenure: "t1", Lease: 5, Token: 1},
	}
	var out bytes.Buffer
	if err := WriteAll(&out, h, events); err != nil {
		t.Fatal(err)
	}
	got, err := ReadAll(&out)
	if err != nil {
		t.Fatal(err)
	}
	if got.Truncated || got.Header.Seed != 7 || !reflect.DeepEqual(got.Events, events) {
		t.Errorf("%+v", got)
	}
}

type broken struct{}

var errBroken = errors.New("disk full")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteAllTellsWhatItCouldNotWrite(t *testing.T) {
	if err := WriteAll(broken{}, Header{Class: "lease"}, nil); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}
