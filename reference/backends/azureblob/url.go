package azureblob

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Form is how a URL of a container is written. A SAS may stand behind the
// question mark as Azure gives it, instead of a KEY.
const Form = "azblob://ACCOUNT[:KEY]@HOST[:PORT]/CONTAINER[?OPTION=VALUE&…]"

// Scheme begins it.
const Scheme = "azblob"

// settings are what a URL says behind its question mark.
type settings struct {
	Options
	plain bool // no TLS
}

var urlOptions = map[string]func(s *settings, value string) error{
	"prefix":   func(s *settings, v string) error { s.Prefix = v; return nil },
	"fencing":  func(s *settings, v string) error { return onOff(&s.Unfenced, v) },
	"tls":      func(s *settings, v string) error { return onOff(&s.plain, v) },
	"lease":    func(s *settings, v string) error { return duration(&s.Lease, v) },
	"takeover": func(s *settings, v string) error { return duration(&s.Takeover, v) },
}

// sasFields are the names of which a shared access signature consists
// (https://learn.microsoft.com/rest/api/storageservices/create-account-sas and
// its neighbours for a service and a user delegation).
var sasFields = []string{"sv", "ss", "srt", "sr", "sp", "st", "se", "sip", "spr", "ses", "sig", "si", "sdd",
	"skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "scid"}

// ParseURL reads a URL of the scheme azblob: the container's own URL, and what
// the options say. An error matches ErrConfig, names the setting that is
// wrong, and holds nothing of a key or a signature.
func ParseURL(text string) (containerURL string, o *Options, err error) {
	u, err := url.Parse(text)
	if err != nil {
		// What package url says may quote any part of the text.
		return "", nil, wrong("the URL cannot be read, the form is %s; in a key, write %%2F for /, %%2B for +, %%3D for =", Form)
	}
	if u.Scheme != Scheme {
		return "", nil, wrong("scheme %q is not %s", u.Scheme, Scheme)
	}
	account, container := u.User.Username(), strings.Trim(u.Path, "/")
	switch {
	case u.Hostname() == "" || u.Opaque != "":
		return "", nil, wrong("the URL names no HOST, the form is %s", Form)
	case account == "":
		return "", nil, wrong("the URL names no ACCOUNT, the form is %s", Form)
	case container == "" || strings.Contains(container, "/"):
		return "", nil, wrong("CONTAINER is %q, not one name; the form is %s", container, Form)
	}
	var s settings
	s.Account = account
	s.Key, _ = u.User.Password()
	if err := s.apply(u.Query()); err != nil {
		return "", nil, err
	}
	if _, err := s.Options.withDefaults(); err != nil {
		return "", nil, err
	}
	return s.containerURL(u, container), &s.Options, nil
}

// containerURL: an emulator has its accounts in the path, because nothing on
// one machine has a name for each of them.
func (s *settings) containerURL(u *url.URL, container string) string {
	to := url.URL{Scheme: "https", Host: u.Host, Path: "/" + container}
	if s.plain {
		to.Scheme = "http"
	}
	if host := u.Hostname(); net.ParseIP(host) != nil || !strings.Contains(host, ".") {
		to.Path = "/" + s.Account + to.Path
	}
	return to.String()
}

func (s *settings) apply(q url.Values) error {
	sas := url.Values{}
	known := slices.Sorted(maps.Keys(urlOptions))
	for _, name := range slices.Sorted(maps.Keys(q)) {
		set := urlOptions[name]
		if set == nil && slices.Contains(sasFields, name) {
			sas[name] = q[name]
			continue
		}
		if set == nil {
			return wrong("unknown option %q; there are %s, and the fields of a SAS", name, strings.Join(known, ", "))
		}
		if len(q[name]) != 1 || q[name][0] == "" {
			return wrong("option %q needs one value", name)
		}
		if err := set(s, q[name][0]); err != nil {
			return wrong("option %q is %w", name, err)
		}
	}
	if len(sas) > 0 && sas.Get("sig") == "" {
		return wrong("the SAS has no sig: its signature is missing")
	}
	s.SAS = sas.Encode()
	return nil
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %w", lockspec.ErrConfig, fmt.Errorf(format, args...))
}

func onOff(off *bool, text string) error {
	if text != "on" && text != "off" {
		return fmt.Errorf("%q, neither on nor off", text)
	}
	*off = text == "off"
	return nil
}

func duration(d *time.Duration, text string) (err error) {
	if *d, err = time.ParseDuration(text); err != nil || *d <= 0 {
		return fmt.Errorf("%q, not a time such as 15s", text)
	}
	return nil
}
