package result

import (
	"encoding/json"
	"fmt"
)

// Holds says whether a part of a proof holds: "true", "false", or "n/a" where
// there was nothing to prove. In JSON the first two are booleans.
type Holds string

// MarshalJSON writes true, false or "n/a".
func (h Holds) MarshalJSON() ([]byte, error) {
	if h == "true" || h == "false" {
		return []byte(h), nil
	}
	return json.Marshal(string(h))
}

// UnmarshalJSON reads a boolean or a word.
func (h *Holds) UnmarshalJSON(text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case bool, string:
		*h = Holds(fmt.Sprint(v))
		return nil
	}
	return fmt.Errorf("%s is no true, false or \"n/a\"", text)
}
