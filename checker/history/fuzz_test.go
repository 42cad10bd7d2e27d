package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

var seedLines = []string{
	strings.TrimSpace(noteLine),
	`{"index":1,"time_ns":9904,"case":"A02","process":"p1","owner":"o1","node":"n1","type":"ok","op":"acquire","key":"orders/42","tenure":"t1","token":41,"lease_ns":2000000000}`,
	`{"index":3,"time_ns":21000,"type":"event","op":"fault","targets":["n1", "key:é"],"phase":"start","accepted":true}`,
	`{ "index" : -1 , "accepted":false , "key":"` + "\xff" + `"}`,
	`{"index":01}`, `{"index":9999999999999999999}`, `{"index":1.0}`, `{"index":9223372036854775807,"time_ns":1.5,"op":null,"token":"9007199254740993"}`,
	`{"index":123456789012345678,"op":"a","op":"b","targets":[]}`,
	`{"key_b64":"a/8=","message":"\n"}`,
	`{"index":1,}`, `{"count":99999999999}`, `{}`, `[]`, ``, `{"index":-0}`, `{"index":-}`, `{"index":1}}`, `{"accepted":truefalse}`,
	`{"index":12345678,"time_ns":1234567890123456,"sent_ns":-12345678901234567,"driver_ns":0000000000000000,"of":1234567890123456789}`,
	`{"index":1234567:,"time_ns":1234567/}`, `{"key":"seven77","process":"eight888","owner":"nine 9999","node":"sixteen 16 16 16"}`,
	"{\"key\":\"abc\x1fdefgh\"}", "{\"key\":\"abcdefgh\\u0041ijklmnop\",\"op\":\"\x00\"}", `{"key":"abcdefghijé","process":"é bcdefghij` + "\xc3" + `"}`,
}

// FuzzScanAgainstJSON holds the scanner against the decoder that goes through
// encoding/json: a line that the scanner accepts is valid JSON and means the
// same.
func FuzzScanAgainstJSON(f *testing.F) {
	for _, l := range seedLines {
		f.Add([]byte(l))
	}
	s := scanner{}
	f.Fuzz(func(t *testing.T, line []byte) {
		var scanned, decoded Event
		seen, ok := s.scan(&scanned, line)
		if !ok {
			return
		}
		seenToo, unknown, err := decode(&decoded, line)
		if !json.Valid(line) || err != nil || len(unknown) > 0 {
			t.Fatalf("scanned %q, which is wrong: %v, unknown %q", line, err, unknown)
		}
		if seen != seenToo || !reflect.DeepEqual(scanned, decoded) {
			t.Fatalf("%q\nscanned %x %+v\ndecoded %x %+v", line, seen, scanned, seenToo, decoded)
		}
	})
}

// FuzzReader feeds rubbish: it must not panic, and whatever it accepts must
// survive being recorded again.
func FuzzReader(f *testing.F) {
	for _, l := range seedLines {
		f.Add([]byte(headLine + l + "\n"))
	}
	f.Add([]byte(sealed(headLine + noteLine)))
	f.Add(zipped([]byte(sealed(headLine + noteLine))))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := ReadAll(bytes.NewReader(file))
		if err != nil {
			if s := (*SyntaxError)(nil); !errors.As(err, &s) || errors.Is(err, io.EOF) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for i := range h.Events {
			h.Events[i].Index = int64(i) // gaps are not kept
		}
		again, err := ReadAll(bytes.NewReader(written(t, h.Header, h.Events)))
		if err != nil || !reflect.DeepEqual(again.Events, h.Events) && len(h.Events) > 0 {
			t.Fatalf("%v\nread  %+v\nagain %+v", err, h.Events, again)
		}
	})
}
